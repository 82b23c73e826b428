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

// A datapath.Neighbour is two objects in the kernel: a neighbour entry with a MAC, and on a VXLAN an FDB entry, which forwards frames for the
// MAC to an outer address.

// kernelNeighbour is a neighbour entry: a next hop on a device.
type kernelNeighbour struct {
	index int32
	addr  netip.Addr
}

// fdbEntry is a MAC on a device. An entry has one outer address: the kernel allows several for multicast MACs only.
type fdbEntry struct {
	index int32
	mac   [6]byte
}

func compareNeighbours(a, b kernelNeighbour) int {
	return cmp.Or(cmp.Compare(a.index, b.index), a.addr.Compare(b.addr))
}

func compareFDBEntries(a, b fdbEntry) int {
	return cmp.Or(cmp.Compare(a.index, b.index), bytes.Compare(a.mac[:], b.mac[:]))
}

func (k *Kernel) readNeighbours(l kernelLinks) (map[kernelNeighbour][6]byte, map[fdbEntry]netip.Addr, error) {
	neighbours, forwards := map[kernelNeighbour][6]byte{}, map[fdbEntry]netip.Addr{}
	ours := l.ownLinks()
	if len(ours) == 0 {
		return neighbours, forwards, nil
	}
	read := func(msg []byte) error {
		h, ok := parseNeighbour(msg)
		if !ok || !slices.Contains(ours, l.names[h.index]) || h.state&netlink.NUD_PERMANENT == 0 {
			return nil
		}
		if h.family != unix.AF_BRIDGE {
			neighbours[kernelNeighbour{h.index, h.addr}] = h.mac
		} else if l.names[h.index] == names.FabricDevice {
			forwards[fdbEntry{h.index, h.mac}] = h.addr
		}
		return nil
	}
	for _, family := range []byte{unix.AF_UNSPEC, unix.AF_BRIDGE} {
		request := make([]byte, unix.SizeofNdMsg)
		request[0] = family
		if err := k.sockets.dumpAll(unix.NETLINK_ROUTE, unix.RTM_GETNEIGH, request, read); err != nil {
			return nil, nil, fmt.Errorf("reading neighbours: %w", err)
		}
	}
	return neighbours, forwards, nil
}

// neighbourMessage is a neighbour or FDB entry as reported by the kernel.
type neighbourMessage struct {
	family byte
	index  int32
	state  uint16
	addr   netip.Addr
	mac    [6]byte
}

func parseNeighbour(msg []byte) (neighbourMessage, bool) {
	if len(msg) < unix.SizeofNdMsg {
		return neighbourMessage{}, false
	}
	a := parseBody(msg, unix.SizeofNdMsg)
	return neighbourMessage{
		family: msg[0], index: int32(nativeOrder().Uint32(msg[4:])), state: nativeOrder().Uint16(msg[8:]),
		addr: a.addrOf(unix.NDA_DST), mac: a.macOf(unix.NDA_LLADDR),
	}, true
}

func (h *kernelState) toDatapathNeighbours() []datapath.Neighbour {
	var out []datapath.Neighbour
	for n, mac := range h.neighbours {
		out = append(out, datapath.Neighbour{Device: h.names[n.index], Next: n.addr, MAC: mac, Outer: h.fdb[fdbEntry{n.index, mac}]})
	}
	return out
}

func (r *applyRun) wantedNeighbours() (map[kernelNeighbour][6]byte, map[fdbEntry]netip.Addr) {
	neighbours, forwards := map[kernelNeighbour][6]byte{}, map[fdbEntry]netip.Addr{}
	for _, h := range r.want.Neighbours {
		l, ok := r.have.usableLink(h.Device)
		if !ok {
			r.waiting[h.Device] = true
			continue
		}
		neighbours[kernelNeighbour{l.index, h.Next}] = h.MAC
		if h.Outer.IsValid() {
			forwards[fdbEntry{l.index, h.MAC}] = h.Outer
		}
	}
	return neighbours, forwards
}

// addNeighbours adds FDB entries before the neighbours that need them. Changed entries are replaced in place.
func (r *applyRun) addNeighbours() {
	neighbours, forwards := r.wantedNeighbours()
	for _, f := range missingKeys(forwards, r.have.fdb, compareFDBEntries) {
		what := fmt.Sprintf("fdb replace %s dev %s dst %s", net.HardwareAddr(f.mac[:]), names.FabricDevice, forwards[f])
		r.writeKernel(what, func() error { return r.setNeighbour(unix.RTM_NEWNEIGH, f.requestBody(forwards[f])) })
	}
	for _, n := range missingKeys(neighbours, r.have.neighbours, compareNeighbours) {
		mac := neighbours[n]
		what := fmt.Sprintf("neigh replace %s lladdr %s dev %s", n.addr, net.HardwareAddr(mac[:]), r.have.names[n.index])
		r.writeKernel(what, func() error { return r.setNeighbour(unix.RTM_NEWNEIGH, n.requestBody(mac)) })
	}
}

func (r *applyRun) removeNeighbours() {
	neighbours, forwards := r.wantedNeighbours()
	for _, n := range surplusKeys(neighbours, r.have.neighbours, compareNeighbours) {
		r.writeKernel(fmt.Sprintf("neigh delete %s dev %s", n.addr, r.have.names[n.index]), func() error {
			return r.setNeighbour(unix.RTM_DELNEIGH, n.requestBody(r.have.neighbours[n]))
		}, gone...)
	}
	for _, f := range surplusKeys(forwards, r.have.fdb, compareFDBEntries) {
		what := fmt.Sprintf("fdb delete %s dev %s", net.HardwareAddr(f.mac[:]), names.FabricDevice)
		r.writeKernel(what, func() error { return r.setNeighbour(unix.RTM_DELNEIGH, f.requestBody(r.have.fdb[f])) }, gone...)
	}
}

func (k *Kernel) setNeighbour(kind int, request []byte) error {
	flags := unix.NLM_F_ACK
	if kind == unix.RTM_NEWNEIGH {
		flags |= unix.NLM_F_CREATE | unix.NLM_F_REPLACE
	}
	_, err := k.sockets.sendRequest(unix.NETLINK_ROUTE, kind, flags, request)
	return err
}

func (n kernelNeighbour) requestBody(mac [6]byte) []byte {
	return encodeNeighbour(familyOf(n.addr), n.index, 0, n.addr, mac)
}

func (f fdbEntry) requestBody(outer netip.Addr) []byte {
	return encodeNeighbour(unix.AF_BRIDGE, f.index, unix.NTF_SELF, outer, f.mac)
}

func encodeNeighbour(family byte, index int32, flags byte, addr netip.Addr, mac [6]byte) []byte {
	head := make([]byte, unix.SizeofNdMsg)
	head[0], head[10] = family, flags
	nativeOrder().PutUint32(head[4:], uint32(index))
	nativeOrder().PutUint16(head[8:], netlink.NUD_PERMANENT)
	return joinBytes(head, encodeAttr(unix.NDA_DST, addr.AsSlice()), encodeAttr(unix.NDA_LLADDR, mac[:]))
}
