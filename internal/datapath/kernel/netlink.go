// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Netlink messages are encoded and parsed by hand: the libraries lack a rule's action, an address's metric, the family of a VXLAN and IPv6
// checksums, and would parse whole messages where a few bytes are compared.

// sockets are the netlink sockets of one network namespace, by protocol.
type sockets map[int]*nl.SocketHandle

// replyTimeout is generous: a missing reply means a broken kernel.
var replyTimeout = unix.Timeval{Sec: 30}

func dialNetlink(ns netns.NsHandle) (sockets, error) {
	s := sockets{}
	for _, protocol := range []int{unix.NETLINK_ROUTE, unix.NETLINK_NETFILTER} {
		socket, err := nl.GetNetlinkSocketAt(ns, netns.None(), protocol)
		if err != nil {
			s.closeAll()
			return nil, fmt.Errorf("opening a netlink socket of protocol %d: %w", protocol, err)
		}
		s[protocol] = &nl.SocketHandle{Socket: socket}
		if err := errors.Join(socket.SetReceiveTimeout(&replyTimeout), socket.SetSendTimeout(&replyTimeout)); err != nil {
			s.closeAll()
			return nil, fmt.Errorf("setting timeouts: %w", err)
		}
	}
	// Strict checking makes the kernel filter dumps; without it (before Linux 4.20) dumps are only longer.
	_ = unix.SetsockoptInt(s[unix.NETLINK_ROUTE].Socket.GetFd(), unix.SOL_NETLINK, unix.NETLINK_GET_STRICT_CHK, 1)
	// Errors of a batch need not echo the request.
	_ = unix.SetsockoptInt(s[unix.NETLINK_NETFILTER].Socket.GetFd(), unix.SOL_NETLINK, unix.NETLINK_CAP_ACK, 1)
	return s, nil
}

func (s sockets) closeAll() {
	for _, one := range s {
		one.Close()
	}
}

func (s sockets) sendRequest(protocol, kind, flags int, body []byte) ([][]byte, error) {
	req := &nl.NetlinkRequest{
		NlMsghdr: unix.NlMsghdr{Len: unix.SizeofNlMsghdr, Type: uint16(kind), Flags: uint16(unix.NLM_F_REQUEST | flags)},
		Sockets:  s,
	}
	req.AddRawData(body)
	return req.Execute(protocol, 0)
}

// dumps is the number of attempts of a dump interrupted by concurrent changes.
const dumps = 10

// dumpAll passes each message of a dump to read. The last of many interrupted attempts may be inconsistent: the watch reports the changes
// behind the interruption.
func (s sockets) dumpAll(protocol, kind int, body []byte, read func(msg []byte) error) error {
	var msgs [][]byte
	var err error
	for range dumps {
		if msgs, err = s.sendRequest(protocol, kind, unix.NLM_F_DUMP, body); !errors.Is(err, nl.ErrDumpInterrupted) {
			break
		}
	}
	if err != nil && !errors.Is(err, nl.ErrDumpInterrupted) {
		return err
	}
	for _, msg := range msgs {
		if err := read(msg); err != nil {
			return err
		}
	}
	return nil
}

// nativeOrder returns the host byte order, used by rtnetlink.
func nativeOrder() binary.ByteOrder { return nl.NativeEndian() }

// encodeAttr encodes an attribute with the concatenated data.
func encodeAttr(kind uint16, data ...[]byte) []byte {
	out := make([]byte, unix.SizeofRtAttr)
	for _, d := range data {
		out = append(out, d...)
	}
	nativeOrder().PutUint16(out, uint16(len(out)))
	nativeOrder().PutUint16(out[2:], kind)
	return append(out, make([]byte, -len(out)&3)...)
}

func encodeNested(kind uint16, attrs ...[]byte) []byte {
	return encodeAttr(kind|unix.NLA_F_NESTED, attrs...)
}

func joinBytes(parts ...[]byte) []byte {
	var out []byte
	for _, p := range parts {
		out = append(out, p...)
	}
	return out
}

func nativeUint32[T ~int | ~int32 | ~uint32](n T) []byte {
	out := make([]byte, 4)
	nativeOrder().PutUint32(out, uint32(n))
	return out
}

func nativeUint16(n uint16) []byte {
	out := make([]byte, 2)
	nativeOrder().PutUint16(out, n)
	return out
}

func bigUint32[T ~int | ~int32 | ~uint32](n T) []byte {
	return binary.BigEndian.AppendUint32(nil, uint32(n))
}

func bigUint16(n uint16) []byte { return binary.BigEndian.AppendUint16(nil, n) }

func zeroEnded(s string) []byte { return append([]byte(s), 0) }

// attrTypeMask removes the flags from an attribute type.
const attrTypeMask = 0x3fff

// eachAttr calls f with every attribute of b, without padding and flags.
func eachAttr(b []byte, f func(kind uint16, data []byte)) {
	for len(b) >= unix.SizeofRtAttr {
		size := int(nativeOrder().Uint16(b))
		if size < unix.SizeofRtAttr || size > len(b) {
			return
		}
		f(nativeOrder().Uint16(b[2:])&attrTypeMask, b[unix.SizeofRtAttr:size])
		b = b[min((size+3)&^3, len(b)):]
	}
}

// attributes are the attributes of a message or nested attribute, by type; the last one of a type wins.
type attributes map[uint16][]byte

func parseAttrs(b []byte) attributes {
	a := attributes{}
	eachAttr(b, func(kind uint16, data []byte) { a[kind] = data })
	return a
}

// parseBody parses the attributes after the fixed header of a message.
func parseBody(msg []byte, fixed int) attributes { return parseAttrs(msg[min(fixed, len(msg)):]) }

func (a attributes) nativeUint32(kind uint16) uint32 {
	if len(a[kind]) < 4 {
		return 0
	}
	return nativeOrder().Uint32(a[kind])
}

func (a attributes) bigUint32(kind uint16) uint32 {
	if len(a[kind]) < 4 {
		return 0
	}
	return binary.BigEndian.Uint32(a[kind])
}

func (a attributes) bigUint64(kind uint16) uint64 {
	if len(a[kind]) < 8 {
		return 0
	}
	return binary.BigEndian.Uint64(a[kind])
}

func (a attributes) uint8Of(kind uint16) byte {
	if len(a[kind]) < 1 {
		return 0
	}
	return a[kind][0]
}

func (a attributes) stringOf(kind uint16) string { return strings.TrimRight(string(a[kind]), "\x00") }

func (a attributes) addrOf(kind uint16) netip.Addr {
	addr, _ := netip.AddrFromSlice(a[kind])
	return addr
}

func (a attributes) macOf(kind uint16) (mac [6]byte) {
	copy(mac[:], a[kind])
	return mac
}

// prefixOf returns the attribute's address with a prefix length; without the attribute, the unspecified address of the family.
func (a attributes) prefixOf(kind uint16, bits int, family byte) netip.Prefix {
	addr := a.addrOf(kind)
	if !addr.IsValid() {
		addr = netip.IPv4Unspecified()
		if family == unix.AF_INET6 {
			addr = netip.IPv6Unspecified()
		}
	}
	return netip.PrefixFrom(addr, bits)
}

func familyOf(a netip.Addr) byte {
	if a.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}
