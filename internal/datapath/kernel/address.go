// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"cmp"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"liqo.io/liqo/internal/datapath"
)

// addressMetric marks addresses of ours that have no label: those of IPv6, and those that are not on lo. It is the metric of
// the route that an address brings along. The kernel keeps it since Linux 4.18, the protocol of an address since 5.18 only.
const addressMetric = 0x6c697100 + datapath.Protocol // "liq"

// Numbers that x/sys does not have.
const ifaRtPriority = 9

// address is one on a device.
type address struct {
	index  int32
	prefix netip.Prefix
}

func compareAddresses(a, b address) int {
	return cmp.Or(cmp.Compare(a.index, b.index), a.prefix.Compare(b.prefix))
}

func (k *Kernel) readAddresses(l links) (map[address]bool, error) {
	ours := map[address]bool{}
	fabric, _ := l.fabric()
	err := k.sockets.dump(unix.NETLINK_ROUTE, unix.RTM_GETADDR, make([]byte, unix.SizeofIfAddrmsg), func(msg []byte) error {
		// A fabric has no address: whatever it has goes.
		if a, marked := parseAddress(msg); marked || a.index == fabric.index {
			ours[a] = true
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading addresses: %w", err)
	}
	return ours, nil
}

func parseAddress(msg []byte) (a address, marked bool) {
	if len(msg) < unix.SizeofIfAddrmsg {
		return address{}, false
	}
	attrs := body(msg, unix.SizeofIfAddrmsg)
	kind := uint16(unix.IFA_ADDRESS)
	if attrs[unix.IFA_LOCAL] != nil {
		kind = unix.IFA_LOCAL
	}
	a = address{int32(order().Uint32(msg[4:])), attrs.prefix(kind, int(msg[1]), msg[0])}
	return a, attrs.text(unix.IFA_LABEL) == datapath.AddressLabel || attrs.native32(ifaRtPriority) == addressMetric
}

// request is the body of a message about the address.
func (a address) request(device string) []byte {
	addr := a.prefix.Addr()
	// No address waits for others to object to it.
	out := join([]byte{familyOf(addr), byte(a.prefix.Bits()), unix.IFA_F_NODAD, unix.RT_SCOPE_UNIVERSE}, native32(a.index),
		attr(unix.IFA_LOCAL, addr.AsSlice()), attr(unix.IFA_ADDRESS, addr.AsSlice()))
	if addr.Is4() && device == "lo" {
		return join(out, attr(unix.IFA_LABEL, zeroEnded(datapath.AddressLabel)))
	}
	return join(out, attr(ifaRtPriority, native32(addressMetric)))
}

func (r *run) wantedAddresses() map[address]bool {
	out := map[address]bool{}
	for _, a := range r.want.Addresses {
		if l, ok := r.have.usable(a.Device); ok {
			out[address{l.index, a.Prefix}] = true
		} else {
			r.waiting[a.Device] = true
		}
	}
	return out
}

func (r *run) addAddresses() {
	for _, a := range missing(r.wantedAddresses(), r.have.addresses, compareAddresses) {
		device := r.have.names[a.index]
		r.write(fmt.Sprintf("addr add %s dev %s", a.prefix, device), func() error {
			_, err := r.sockets.request(unix.NETLINK_ROUTE, unix.RTM_NEWADDR, unix.NLM_F_ACK|unix.NLM_F_CREATE|unix.NLM_F_EXCL, a.request(device))
			return taken(err)
		})
	}
}

// removeAddresses removes those that others of the same family follow on their device, or those that none does.
func (r *run) removeAddresses(followed bool) {
	type place struct {
		index int32
		four  bool
	}
	type bare struct {
		index int32
		addr  netip.Addr
	}
	want := r.wantedAddresses()
	places, same := map[place]bool{}, map[bare]bool{}
	for a := range want {
		places[place{a.index, a.prefix.Addr().Is4()}] = true
		same[bare{a.index, a.prefix.Addr()}] = true // IPv6 has an address once, of whatever prefix
	}
	for _, a := range surplus(want, r.have.addresses, compareAddresses) {
		if (places[place{a.index, a.prefix.Addr().Is4()}] && !same[bare{a.index, a.prefix.Addr()}]) != followed {
			continue
		}
		device := r.have.names[a.index]
		if r.write(fmt.Sprintf("addr delete %s dev %s", a.prefix, device), func() error {
			_, err := r.sockets.request(unix.NETLINK_ROUTE, unix.RTM_DELADDR, unix.NLM_F_ACK, a.request(device))
			return err
		}, gone...) {
			delete(r.have.addresses, a)
		}
	}
}
