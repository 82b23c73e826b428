// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"bytes"
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"liqo.io/liqo/internal/datapath"
	"liqo.io/liqo/internal/names"
)

// A hop is two things to the kernel: a neighbour has a MAC, and a VXLAN forwards frames for a MAC to an outer address.

// neighbour is a next hop on a device.
type neighbour struct {
	index int32
	addr  netip.Addr
}

// forward is a MAC that a device sends to one outer address: the kernel takes more than one for groups only.
type forward struct {
	index int32
	mac   [6]byte
}

func compareNeighbours(a, b neighbour) int {
	return cmp.Or(cmp.Compare(a.index, b.index), a.addr.Compare(b.addr))
}

func compareForwards(a, b forward) int {
	return cmp.Or(cmp.Compare(a.index, b.index), bytes.Compare(a.mac[:], b.mac[:]))
}

func (k *Kernel) readHops(l links) (map[neighbour][6]byte, map[forward]netip.Addr, error) {
	neighbours, forwards := map[neighbour][6]byte{}, map[forward]netip.Addr{}
	ours := l.ours()
	if len(ours) == 0 {
		return neighbours, forwards, nil
	}
	read := func(msg []byte) error {
		h, ok := parseNeighbour(msg)
		if !ok || !slices.Contains(ours, l.names[h.index]) || h.state&netlink.NUD_PERMANENT == 0 {
			return nil
		}
		if h.family != unix.AF_BRIDGE {
			neighbours[neighbour{h.index, h.addr}] = h.mac
		} else if l.names[h.index] == names.FabricDevice {
			forwards[forward{h.index, h.mac}] = h.addr
		}
		return nil
	}
	for _, family := range []byte{unix.AF_UNSPEC, unix.AF_BRIDGE} {
		request := make([]byte, unix.SizeofNdMsg)
		request[0] = family
		if err := k.sockets.dump(unix.NETLINK_ROUTE, unix.RTM_GETNEIGH, request, read); err != nil {
			return nil, nil, fmt.Errorf("reading neighbours: %w", err)
		}
	}
	return neighbours, forwards, nil
}

// heard is a neighbour or a forward as the kernel tells it.
type heard struct {
	family byte
	index  int32
	state  uint16
	addr   netip.Addr
	mac    [6]byte
}

func parseNeighbour(msg []byte) (heard, bool) {
	if len(msg) < unix.SizeofNdMsg {
		return heard{}, false
	}
	a := body(msg, unix.SizeofNdMsg)
	return heard{
		family: msg[0], index: int32(order().Uint32(msg[4:])), state: order().Uint16(msg[8:]),
		addr: a.addr(unix.NDA_DST), mac: a.mac(unix.NDA_LLADDR),
	}, true
}

func (h *held) hops() []datapath.Hop {
	var out []datapath.Hop
	for n, mac := range h.neighbours {
		out = append(out, datapath.Hop{Device: h.names[n.index], Next: n.addr, MAC: mac, Outer: h.forwards[forward{n.index, mac}]})
	}
	return out
}

func (r *run) wantedHops() (map[neighbour][6]byte, map[forward]netip.Addr) {
	neighbours, forwards := map[neighbour][6]byte{}, map[forward]netip.Addr{}
	for _, h := range r.want.Hops {
		l, ok := r.have.usable(h.Device)
		if !ok {
			r.waiting[h.Device] = true
			continue
		}
		neighbours[neighbour{l.index, h.Next}] = h.MAC
		if h.Outer.IsValid() {
			forwards[forward{l.index, h.MAC}] = h.Outer
		}
	}
	return neighbours, forwards
}

// addHops sets forwards before the neighbours that need them. What changes is replaced in place.
func (r *run) addHops() {
	neighbours, forwards := r.wantedHops()
	for _, f := range missing(forwards, r.have.forwards, compareForwards) {
		what := fmt.Sprintf("fdb replace %s dev %s dst %s", net.HardwareAddr(f.mac[:]), names.FabricDevice, forwards[f])
		r.write(what, func() error { return r.setHop(unix.RTM_NEWNEIGH, f.request(forwards[f])) })
	}
	for _, n := range missing(neighbours, r.have.neighbours, compareNeighbours) {
		mac := neighbours[n]
		what := fmt.Sprintf("neigh replace %s lladdr %s dev %s", n.addr, net.HardwareAddr(mac[:]), r.have.names[n.index])
		r.write(what, func() error { return r.setHop(unix.RTM_NEWNEIGH, n.request(mac)) })
	}
}

func (r *run) removeHops() {
	neighbours, forwards := r.wantedHops()
	for _, n := range surplus(neighbours, r.have.neighbours, compareNeighbours) {
		r.write(fmt.Sprintf("neigh delete %s dev %s", n.addr, r.have.names[n.index]), func() error {
			return r.setHop(unix.RTM_DELNEIGH, n.request(r.have.neighbours[n]))
		}, gone...)
	}
	for _, f := range surplus(forwards, r.have.forwards, compareForwards) {
		what := fmt.Sprintf("fdb delete %s dev %s", net.HardwareAddr(f.mac[:]), names.FabricDevice)
		r.write(what, func() error { return r.setHop(unix.RTM_DELNEIGH, f.request(r.have.forwards[f])) }, gone...)
	}
}

func (k *Kernel) setHop(kind int, request []byte) error {
	flags := unix.NLM_F_ACK
	if kind == unix.RTM_NEWNEIGH {
		flags |= unix.NLM_F_CREATE | unix.NLM_F_REPLACE
	}
	_, err := k.sockets.request(unix.NETLINK_ROUTE, kind, flags, request)
	return err
}

func (n neighbour) request(mac [6]byte) []byte {
	return ndmsg(familyOf(n.addr), n.index, 0, n.addr, mac)
}

func (f forward) request(outer netip.Addr) []byte {
	return ndmsg(unix.AF_BRIDGE, f.index, unix.NTF_SELF, outer, f.mac)
}

func ndmsg(family byte, index int32, flags byte, addr netip.Addr, mac [6]byte) []byte {
	head := make([]byte, unix.SizeofNdMsg)
	head[0], head[10] = family, flags
	order().PutUint32(head[4:], uint32(index))
	order().PutUint16(head[8:], netlink.NUD_PERMANENT)
	return join(head, attr(unix.NDA_DST, addr.AsSlice()), attr(unix.NDA_LLADDR, mac[:]))
}
