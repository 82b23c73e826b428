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
	if l.kind = about.text(unix.IFLA_INFO_KIND); l.kind == "vxlan" {
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

// fabric is our VXLAN, if there is one. A device of another kind in its place is not ours.
func (l links) fabric() (link, bool) {
	f := l.byName[names.FabricDevice]
	if f.kind != "vxlan" {
		return link{}, false
	}
	return f, true
}

// usable is the device if it may carry what is ours: not one of another kind in the place of our VXLAN.
func (l links) usable(name string) (link, bool) {
	if name == names.FabricDevice {
		return l.fabric()
	}
	one, ok := l.byName[name]
	return one, ok
}

func (l links) observed() []datapath.Link {
	f, ok := l.fabric()
	if !ok {
		return nil
	}
	return []datapath.Link{{Name: names.FabricDevice, VXLAN: &datapath.VXLAN{ID: f.id, Port: f.port, MAC: f.mac}, MTU: f.mtu}}
}

func (r *run) removeLinks() {
	f, ok := r.have.fabric()
	wanted := slices.ContainsFunc(r.want.Links, func(l datapath.Link) bool { return l.VXLAN != nil })
	if ok && !wanted && r.deleteLink(f) {
		r.have.forget(f.index)
	}
}

func (r *run) deleteLink(f link) bool {
	return r.write("link delete "+names.FabricDevice, func() error {
		_, err := r.sockets.request(unix.NETLINK_ROUTE, unix.RTM_DELLINK, unix.NLM_F_ACK, infomsg(f.index, 0, 0))
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

// applyLinks is true if devices changed in a way that others see in addresses and routes. VXLANs come before what others made.
func (r *run) applyLinks() bool {
	changed := false
	for _, ours := range []bool{true, false} {
		for _, l := range r.want.Links {
			if (l.VXLAN != nil) == ours {
				changed = r.applyLink(l) || changed
			}
		}
	}
	return changed
}

func (r *run) applyLink(want datapath.Link) bool {
	have, ok := r.have.byName[want.Name]
	switch {
	case want.VXLAN == nil && !ok:
		r.waiting[want.Name] = true
		return false
	case want.VXLAN == nil:
		return r.tune(want, have, nil)
	case ok && have.kind != "vxlan":
		r.errs = append(r.errs, fmt.Errorf("link %s is there already and is no VXLAN of ours but of kind %q: it stays as it is", want.Name, have.kind))
		return false
	case ok && (have.id != want.VXLAN.ID || have.port != want.VXLAN.Port || have.learning || r.otherOuter(have)):
		if !r.deleteLink(have) {
			return true
		}
		ok = false
	}
	if !ok {
		return r.create(want)
	}
	return r.tune(want, have, want.VXLAN)
}

// outer6 is true if the hops of the fabric have outer addresses of IPv6. They are all of one family.
func (r *run) outer6() bool { return len(r.want.Hops) > 0 && r.want.Hops[0].Outer.Is6() }

// otherOuter is true if a VXLAN cannot send to where the hops are. Without hops any will do.
func (r *run) otherOuter(have link) bool {
	return len(r.want.Hops) > 0 && (have.alias == outer6) != r.outer6()
}

// create makes the VXLAN, down and bare. Up is always the last that happens to it, so that a device found up is whole.
func (r *run) create(want datapath.Link) bool {
	v := want.VXLAN
	local := attr(nl.IFLA_VXLAN_LOCAL, netip.IPv4Unspecified().AsSlice())
	if r.outer6() {
		local = attr(nl.IFLA_VXLAN_LOCAL6, netip.IPv6Unspecified().AsSlice())
	}
	request := join(infomsg(0, 0, 0), attr(unix.IFLA_IFNAME, zeroEnded(want.Name)), attr(unix.IFLA_ADDRESS, v.MAC[:]),
		nested(unix.IFLA_LINKINFO, attr(unix.IFLA_INFO_KIND, []byte("vxlan")), nested(unix.IFLA_INFO_DATA,
			attr(nl.IFLA_VXLAN_ID, native32(v.ID)), attr(nl.IFLA_VXLAN_PORT, big16(v.Port)), attr(nl.IFLA_VXLAN_LEARNING, []byte{0}), local)))
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
	made := r.have.byName[want.Name]
	if r.outer6() {
		r.write(fmt.Sprintf("link set %s alias %q", want.Name, outer6), func() error {
			return r.setLink(made.index, 0, attr(unix.IFLA_IFALIAS, []byte(outer6)))
		})
	}
	r.tune(want, made, v)
	return true
}

// tune sets what can be set in place, and is true if it set anything.
func (r *run) tune(want datapath.Link, have link, v *datapath.VXLAN) bool {
	changed := false
	set := func(what string, flags uint32, attrs ...[]byte) {
		changed = true
		r.write("link set "+want.Name+" "+what, func() error { return r.setLink(have.index, flags, attrs...) })
	}
	if v != nil && !have.bare {
		set("addrgenmode none", 0,
			nested(unix.IFLA_AF_SPEC, nested(unix.AF_INET6, attr(unix.IFLA_INET6_ADDR_GEN_MODE, []byte{nl.IN6_ADDR_GEN_MODE_NONE}))))
	}
	if v != nil && have.mac != v.MAC {
		set("address "+net.HardwareAddr(v.MAC[:]).String(), 0, attr(unix.IFLA_ADDRESS, v.MAC[:]))
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
