// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"liqo.io/liqo/internal/datapath"
	"liqo.io/liqo/internal/names"
)

// outer6 is the alias of a VXLAN with IPv6 outer addresses: the kernel does not report the family of a VXLAN.
const outer6 = "outer ip6"

// kernelLink is a device, ours or foreign.
type kernelLink struct {
	index    int32
	up       bool
	mtu      int
	mac      [6]byte
	kind     string
	other    int32 // index of the veth peer
	alias    string
	id       uint32 // VXLAN only, like port and learning
	port     uint16
	learning bool
	bare     bool // without an IPv6 link-local address
}

type kernelLinks struct {
	byName map[string]kernelLink
	names  map[int32]string
}

func (k *Kernel) readLinks(h *kernelState) error {
	h.kernelLinks = kernelLinks{byName: map[string]kernelLink{}, names: map[int32]string{}}
	err := k.sockets.dumpAll(unix.NETLINK_ROUTE, unix.RTM_GETLINK, make([]byte, unix.SizeofIfInfomsg), func(msg []byte) error {
		l, name := parseLink(msg)
		h.byName[name], h.names[l.index] = l, name
		return nil
	})
	if err != nil {
		return fmt.Errorf("reading links: %w", err)
	}
	return nil
}

func parseLink(msg []byte) (kernelLink, string) {
	info, a := nl.DeserializeIfInfomsg(msg), parseBody(msg, unix.SizeofIfInfomsg)
	l := kernelLink{
		index: info.Index, up: info.Flags&unix.IFF_UP != 0,
		mtu: int(a.nativeUint32(unix.IFLA_MTU)), mac: a.macOf(unix.IFLA_ADDRESS), alias: a.stringOf(unix.IFLA_IFALIAS),
	}
	about := parseAttrs(a[unix.IFLA_LINKINFO])
	switch l.kind = about.stringOf(unix.IFLA_INFO_KIND); l.kind {
	case kindVeth:
		l.other = int32(a.nativeUint32(unix.IFLA_LINK))
	case kindVXLAN:
		data := parseAttrs(about[unix.IFLA_INFO_DATA])
		l.id, l.learning = data.nativeUint32(nl.IFLA_VXLAN_ID), data.uint8Of(nl.IFLA_VXLAN_LEARNING) != 0
		if port := data[nl.IFLA_VXLAN_PORT]; len(port) == 2 {
			l.port = binary.BigEndian.Uint16(port)
		}
	}
	ip6, ok := parseAttrs(a[unix.IFLA_AF_SPEC])[unix.AF_INET6]
	l.bare = !ok || parseAttrs(ip6).uint8Of(unix.IFLA_INET6_ADDR_GEN_MODE) == nl.IN6_ADDR_GEN_MODE_NONE
	return l, a.stringOf(unix.IFLA_IFNAME)
}

// Kinds of devices, as the kernel names them.
const (
	kindVXLAN = "vxlan"
	kindVeth  = "veth"
)

type kernelDevice struct{ name, kind string }

// made lists the devices that we create.
var made = []kernelDevice{{names.FabricDevice, kindVXLAN}, {names.ProbeDevice, kindVeth}, {names.EchoDevice, kindVeth}}

// isMade reports whether we create the device, as this kind.
func isMade(name, kind string) bool { return slices.Contains(made, kernelDevice{name, kind}) }

// kindOf returns the kind of a device that we create, else "".
func kindOf(l datapath.Link) string {
	switch {
	case l.VXLAN != nil:
		return kindVXLAN
	case l.Veth != nil:
		return kindVeth
	}
	return ""
}

// ownLinks returns the existing devices created by us, in order. A device with our name and another kind is foreign.
func (l kernelLinks) ownLinks() []string {
	var out []string
	for _, m := range made {
		if one, ok := l.byName[m.name]; ok && one.kind == m.kind {
			out = append(out, m.name)
		}
	}
	return out
}

// fabricLink returns our VXLAN, and false if it does not exist.
func (l kernelLinks) fabricLink() (kernelLink, bool) { return l.usableLink(names.FabricDevice) }

// usableLink returns the device unless foreign. A foreign device has the name of one of our devices, but another kind.
func (l kernelLinks) usableLink(name string) (kernelLink, bool) {
	one, ok := l.byName[name]
	if !ok || slices.ContainsFunc(made, func(m kernelDevice) bool { return m.name == name && m.kind != one.kind }) {
		return kernelLink{}, false
	}
	return one, true
}

func (l kernelLinks) observedLinks() []datapath.Link {
	var out []datapath.Link
	for _, name := range l.ownLinks() {
		current := l.byName[name]
		seen := datapath.Link{Name: name, MTU: current.mtu}
		if current.kind == kindVXLAN {
			seen.VXLAN = &datapath.VXLAN{ID: current.id, Port: current.port, MAC: current.mac}
		} else {
			seen.Veth = &datapath.Veth{Peer: l.names[current.other], MAC: current.mac}
		}
		out = append(out, seen)
	}
	return out
}

func (r *applyRun) removeLinks() {
	for _, name := range r.have.ownLinks() {
		current, still := r.have.byName[name]
		wanted := slices.ContainsFunc(r.want.Links, func(l datapath.Link) bool { return l.Name == name && kindOf(l) != "" })
		if still && !wanted && r.deleteLink(name, current) {
			r.have.forgetLink(current.index)
			if current.kind == kindVeth {
				r.have.forgetLink(current.other)
			}
		}
	}
}

func (r *applyRun) deleteLink(name string, current kernelLink) bool {
	return r.writeKernel("link delete "+name, func() error {
		_, err := r.sockets.sendRequest(unix.NETLINK_ROUTE, unix.RTM_DELLINK, unix.NLM_F_ACK, encodeLink(current.index, 0, 0))
		return err
	}, gone...)
}

// forgetLink deletes a device and the objects on it from the state.
func (h *kernelState) forgetLink(index int32) {
	delete(h.byName, h.names[index])
	delete(h.names, index)
	for a := range h.addresses {
		if a.index == index {
			delete(h.addresses, a)
		}
	}
	for n := range h.neighbours {
		if n.index == index {
			delete(h.neighbours, n)
		}
	}
	for f := range h.fdb {
		if f.index == index {
			delete(h.fdb, f)
		}
	}
	for key, v := range h.routes {
		if v.index == index {
			delete(h.routes, key)
		}
	}
}

// applyLinks reports whether changed links require a new read of addresses and routes. Our own devices come first.
func (r *applyRun) applyLinks() bool {
	changed := false
	for _, owned := range []bool{true, false} {
		for _, l := range r.want.Links {
			if (kindOf(l) != "") == owned {
				changed = r.applyLink(l) || changed
			}
		}
	}
	return changed
}

func (r *applyRun) applyLink(want datapath.Link) bool {
	current, ok := r.have.byName[want.Name]
	kind := kindOf(want)
	switch {
	case kind == "" && !ok:
		r.waiting[want.Name] = true
		return false
	case kind == "":
		return r.tuneLink(want, current, nil)
	case ok && current.kind != kind:
		r.errs = append(r.errs, fmt.Errorf("link %s already exists and is not a %s of Liqo but of kind %q: it is left alone", want.Name, kind, current.kind))
		return false
	case ok && r.mustRecreate(want, current):
		if !r.deleteLink(want.Name, current) {
			return true
		}
		ok = false
	}
	if !ok {
		return r.createLink(want)
	}
	return r.tuneLink(want, current, macOf(want))
}

// mustRecreate reports whether the device differs in an attribute that cannot be changed in place.
func (r *applyRun) mustRecreate(want datapath.Link, current kernelLink) bool {
	if v := want.VXLAN; v != nil {
		return current.id != v.ID || current.port != v.Port || current.learning || r.otherOuter(current)
	}
	return r.have.names[current.other] != want.Veth.Peer
}

// macOf returns the MAC of a device that we create.
func macOf(l datapath.Link) *[6]byte {
	switch {
	case l.VXLAN != nil:
		return &l.VXLAN.MAC
	case l.Veth != nil:
		return &l.Veth.MAC
	}
	return nil
}

// hasOuterIPv6 reports whether the FDB entries of the fabric have IPv6 outer addresses. All are of one family.
func (r *applyRun) hasOuterIPv6() bool {
	return slices.ContainsFunc(r.want.Neighbours, func(h datapath.Neighbour) bool { return h.Outer.Is6() })
}

// otherOuter reports whether the VXLAN has the wrong family for the wanted FDB entries. Without entries either family is right.
func (r *applyRun) otherOuter(current kernelLink) bool {
	some := slices.ContainsFunc(r.want.Neighbours, func(h datapath.Neighbour) bool { return h.Outer.IsValid() })
	return some && (current.alias == outer6) != r.hasOuterIPv6()
}

// createLink creates a device, down and without addresses, together with the peer of a veth. Setting a device up is always the last step, so that a
// device found up is complete.
func (r *applyRun) createLink(want datapath.Link) bool {
	mac := macOf(want)
	request := joinBytes(encodeLink(0, 0, 0), encodeAttr(unix.IFLA_IFNAME, zeroEnded(want.Name)), encodeAttr(unix.IFLA_ADDRESS, mac[:]),
		encodeNested(unix.IFLA_LINKINFO, encodeAttr(unix.IFLA_INFO_KIND, []byte(kindOf(want))), encodeNested(unix.IFLA_INFO_DATA, r.linkAttributes(want)...)))
	if !r.writeKernel(want.String(), func() error {
		_, err := r.sockets.sendRequest(unix.NETLINK_ROUTE, unix.RTM_NEWLINK, unix.NLM_F_ACK|unix.NLM_F_CREATE|unix.NLM_F_EXCL, request)
		return err
	}) {
		return true
	}
	if err := r.readLinks(r.have); err != nil {
		r.errs = append(r.errs, err)
		return true
	}
	current := r.have.byName[want.Name]
	if want.VXLAN != nil && r.hasOuterIPv6() {
		r.writeKernel(fmt.Sprintf("link set %s alias %q", want.Name, outer6), func() error {
			return r.setLink(current.index, 0, encodeAttr(unix.IFLA_IFALIAS, []byte(outer6)))
		})
	}
	r.tuneLink(want, current, mac)
	return true
}

// linkAttributes returns the attributes specific to the kind of device.
func (r *applyRun) linkAttributes(want datapath.Link) [][]byte {
	v := want.VXLAN
	if v == nil {
		return [][]byte{encodeAttr(nl.VETH_INFO_PEER, joinBytes(encodeLink(0, 0, 0), encodeAttr(unix.IFLA_IFNAME, zeroEnded(want.Veth.Peer))))}
	}
	local := encodeAttr(nl.IFLA_VXLAN_LOCAL, netip.IPv4Unspecified().AsSlice())
	if r.hasOuterIPv6() {
		local = encodeAttr(nl.IFLA_VXLAN_LOCAL6, netip.IPv6Unspecified().AsSlice())
	}
	return [][]byte{encodeAttr(nl.IFLA_VXLAN_ID, nativeUint32(v.ID)), encodeAttr(nl.IFLA_VXLAN_PORT, bigUint16(v.Port)), encodeAttr(nl.IFLA_VXLAN_LEARNING, []byte{0}), local}
}

// tuneLink changes attributes in place, the MAC only of devices that we create, and reports whether an attribute changed.
func (r *applyRun) tuneLink(want datapath.Link, current kernelLink, mac *[6]byte) bool {
	changed := false
	set := func(what string, flags uint32, attrs ...[]byte) {
		changed = true
		r.writeKernel("link set "+want.Name+" "+what, func() error { return r.setLink(current.index, flags, attrs...) })
	}
	if mac != nil && !current.bare {
		set("addrgenmode none", 0,
			encodeNested(unix.IFLA_AF_SPEC, encodeNested(unix.AF_INET6, encodeAttr(unix.IFLA_INET6_ADDR_GEN_MODE, []byte{nl.IN6_ADDR_GEN_MODE_NONE}))))
	}
	if mac != nil && current.mac != *mac {
		set("address "+net.HardwareAddr(mac[:]).String(), 0, encodeAttr(unix.IFLA_ADDRESS, mac[:]))
	}
	if want.MTU != 0 && current.mtu != want.MTU {
		set(fmt.Sprint("mtu ", want.MTU), 0, encodeAttr(unix.IFLA_MTU, nativeUint32(want.MTU)))
	}
	if !current.up {
		set("up", unix.IFF_UP)
	}
	return changed
}

func (k *Kernel) setLink(index int32, flags uint32, attrs ...[]byte) error {
	_, err := k.sockets.sendRequest(unix.NETLINK_ROUTE, unix.RTM_NEWLINK, unix.NLM_F_ACK, joinBytes(encodeLink(index, flags, flags), joinBytes(attrs...)))
	return err
}

// encodeLink returns the header of a link message: the mask of flags to change, and their values.
func encodeLink(index int32, change, flags uint32) []byte {
	msg := nl.NewIfInfomsg(unix.AF_UNSPEC)
	msg.Index, msg.Change, msg.Flags = index, change, flags
	return msg.Serialize()
}
