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

// outer6 is the alias of a VXLAN whose outer addresses are IPv6: the kernel does not tell otherwise.
const outer6 = "outer ip6"

// link is a device, ours or not.
type link struct {
	index    int32
	up       bool
	mtu      int
	mac      [6]byte
	kind     string
	other    int32 // index of the other end of a veth
	alias    string
	id       uint32 // of a VXLAN, as the next three
	port     uint16
	learning bool
	bare     bool // IPv6 gives it no address by itself
}

type links struct {
	byName map[string]link
	names  map[int32]string
}

func (k *Kernel) readLinks(h *held) error {
	h.links = links{byName: map[string]link{}, names: map[int32]string{}}
	err := k.sockets.dump(unix.NETLINK_ROUTE, unix.RTM_GETLINK, make([]byte, unix.SizeofIfInfomsg), func(msg []byte) error {
		l, name := parseLink(msg)
		h.byName[name], h.names[l.index] = l, name
		return nil
	})
	if err != nil {
		return fmt.Errorf("reading links: %w", err)
	}
	return nil
}

func parseLink(msg []byte) (link, string) {
	info, a := nl.DeserializeIfInfomsg(msg), body(msg, unix.SizeofIfInfomsg)
	l := link{
		index: info.Index, up: info.Flags&unix.IFF_UP != 0,
		mtu: int(a.native32(unix.IFLA_MTU)), mac: a.mac(unix.IFLA_ADDRESS), alias: a.text(unix.IFLA_IFALIAS),
	}
	about := parse(a[unix.IFLA_LINKINFO])
	switch l.kind = about.text(unix.IFLA_INFO_KIND); l.kind {
	case kindVeth:
		l.other = int32(a.native32(unix.IFLA_LINK))
	case kindVXLAN:
		data := parse(about[unix.IFLA_INFO_DATA])
		l.id, l.learning = data.native32(nl.IFLA_VXLAN_ID), data.byte(nl.IFLA_VXLAN_LEARNING) != 0
		if port := data[nl.IFLA_VXLAN_PORT]; len(port) == 2 {
			l.port = binary.BigEndian.Uint16(port)
		}
	}
	ip6, ok := parse(a[unix.IFLA_AF_SPEC])[unix.AF_INET6]
	l.bare = !ok || parse(ip6).byte(unix.IFLA_INET6_ADDR_GEN_MODE) == nl.IN6_ADDR_GEN_MODE_NONE
	return l, a.text(unix.IFLA_IFNAME)
}

// Kinds of devices.
const (
	kindVXLAN = "vxlan"
	kindVeth  = "veth"
)

type device struct{ name, kind string }

// made are the devices that are ours to make.
var made = []device{{names.FabricDevice, kindVXLAN}, {names.ProbeDevice, kindVeth}, {names.EchoDevice, kindVeth}}

// isMade is true for a device that is ours to make, as a device of that kind.
func isMade(name, kind string) bool { return slices.Contains(made, device{name, kind}) }

// kindOf is what a device is made as; "": it is somebody else's to make.
func kindOf(l datapath.Link) string {
	switch {
	case l.VXLAN != nil:
		return kindVXLAN
	case l.Veth != nil:
		return kindVeth
	}
	return ""
}

// ours are the devices that are there and were made by us, in order. A device of another kind in the place of one is not ours.
func (l links) ours() []string {
	var out []string
	for _, m := range made {
		if one, ok := l.byName[m.name]; ok && one.kind == m.kind {
			out = append(out, m.name)
		}
	}
	return out
}

// fabric is our VXLAN, if there is one.
func (l links) fabric() (link, bool) { return l.usable(names.FabricDevice) }

// usable is the device if it may carry what is ours: not one of another kind in the place of one that we make.
func (l links) usable(name string) (link, bool) {
	one, ok := l.byName[name]
	if !ok || slices.ContainsFunc(made, func(m device) bool { return m.name == name && m.kind != one.kind }) {
		return link{}, false
	}
	return one, true
}

func (l links) observed() []datapath.Link {
	var out []datapath.Link
	for _, name := range l.ours() {
		have := l.byName[name]
		seen := datapath.Link{Name: name, MTU: have.mtu}
		if have.kind == kindVXLAN {
			seen.VXLAN = &datapath.VXLAN{ID: have.id, Port: have.port, MAC: have.mac}
		} else {
			seen.Veth = &datapath.Veth{Peer: l.names[have.other], MAC: have.mac}
		}
		out = append(out, seen)
	}
	return out
}

func (r *run) removeLinks() {
	for _, name := range r.have.ours() {
		have, still := r.have.byName[name]
		wanted := slices.ContainsFunc(r.want.Links, func(l datapath.Link) bool { return l.Name == name && kindOf(l) != "" })
		if still && !wanted && r.deleteLink(name, have) {
			r.have.forget(have.index)
			if have.kind == kindVeth {
				r.have.forget(have.other)
			}
		}
	}
}

func (r *run) deleteLink(name string, have link) bool {
	return r.write("link delete "+name, func() error {
		_, err := r.sockets.request(unix.NETLINK_ROUTE, unix.RTM_DELLINK, unix.NLM_F_ACK, infomsg(have.index, 0, 0))
		return err
	}, gone...)
}

// forget drops what went with a device.
func (h *held) forget(index int32) {
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
	for f := range h.forwards {
		if f.index == index {
			delete(h.forwards, f)
		}
	}
	for key, v := range h.routes {
		if v.index == index {
			delete(h.routes, key)
		}
	}
}

// applyLinks is true if devices changed in a way that others see in addresses and routes. What we make comes before what others made.
func (r *run) applyLinks() bool {
	changed := false
	for _, ours := range []bool{true, false} {
		for _, l := range r.want.Links {
			if (kindOf(l) != "") == ours {
				changed = r.applyLink(l) || changed
			}
		}
	}
	return changed
}

func (r *run) applyLink(want datapath.Link) bool {
	have, ok := r.have.byName[want.Name]
	kind := kindOf(want)
	switch {
	case kind == "" && !ok:
		r.waiting[want.Name] = true
		return false
	case kind == "":
		return r.tune(want, have, nil)
	case ok && have.kind != kind:
		r.errs = append(r.errs, fmt.Errorf("link %s is there already and is no %s of ours but of kind %q: it stays as it is", want.Name, kind, have.kind))
		return false
	case ok && r.otherwise(want, have):
		if !r.deleteLink(want.Name, have) {
			return true
		}
		ok = false
	}
	if !ok {
		return r.create(want)
	}
	return r.tune(want, have, macOf(want))
}

// otherwise is true if a device differs from what is wanted in what cannot be set in place.
func (r *run) otherwise(want datapath.Link, have link) bool {
	if v := want.VXLAN; v != nil {
		return have.id != v.ID || have.port != v.Port || have.learning || r.otherOuter(have)
	}
	return r.have.names[have.other] != want.Veth.Peer
}

// macOf is the address of a device that we make.
func macOf(l datapath.Link) *[6]byte {
	switch {
	case l.VXLAN != nil:
		return &l.VXLAN.MAC
	case l.Veth != nil:
		return &l.Veth.MAC
	}
	return nil
}

// outer6 is true if the hops of the fabric have outer addresses of IPv6. They are all of one family.
func (r *run) outer6() bool {
	return slices.ContainsFunc(r.want.Hops, func(h datapath.Hop) bool { return h.Outer.Is6() })
}

// otherOuter is true if a VXLAN cannot send to where the hops are. Without hops any will do.
func (r *run) otherOuter(have link) bool {
	some := slices.ContainsFunc(r.want.Hops, func(h datapath.Hop) bool { return h.Outer.IsValid() })
	return some && (have.alias == outer6) != r.outer6()
}

// create makes a device, down and bare, and the other end of a veth with it. Up is always the last that happens to it, so that a device found
// up is whole.
func (r *run) create(want datapath.Link) bool {
	mac := macOf(want)
	request := join(infomsg(0, 0, 0), attr(unix.IFLA_IFNAME, zeroEnded(want.Name)), attr(unix.IFLA_ADDRESS, mac[:]),
		nested(unix.IFLA_LINKINFO, attr(unix.IFLA_INFO_KIND, []byte(kindOf(want))), nested(unix.IFLA_INFO_DATA, r.about(want)...)))
	if !r.write(want.String(), func() error {
		_, err := r.sockets.request(unix.NETLINK_ROUTE, unix.RTM_NEWLINK, unix.NLM_F_ACK|unix.NLM_F_CREATE|unix.NLM_F_EXCL, request)
		return err
	}) {
		return true
	}
	if err := r.readLinks(r.have); err != nil {
		r.errs = append(r.errs, err)
		return true
	}
	have := r.have.byName[want.Name]
	if want.VXLAN != nil && r.outer6() {
		r.write(fmt.Sprintf("link set %s alias %q", want.Name, outer6), func() error {
			return r.setLink(have.index, 0, attr(unix.IFLA_IFALIAS, []byte(outer6)))
		})
	}
	r.tune(want, have, mac)
	return true
}

// about is what only devices of its kind have.
func (r *run) about(want datapath.Link) [][]byte {
	v := want.VXLAN
	if v == nil {
		return [][]byte{attr(nl.VETH_INFO_PEER, join(infomsg(0, 0, 0), attr(unix.IFLA_IFNAME, zeroEnded(want.Veth.Peer))))}
	}
	local := attr(nl.IFLA_VXLAN_LOCAL, netip.IPv4Unspecified().AsSlice())
	if r.outer6() {
		local = attr(nl.IFLA_VXLAN_LOCAL6, netip.IPv6Unspecified().AsSlice())
	}
	return [][]byte{attr(nl.IFLA_VXLAN_ID, native32(v.ID)), attr(nl.IFLA_VXLAN_PORT, big16(v.Port)), attr(nl.IFLA_VXLAN_LEARNING, []byte{0}), local}
}

// tune sets what can be set in place, the address only of what we make, and is true if it set anything.
func (r *run) tune(want datapath.Link, have link, mac *[6]byte) bool {
	changed := false
	set := func(what string, flags uint32, attrs ...[]byte) {
		changed = true
		r.write("link set "+want.Name+" "+what, func() error { return r.setLink(have.index, flags, attrs...) })
	}
	if mac != nil && !have.bare {
		set("addrgenmode none", 0,
			nested(unix.IFLA_AF_SPEC, nested(unix.AF_INET6, attr(unix.IFLA_INET6_ADDR_GEN_MODE, []byte{nl.IN6_ADDR_GEN_MODE_NONE}))))
	}
	if mac != nil && have.mac != *mac {
		set("address "+net.HardwareAddr(mac[:]).String(), 0, attr(unix.IFLA_ADDRESS, mac[:]))
	}
	if want.MTU != 0 && have.mtu != want.MTU {
		set(fmt.Sprint("mtu ", want.MTU), 0, attr(unix.IFLA_MTU, native32(want.MTU)))
	}
	if !have.up {
		set("up", unix.IFF_UP)
	}
	return changed
}

func (k *Kernel) setLink(index int32, flags uint32, attrs ...[]byte) error {
	_, err := k.sockets.request(unix.NETLINK_ROUTE, unix.RTM_NEWLINK, unix.NLM_F_ACK, join(infomsg(index, flags, flags), join(attrs...)))
	return err
}

// infomsg begins a message about a link: the flags that change, and what they become.
func infomsg(index int32, change, flags uint32) []byte {
	msg := nl.NewIfInfomsg(unix.AF_UNSPEC)
	msg.Index, msg.Change, msg.Flags = index, change, flags
	return msg.Serialize()
}
