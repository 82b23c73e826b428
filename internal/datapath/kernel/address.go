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

// addressMetric marks our addresses without a label: IPv6 addresses and addresses on devices other than lo. The value is the metric of the prefix
// route of the address. The kernel keeps the metric since Linux 4.18; the protocol of an address exists since 5.18 only.
const addressMetric = 0x6c697100 + datapath.Protocol // "liq"

// Constants missing in x/sys.
const ifaRtPriority = 9

// kernelAddress is an address on a device.
type kernelAddress struct {
	index  int32
	prefix netip.Prefix
}

func compareAddresses(a, b kernelAddress) int {
	return cmp.Or(cmp.Compare(a.index, b.index), a.prefix.Compare(b.prefix))
}

func (k *Kernel) readAddresses(l kernelLinks) (map[kernelAddress]bool, error) {
	owned := map[kernelAddress]bool{}
	fabric, _ := l.fabricLink()
	err := k.sockets.dumpAll(unix.NETLINK_ROUTE, unix.RTM_GETADDR, make([]byte, unix.SizeofIfAddrmsg), func(msg []byte) error {
		// The fabric has no addresses: any address on it is removed.
		if a, marked := parseAddress(msg); marked || a.index == fabric.index {
			owned[a] = true
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading addresses: %w", err)
	}
	return owned, nil
}

func parseAddress(msg []byte) (a kernelAddress, marked bool) {
	if len(msg) < unix.SizeofIfAddrmsg {
		return kernelAddress{}, false
	}
	attrs := parseBody(msg, unix.SizeofIfAddrmsg)
	kind := uint16(unix.IFA_ADDRESS)
	if attrs[unix.IFA_LOCAL] != nil {
		kind = unix.IFA_LOCAL
	}
	a = kernelAddress{int32(nativeOrder().Uint32(msg[4:])), attrs.prefixOf(kind, int(msg[1]), msg[0])}
	return a, attrs.stringOf(unix.IFA_LABEL) == datapath.AddressLabel || attrs.nativeUint32(ifaRtPriority) == addressMetric
}

// requestBody returns the body of a netlink message about the address.
func (a kernelAddress) requestBody(device string) []byte {
	addr := a.prefix.Addr()
	// IFA_F_NODAD: addresses skip duplicate address detection.
	out := joinBytes([]byte{familyOf(addr), byte(a.prefix.Bits()), unix.IFA_F_NODAD, unix.RT_SCOPE_UNIVERSE}, nativeUint32(a.index),
		encodeAttr(unix.IFA_LOCAL, addr.AsSlice()), encodeAttr(unix.IFA_ADDRESS, addr.AsSlice()))
	if addr.Is4() && device == "lo" {
		return joinBytes(out, encodeAttr(unix.IFA_LABEL, zeroEnded(datapath.AddressLabel)))
	}
	return joinBytes(out, encodeAttr(ifaRtPriority, nativeUint32(addressMetric)))
}

func (r *applyRun) wantedAddresses() map[kernelAddress]bool {
	out := map[kernelAddress]bool{}
	for _, a := range r.want.Addresses {
		if l, ok := r.have.usableLink(a.Device); ok {
			out[kernelAddress{l.index, a.Prefix}] = true
		} else {
			r.waiting[a.Device] = true
		}
	}
	return out
}

func (r *applyRun) addAddresses() {
	for _, a := range missingKeys(r.wantedAddresses(), r.have.addresses, compareAddresses) {
		device := r.have.names[a.index]
		r.writeKernel(fmt.Sprintf("addr add %s dev %s", a.prefix, device), func() error {
			_, err := r.sockets.sendRequest(unix.NETLINK_ROUTE, unix.RTM_NEWADDR, unix.NLM_F_ACK|unix.NLM_F_CREATE|unix.NLM_F_EXCL, a.requestBody(device))
			return explainConflict(err)
		})
	}
}

// removeAddresses removes surplus addresses: with replaced, only addresses with a wanted one of the same family on the same device; without,
// only the rest.
func (r *applyRun) removeAddresses(replaced bool) {
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
		same[bare{a.index, a.prefix.Addr()}] = true // IPv6 holds an address once, regardless of the prefix length
	}
	for _, a := range surplusKeys(want, r.have.addresses, compareAddresses) {
		if (places[place{a.index, a.prefix.Addr().Is4()}] && !same[bare{a.index, a.prefix.Addr()}]) != replaced {
			continue
		}
		device := r.have.names[a.index]
		if r.writeKernel(fmt.Sprintf("addr delete %s dev %s", a.prefix, device), func() error {
			_, err := r.sockets.sendRequest(unix.NETLINK_ROUTE, unix.RTM_DELADDR, unix.NLM_F_ACK, a.requestBody(device))
			return err
		}, gone...) {
			delete(r.have.addresses, a)
		}
	}
}
