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

// Messages are made and read here byte by byte: the libraries hide some of what we need to say (a rule's action, an
// address's metric, the family of a VXLAN, checksums of IPv6), and would read whole what is compared by a few bytes only.

// sockets are the two conversations with the kernel, held in one network namespace.
type sockets map[int]*nl.SocketHandle

// replyTimeout is generous: a reply that does not come at all is a broken kernel.
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
	// Dumps that the kernel filters need this; without it (before Linux 4.20) only more is read than is looked at.
	_ = unix.SetsockoptInt(s[unix.NETLINK_ROUTE].Socket.GetFd(), unix.SOL_NETLINK, unix.NETLINK_GET_STRICT_CHK, 1)
	// Errors of a batch need not bring back what was sent.
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

// dumps is how often a dump is begun anew when something changed meanwhile.
const dumps = 10

// dumpAll gives each message of a dump to read. What changed meanwhile may be missing in the last of many attempts: whoever
// watches is told of it.
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

// nativeOrder is the machine's byte order, which rtnetlink speaks.
func nativeOrder() binary.ByteOrder { return nl.NativeEndian() }

// encodeAttr is an attribute with its data put together.
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

// attrTypeMask takes the flags of an attribute's type away.
const attrTypeMask = 0x3fff

// eachAttr calls f with every attribute of b. Padding and flags are gone.
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

// attributes are those of a message or of an attribute, by kind; of two of a kind the later one.
type attributes map[uint16][]byte

func parseAttrs(b []byte) attributes {
	a := attributes{}
	eachAttr(b, func(kind uint16, data []byte) { a[kind] = data })
	return a
}

// parseBody is what follows the fixed part of a message.
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

// prefixOf is of so many bits of the address; without an address it is all of the family's.
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
