// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/network/plan"
)

// echoSocket is an ICMP echo request of either family: headers, tag of the path, send time, and padding.
type echoSocket struct {
	way   uint64
	asked time.Time
	size  int // of the packet including its IP header, in bytes
}

// Types of ICMP messages.
const (
	request4, reply4 = 8, 0
	request6, reply6 = 128, 129
)

const (
	ethernetHeader = 14
	icmpHeader     = 8
	body           = 16 // way and time
	hops           = 64
)

// smallestPacket is the size of a small probe.
func smallestPacket(to netip.Addr) int { return ipHeader(to) + icmpHeader + body }

func ipHeader(a netip.Addr) int {
	if a.Is4() {
		return 20
	}
	return 40
}

// encodeFrame returns the request with IP and Ethernet headers, for the device that injects probes. The request has the don't-fragment bit, like
// packets of pods.
func (e echoSocket) encodeFrame(from, to netip.Addr, id, sequence uint16) []byte {
	out := make([]byte, ethernetHeader, ethernetHeader+max(e.size, smallestPacket(to)))
	mac := plan.ProbeMAC()
	copy(out, mac[:])
	binary.BigEndian.PutUint16(out[12:], unix.ETH_P_IPV6)
	if to.Is4() {
		binary.BigEndian.PutUint16(out[12:], unix.ETH_P_IP)
	}
	question := e.encodeQuestion(from, to, id, sequence)
	return append(append(out, encodeHeader(from, to, len(question))...), question...)
}

// encodeHeader returns the IP header for the given number of bytes of ICMP.
func encodeHeader(from, to netip.Addr, payload int) []byte {
	out := make([]byte, ipHeader(to))
	if !to.Is4() {
		out[0], out[6], out[7] = 6<<4, unix.IPPROTO_ICMPV6, hops
		binary.BigEndian.PutUint16(out[4:], uint16(payload))
		copy(out[8:], from.AsSlice())
		copy(out[24:], to.AsSlice())
		return out
	}
	const dontFragment = 0x40
	out[0], out[6], out[8], out[9] = 4<<4|5, dontFragment, hops, unix.IPPROTO_ICMP
	binary.BigEndian.PutUint16(out[2:], uint16(len(out)+payload))
	copy(out[12:], from.AsSlice())
	copy(out[16:], to.AsSlice())
	binary.BigEndian.PutUint16(out[10:], inetChecksum(out))
	return out
}

// encodeQuestion is the message of ICMP.
func (e echoSocket) encodeQuestion(from, to netip.Addr, id, sequence uint16) []byte {
	out := make([]byte, max(e.size-ipHeader(to), icmpHeader+body))
	out[0] = request6
	if to.Is4() {
		out[0] = request4
	}
	binary.BigEndian.PutUint16(out[4:], id)
	binary.BigEndian.PutUint16(out[6:], sequence)
	binary.BigEndian.PutUint64(out[icmpHeader:], e.way)
	binary.BigEndian.PutUint64(out[icmpHeader+8:], uint64(e.asked.UnixNano()))
	binary.BigEndian.PutUint16(out[2:], icmpChecksum(from, to, out))
	return out
}

// icmpChecksum returns the checksum of a message whose checksum field is zero. For IPv6 it covers addresses, length and protocol, too
// (RFC 4443, section 2.3).
func icmpChecksum(from, to netip.Addr, message []byte) uint16 {
	if to.Is4() {
		return inetChecksum(message)
	}
	pseudo := append(from.AsSlice(), to.AsSlice()...)
	pseudo = binary.BigEndian.AppendUint32(pseudo, uint32(len(message)))
	pseudo = binary.BigEndian.AppendUint32(pseudo, unix.IPPROTO_ICMPV6)
	return inetChecksum(append(pseudo, message...))
}

// decodeEcho returns the echo reply in a frame and its source; false if the frame is no echo reply.
func decodeEcho(frame []byte) (netip.Addr, echoSocket, bool) {
	if len(frame) < ethernetHeader {
		return netip.Addr{}, echoSocket{}, false
	}
	packet := frame[ethernetHeader:]
	var from netip.Addr
	var message []byte
	var want byte
	switch binary.BigEndian.Uint16(frame[12:]) {
	case unix.ETH_P_IP:
		if len(packet) < 20 || packet[0] != 4<<4|5 || packet[9] != unix.IPPROTO_ICMP || binary.BigEndian.Uint16(packet[6:])&0x3fff != 0 {
			return from, echoSocket{}, false // IP options, or a fragment
		}
		size := int(binary.BigEndian.Uint16(packet[2:]))
		if size < 20 || size > len(packet) {
			return from, echoSocket{}, false
		}
		from, message, want = netip.AddrFrom4([4]byte(packet[12:])), packet[20:size], reply4
	case unix.ETH_P_IPV6:
		if len(packet) < 40 || packet[6] != unix.IPPROTO_ICMPV6 {
			return from, echoSocket{}, false
		}
		size := 40 + int(binary.BigEndian.Uint16(packet[4:]))
		if size > len(packet) {
			return from, echoSocket{}, false
		}
		from, message, want = netip.AddrFrom16([16]byte(packet[8:])), packet[40:size], reply6
	}
	if len(message) < icmpHeader+body || message[0] != want || message[1] != 0 {
		return from, echoSocket{}, false
	}
	return from, echoSocket{
		way:   binary.BigEndian.Uint64(message[icmpHeader:]),
		asked: time.Unix(0, int64(binary.BigEndian.Uint64(message[icmpHeader+8:]))),
		size:  ipHeader(from) + len(message),
	}, true
}

// inetChecksum returns the IP checksum of data whose checksum field is zero.
func inetChecksum(data []byte) uint16 {
	var sum uint32
	for i := 0; i+1 < len(data); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(data[i:]))
	}
	if len(data)%2 == 1 {
		sum += uint32(data[len(data)-1]) << 8
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

// listenRaw opens a socket that injects frames like the frames of a pod, and receives the replies.
func listenRaw() (io.ReadWriteCloser, error) {
	device, err := net.InterfaceByName(names.EchoDevice)
	if err != nil {
		return nil, fmt.Errorf("looking for the device %s: %w", names.EchoDevice, err)
	}
	all := binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, unix.ETH_P_ALL))
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0) // receives nothing until bind
	if err != nil {
		return nil, fmt.Errorf("opening a socket for frames: %w", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: device.Index}); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("listening on %s: %w", names.EchoDevice, err)
	}
	return os.NewFile(uintptr(fd), names.EchoDevice), nil
}
