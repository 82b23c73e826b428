// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package capture records packets into a file that tcpdump and Wireshark read.
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

// snapshot is the most that is kept of a packet.
const snapshot = 65535

// room is for packets that wait to be written, in bytes: a busy machine has many at once.
const room = 64 << 20

// Run records what passes the ports of a bridge in the calling thread's network namespace until the context ends. It is an error if that is not
// all that passed.
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
	// The bridge itself shows only what is for the world; promiscuous, also what passes between its ports.
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: bigEndian(unix.ETH_P_ALL), Ifindex: link.Index}); err != nil {
		return fmt.Errorf("listening on %s: %w", bridge, err)
	}
	mreq := unix.PacketMreq{Ifindex: int32(link.Index), Type: unix.PACKET_MR_PROMISC}
	if err := unix.SetsockoptPacketMreq(fd, unix.SOL_PACKET, unix.PACKET_ADD_MEMBERSHIP, &mreq); err != nil {
		return fmt.Errorf("listening to everything on %s: %w", bridge, err)
	}
	// So that an interrupt is noticed while nothing passes.
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 200_000}); err != nil {
		return fmt.Errorf("setting a time limit: %w", err)
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, room); err != nil {
		return fmt.Errorf("making room for packets: %w", err)
	}
	if err := record(ctx, fd, out); err != nil {
		return err
	}
	stats, err := unix.GetsockoptTpacketStats(fd, unix.SOL_PACKET, unix.PACKET_STATISTICS)
	if err != nil {
		return fmt.Errorf("counting packets: %w", err)
	}
	if stats.Drops > 0 {
		return fmt.Errorf("%d packets are missing: they came faster than they could be written", stats.Drops)
	}
	return nil
}

func record(ctx context.Context, fd int, out io.Writer) error {
	w := bufio.NewWriter(out)
	w.Write(header())
	packet := make([]byte, snapshot)
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
		w.Write(frame(time.Now(), n))
		w.Write(packet[:n])
	}
	return w.Flush()
}

// header begins a file of Ethernet packets with times in nanoseconds.
func header() []byte {
	b := binary.LittleEndian.AppendUint32(nil, 0xa1b23c4d)
	b = binary.LittleEndian.AppendUint16(b, 2)
	b = binary.LittleEndian.AppendUint16(b, 4)
	b = append(b, make([]byte, 8)...)
	b = binary.LittleEndian.AppendUint32(b, snapshot)
	return binary.LittleEndian.AppendUint32(b, 1)
}

// frame comes before every packet.
func frame(at time.Time, n int) []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(at.Unix()))
	b = binary.LittleEndian.AppendUint32(b, uint32(at.Nanosecond()))
	b = binary.LittleEndian.AppendUint32(b, uint32(n))
	return binary.LittleEndian.AppendUint32(b, uint32(n))
}

func bigEndian(v uint16) uint16 { return v<<8 | v>>8 }
