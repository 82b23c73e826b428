// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
)

// Source returns the source address for packets to an address.
func (k *Kernel) Source(to netip.Addr) (netip.Addr, error) {
	h, err := netlink.NewHandleAt(k.ns)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("opening a netlink socket: %w", err)
	}
	defer h.Close()
	routes, err := h.RouteGet(to.AsSlice())
	if err != nil {
		return netip.Addr{}, fmt.Errorf("finding the route to %s: %w", to, err)
	}
	for _, r := range routes {
		if a, ok := netip.AddrFromSlice(r.Src); ok {
			return a.Unmap(), nil
		}
	}
	return netip.Addr{}, errors.New("the route to " + to.String() + " has no source")
}
