// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package wg

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// prefixesPerMessage keeps a message far below 64 KiB, the limit of a nested attribute.
const prefixesPerMessage = 1000

// kernelEngine is WireGuard in the kernel, configured by generic netlink.
type kernelEngine struct {
	name string
	call func(command uint8, flags int, attrs []*nl.RtAttr) ([][]byte, error) // nil = the kernel
}

func (e *kernelEngine) getState() (deviceState, error) {
	response, err := e.sendCommand(unix.WG_CMD_GET_DEVICE, unix.NLM_F_DUMP, []*nl.RtAttr{nameAttr(e.name)})
	if errors.Is(err, unix.ENODEV) {
		err = errGone
	}
	if err != nil {
		return deviceState{}, fmt.Errorf("reading the state: %w", err)
	}
	s, err := parseDump(response)
	if err != nil {
		return deviceState{}, err
	}
	link, err := netlink.LinkByName(e.name)
	if errors.As(err, &netlink.LinkNotFoundError{}) { // deleted meanwhile
		return s, nil
	}
	if err != nil {
		return deviceState{}, fmt.Errorf("reading the counters of the link: %w", err)
	}
	if counted := link.Attrs().Statistics; counted != nil {
		s.refused = counted.RxFrameErrors
	}
	return s, nil
}

func (e *kernelEngine) applyChange(c configChange) error {
	for _, attrs := range splitMessages(e.name, c) {
		if _, err := e.sendCommand(unix.WG_CMD_SET_DEVICE, unix.NLM_F_ACK, attrs); err != nil {
			return fmt.Errorf("writing the change: %w", err)
		}
	}
	return nil
}

func (e *kernelEngine) start(int) error { return nil } // the kernel starts when the link is up
func (e *kernelEngine) close() error    { return nil }

func (e *kernelEngine) remove() error {
	link, err := netlink.LinkByName(e.name)
	if err != nil {
		return fmt.Errorf("looking for the link: %w", err)
	}
	if err := netlink.LinkDel(link); err != nil {
		return fmt.Errorf("deleting the link: %w", err)
	}
	return nil
}

func (e *kernelEngine) sendCommand(command uint8, flags int, attrs []*nl.RtAttr) ([][]byte, error) {
	if e.call != nil {
		return e.call(command, flags, attrs)
	}
	family, err := netlink.GenlFamilyGet(unix.WG_GENL_NAME)
	if err != nil {
		return nil, fmt.Errorf("finding WireGuard's netlink family: %w", err)
	}
	req := nl.NewNetlinkRequest(int(family.ID), flags)
	req.AddData(&nl.Genlmsg{Command: command, Version: unix.WG_GENL_VERSION})
	for _, a := range attrs {
		req.AddData(a)
	}
	return req.Execute(unix.NETLINK_GENERIC, 0)
}

// splitMessages returns the requests for a change: one for the device, then at least one per peer.
func splitMessages(name string, c configChange) [][]*nl.RtAttr {
	var out [][]*nl.RtAttr
	if c.privateKey != nil || c.listenPort != nil || c.mark != nil {
		attrs := []*nl.RtAttr{nameAttr(name)}
		if c.privateKey != nil {
			attrs = append(attrs, nl.NewRtAttr(unix.WGDEVICE_A_PRIVATE_KEY, c.privateKey[:]))
		}
		if c.listenPort != nil {
			attrs = append(attrs, nl.NewRtAttr(unix.WGDEVICE_A_LISTEN_PORT, nl.Uint16Attr(*c.listenPort)))
		}
		if c.mark != nil {
			attrs = append(attrs, nl.NewRtAttr(unix.WGDEVICE_A_FWMARK, nl.Uint32Attr(*c.mark)))
		}
		out = append(out, attrs)
	}
	for _, p := range c.peers {
		for _, peer := range p.toAttr() {
			peers := nestedAttr(unix.WGDEVICE_A_PEERS)
			peers.AddChild(peer)
			out = append(out, []*nl.RtAttr{nameAttr(name), peers})
		}
	}
	return out
}

// toAttr returns the attributes of a peer, in several parts if it has very many prefixes. A dropped prefix replaces the whole list: kernels
// before 6.16 cannot drop single prefixes.
func (p peerChange) toAttr() []*nl.RtAttr {
	list, flags := p.add, uint32(0)
	if len(p.drop) > 0 {
		list, flags = p.allowedIPs, unix.WGPEER_F_REPLACE_ALLOWEDIPS
	}
	if p.remove {
		list, flags = nil, unix.WGPEER_F_REMOVE_ME
	}
	first := nestedAttr(0)
	first.AddRtAttr(unix.WGPEER_A_PUBLIC_KEY, p.key[:])
	if flags != 0 {
		first.AddRtAttr(unix.WGPEER_A_FLAGS, nl.Uint32Attr(flags))
	}
	if p.endpoint.IsValid() {
		first.AddRtAttr(unix.WGPEER_A_ENDPOINT, encodeSockaddr(p.endpoint))
	}
	if p.keepalive != nil {
		first.AddRtAttr(unix.WGPEER_A_PERSISTENT_KEEPALIVE_INTERVAL, nl.Uint16Attr(uint16(*p.keepalive/time.Second)))
	}
	parts := []*nl.RtAttr{first}
	for i, chunk := range slices.Collect(slices.Chunk(list, prefixesPerMessage)) {
		if i > 0 {
			part := nestedAttr(0)
			part.AddRtAttr(unix.WGPEER_A_PUBLIC_KEY, p.key[:])
			parts = append(parts, part)
		}
		parts[i].AddChild(allowedIPsAttr(chunk))
	}
	return parts
}

func allowedIPsAttr(list []netip.Prefix) *nl.RtAttr {
	all := nestedAttr(unix.WGPEER_A_ALLOWEDIPS)
	for i, p := range list {
		one := nestedAttr(i)
		family := uint16(unix.AF_INET)
		if p.Addr().Is6() {
			family = unix.AF_INET6
		}
		one.AddRtAttr(unix.WGALLOWEDIP_A_FAMILY, nl.Uint16Attr(family))
		one.AddRtAttr(unix.WGALLOWEDIP_A_IPADDR, p.Addr().AsSlice())
		one.AddRtAttr(unix.WGALLOWEDIP_A_CIDR_MASK, nl.Uint8Attr(uint8(p.Bits())))
		all.AddChild(one)
	}
	return all
}

func nameAttr(name string) *nl.RtAttr {
	return nl.NewRtAttr(unix.WGDEVICE_A_IFNAME, nl.ZeroTerminated(name))
}

// nestedAttr returns an empty nested attribute. The kernel requires the nested flag.
func nestedAttr(kind int) *nl.RtAttr { return nl.NewRtAttr(unix.NLA_F_NESTED|kind, nil) }

// encodeSockaddr encodes an address and port as struct sockaddr_in or sockaddr_in6.
func encodeSockaddr(a netip.AddrPort) []byte {
	b := binary.NativeEndian.AppendUint16(nil, unix.AF_INET)
	if a.Addr().Is6() {
		b = binary.NativeEndian.AppendUint16(nil, unix.AF_INET6)
	}
	b = binary.BigEndian.AppendUint16(b, a.Port())
	if a.Addr().Is6() {
		b = append(b, 0, 0, 0, 0) // flow
	}
	b = append(b, a.Addr().AsSlice()...)
	if a.Addr().Is6() {
		return append(b, 0, 0, 0, 0) // scope
	}
	return append(b, 0, 0, 0, 0, 0, 0, 0, 0)
}

func addrPort(b []byte) (netip.AddrPort, error) {
	if len(b) < 8 {
		return netip.AddrPort{}, errors.New("the address is too short")
	}
	port := binary.BigEndian.Uint16(b[2:])
	switch family := binary.NativeEndian.Uint16(b); {
	case family == unix.AF_INET:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:8])), port), nil
	case family == unix.AF_INET6 && len(b) >= 24:
		return unmapAddr(netip.AddrPortFrom(netip.AddrFrom16([16]byte(b[8:24])), port)), nil
	default:
		return netip.AddrPort{}, fmt.Errorf("it has family %d and %d bytes", family, len(b))
	}
}

// parseDump parses the messages of a dump. A peer too large for one message continues in the next message, with its key and more prefixes.
func parseDump(response [][]byte) (deviceState, error) {
	s := deviceState{peers: map[PublicKey]peerState{}}
	for _, message := range response {
		if len(message) < nl.SizeofGenlmsg {
			return deviceState{}, errors.New("reading the state: a message has no header")
		}
		if err := eachAttr(message[nl.SizeofGenlmsg:], s.readAttr); err != nil {
			return deviceState{}, fmt.Errorf("reading the state: %w", err)
		}
	}
	return s, nil
}

func (s *deviceState) readAttr(kind uint16, value []byte) error {
	switch kind {
	case unix.WGDEVICE_A_PRIVATE_KEY:
		return readFixed(value, keySize, func() { s.privateKey = PrivateKey(value) })
	case unix.WGDEVICE_A_LISTEN_PORT:
		return readFixed(value, 2, func() { s.listenPort = binary.NativeEndian.Uint16(value) })
	case unix.WGDEVICE_A_FWMARK:
		return readFixed(value, 4, func() { s.mark = binary.NativeEndian.Uint32(value) })
	case unix.WGDEVICE_A_PEERS:
		return eachAttr(value, func(_ uint16, peer []byte) error {
			var p peerState
			if err := eachAttr(peer, p.readAttr); err != nil {
				return err
			}
			if begun, ok := s.peers[p.PublicKey]; ok {
				begun.allowedIPs = append(begun.allowedIPs, p.allowedIPs...)
				p = begun
			}
			s.peers[p.PublicKey] = p
			return nil
		})
	}
	return nil
}

func (p *peerState) readAttr(kind uint16, value []byte) error {
	switch kind {
	case unix.WGPEER_A_PUBLIC_KEY:
		return readFixed(value, keySize, func() { p.PublicKey = PublicKey(value) })
	case unix.WGPEER_A_ENDPOINT:
		var err error
		if p.Endpoint, err = addrPort(value); err != nil {
			return fmt.Errorf("reading an endpoint: %w", err)
		}
	case unix.WGPEER_A_PERSISTENT_KEEPALIVE_INTERVAL:
		return readFixed(value, 2, func() { p.keepalive = time.Duration(binary.NativeEndian.Uint16(value)) * time.Second })
	case unix.WGPEER_A_LAST_HANDSHAKE_TIME:
		return readFixed(value, 16, func() {
			seconds, nanoseconds := int64(binary.NativeEndian.Uint64(value)), int64(binary.NativeEndian.Uint64(value[8:]))
			if seconds != 0 {
				p.LastHandshake = time.Unix(seconds, nanoseconds)
			}
		})
	case unix.WGPEER_A_RX_BYTES:
		return readFixed(value, 8, func() { p.Received = binary.NativeEndian.Uint64(value) })
	case unix.WGPEER_A_TX_BYTES:
		return readFixed(value, 8, func() { p.Sent = binary.NativeEndian.Uint64(value) })
	case unix.WGPEER_A_ALLOWEDIPS:
		return eachAttr(value, func(_ uint16, entry []byte) error {
			prefix, err := prefixOf(entry)
			p.allowedIPs = append(p.allowedIPs, prefix)
			return err
		})
	}
	return nil
}

func prefixOf(entry []byte) (netip.Prefix, error) {
	var addr netip.Addr
	bits := -1
	err := eachAttr(entry, func(kind uint16, value []byte) error {
		switch kind {
		case unix.WGALLOWEDIP_A_IPADDR:
			addr, _ = netip.AddrFromSlice(value)
		case unix.WGALLOWEDIP_A_CIDR_MASK:
			return readFixed(value, 1, func() { bits = int(value[0]) })
		}
		return nil
	})
	prefix := netip.PrefixFrom(addr, bits)
	if err == nil && !prefix.IsValid() {
		err = errors.New("an allowed IP is invalid")
	}
	return prefix, err
}

// eachAttr calls f for every attribute, without the flags of its type. eachAttr checks lengths; the netlink library's parser does not.
func eachAttr(b []byte, f func(kind uint16, value []byte) error) error {
	for len(b) >= unix.SizeofNlAttr {
		size, kind := int(binary.NativeEndian.Uint16(b)), binary.NativeEndian.Uint16(b[2:])
		if size < unix.SizeofNlAttr || size > len(b) {
			return fmt.Errorf("an attribute of %d bytes does not fit into %d", size, len(b))
		}
		if err := f(kind&nl.NLA_TYPE_MASK, b[unix.SizeofNlAttr:size]); err != nil {
			return err
		}
		aligned := (size + unix.NLA_ALIGNTO - 1) &^ (unix.NLA_ALIGNTO - 1)
		b = b[min(aligned, len(b)):]
	}
	return nil
}

// readFixed reads a value of a fixed size.
func readFixed(value []byte, size int, read func()) error {
	if len(value) != size {
		return fmt.Errorf("an attribute has %d bytes instead of %d", len(value), size)
	}
	read()
	return nil
}
