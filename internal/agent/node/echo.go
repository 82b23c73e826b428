// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// echo is an ICMP echo of either family, as a question: header, which way it is of, when it was asked, and padding.
type echo struct {
	way   uint64
	asked time.Time
	size  int // of the packet with its IP header, in bytes
}

// Types of ICMP messages.
const (
	request4, reply4 = 8, 0
	request6, reply6 = 128, 129
)

const (
	icmpHeader = 8
	body       = 16 // way and time
)

// smallest is the size of a small probe.
func smallest(to netip.Addr) int { return ipHeader(to) + icmpHeader + body }

func ipHeader(a netip.Addr) int {
	if a.Is4() {
		return 20
	}
	return 40
}

// question is the message of an echo to an address, without the IP header. The kernel fills in the checksum of IPv6.
func (e echo) question(to netip.Addr, id, sequence uint16) []byte {
	out := make([]byte, max(e.size-ipHeader(to), icmpHeader+body))
	out[0] = request6
	if to.Is4() {
		out[0] = request4
	}
	binary.BigEndian.PutUint16(out[4:], id)
	binary.BigEndian.PutUint16(out[6:], sequence)
	binary.BigEndian.PutUint64(out[icmpHeader:], e.way)
	binary.BigEndian.PutUint64(out[icmpHeader+8:], uint64(e.asked.UnixNano()))
	if to.Is4() {
		binary.BigEndian.PutUint16(out[2:], checksum(out))
	}
	return out
}

// decodeEcho reads an answer; false if it is none.
func decodeEcho(from netip.Addr, data []byte) (echo, bool) {
	want := byte(reply6)
	if from.Is4() {
		want = reply4
	}
	if len(data) < icmpHeader+body || data[0] != want || data[1] != 0 {
		return echo{}, false
	}
	return echo{
		way:   binary.BigEndian.Uint64(data[icmpHeader:]),
		asked: time.Unix(0, int64(binary.BigEndian.Uint64(data[icmpHeader+8:]))),
		size:  ipHeader(from) + len(data),
	}, true
}

// checksum is that of IP, of data whose own is zero.
func checksum(data []byte) uint16 {
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

// listen opens a socket that asks from an address of this node. It hears answers to that address, and nothing else: a node gets many
// messages that are for others. What fits the route is not to be fragmented, as packets of pods are not.
func listen(from netip.Addr) (*net.IPConn, error) {
	network := "ip6:ipv6-icmp"
	if from.Is4() {
		network = "ip4:icmp"
	}
	conn, err := net.ListenIP(network, &net.IPAddr{IP: from.AsSlice()})
	if err != nil {
		return nil, fmt.Errorf("listening for echoes at %s: %w", from, err)
	}
	raw, err := conn.SyscallConn()
	if err == nil {
		if failed := raw.Control(func(fd uintptr) { err = onlyAnswers(int(fd), from.Is4()) }); failed != nil {
			err = failed
		}
	}
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("preparing a socket for echoes at %s: %w", from, err)
	}
	return conn, nil
}

// onlyAnswers sets which types are not wanted, one bit each.
func onlyAnswers(fd int, four bool) error {
	if four {
		const all uint32 = 1<<32 - 1
		unwanted := all &^ (1 << reply4)
		if err := unix.SetsockoptInt(fd, unix.SOL_RAW, unix.ICMP_FILTER, int(int32(unwanted))); err != nil {
			return err
		}
		return unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_WANT)
	}
	var filter unix.ICMPv6Filter
	for i := range filter.Data {
		filter.Data[i] = 1<<32 - 1
	}
	filter.Data[reply6>>5] &^= 1 << (reply6 & 31)
	if err := unix.SetsockoptICMPv6Filter(fd, unix.IPPROTO_ICMPV6, unix.ICMPV6_FILTER, &filter); err != nil {
		return err
	}
	return unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_WANT)
}
