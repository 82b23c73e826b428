// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package capture records packets in a pcap file.
package capture

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// snapLength is the number of bytes that are recorded of a packet.
const snapLength = 65535

// receiveBuffer is the size of the socket's receive buffer in bytes: on a busy machine many packets wait to be written.
const receiveBuffer = 64 << 20

// Run records the packets of a bridge's ports in the calling thread's network namespace until the context ends. It returns an error if
// packets were dropped.
func Run(ctx context.Context, bridge string, out io.Writer) error {
	link, err := net.InterfaceByName(bridge)
	if err != nil {
		return fmt.Errorf("finding %s: %w", bridge, err)
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, int(bigEndian(unix.ETH_P_ALL)))
	if err != nil {
		return fmt.Errorf("opening a packet socket: %w", err)
	}
	defer unix.Close(fd)
	// Without promiscuous mode the bridge receives only packets to its own addresses, not those between its ports.
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: bigEndian(unix.ETH_P_ALL), Ifindex: link.Index}); err != nil {
		return fmt.Errorf("listening on %s: %w", bridge, err)
	}
	mreq := unix.PacketMreq{Ifindex: int32(link.Index), Type: unix.PACKET_MR_PROMISC}
	if err := unix.SetsockoptPacketMreq(fd, unix.SOL_PACKET, unix.PACKET_ADD_MEMBERSHIP, &mreq); err != nil {
		return fmt.Errorf("listening to everything on %s: %w", bridge, err)
	}
	// The timeout lets an interrupt end the recording while no packets arrive.
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 200_000}); err != nil {
		return fmt.Errorf("setting the receive timeout: %w", err)
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, receiveBuffer); err != nil {
		return fmt.Errorf("setting the size of the receive buffer: %w", err)
	}
	if err := recordPackets(ctx, fd, out); err != nil {
		return err
	}
	stats, err := unix.GetsockoptTpacketStats(fd, unix.SOL_PACKET, unix.PACKET_STATISTICS)
	if err != nil {
		return fmt.Errorf("counting packets: %w", err)
	}
	if stats.Drops > 0 {
		return fmt.Errorf("%d packets were dropped because they could not be written fast enough", stats.Drops)
	}
	return nil
}

func recordPackets(ctx context.Context, fd int, out io.Writer) error {
	w := bufio.NewWriter(out)
	w.Write(fileHeader())
	packet := make([]byte, snapLength)
	for ctx.Err() == nil {
		n, _, err := unix.Recvfrom(fd, packet, 0)
		switch {
		case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR):
			if err := w.Flush(); err != nil {
				return err
			}
			continue
		case err != nil:
			return fmt.Errorf("receiving: %w", err)
		}
		w.Write(packetHeader(time.Now(), n))
		w.Write(packet[:n])
	}
	return w.Flush()
}

// fileHeader returns the header of a pcap file of Ethernet packets with times in nanoseconds.
func fileHeader() []byte {
	b := binary.LittleEndian.AppendUint32(nil, 0xa1b23c4d)
	b = binary.LittleEndian.AppendUint16(b, 2)
	b = binary.LittleEndian.AppendUint16(b, 4)
	b = append(b, make([]byte, 8)...)
	b = binary.LittleEndian.AppendUint32(b, snapLength)
	return binary.LittleEndian.AppendUint32(b, 1)
}

// packetHeader returns the header of a packet.
func packetHeader(at time.Time, n int) []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(at.Unix()))
	b = binary.LittleEndian.AppendUint32(b, uint32(at.Nanosecond()))
	b = binary.LittleEndian.AppendUint32(b, uint32(n))
	return binary.LittleEndian.AppendUint32(b, uint32(n))
}

func bigEndian(v uint16) uint16 { return v<<8 | v>>8 }
