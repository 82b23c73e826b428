// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package wg

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// chooseImplementation selects the implementation and, for the kernel, creates the link. An existing link decides alone: its routes are worth
// more than the faster implementation.
func chooseImplementation(name string, impl Implementation, before writeHook) (Implementation, error) {
	if impl != Auto && impl != Kernel && impl != Userspace {
		return "", fmt.Errorf("unknown implementation %q", impl)
	}
	link, err := netlink.LinkByName(name)
	if err == nil {
		return chooseExisting(link, impl)
	}
	if _, missing := errors.AsType[netlink.LinkNotFoundError](err); !missing {
		return "", fmt.Errorf("looking for the link: %w", err)
	}
	if impl == Userspace {
		return Userspace, nil
	}
	before.beforeWrite("making the link in the kernel")
	err = netlink.LinkAdd(&netlink.Wireguard{LinkAttrs: netlink.LinkAttrs{Name: name}})
	switch {
	case err == nil:
		return Kernel, nil
	case impl == Auto && errors.Is(err, unix.EOPNOTSUPP):
		return Userspace, nil
	default:
		return "", fmt.Errorf("making the link in the kernel: %w", err)
	}
}

func chooseExisting(link netlink.Link, impl Implementation) (Implementation, error) {
	var is Implementation
	switch t := link.(type) {
	case *netlink.Wireguard:
		is = Kernel
	case *netlink.Tuntap:
		if t.Mode != netlink.TUNTAP_MODE_TUN {
			return "", errors.New("the link exists and is a TAP, not a TUN")
		}
		is = Userspace
	default:
		return "", fmt.Errorf("the link exists and is a %s, not WireGuard's", link.Type())
	}
	if impl != Auto && impl != is {
		return "", fmt.Errorf("the link exists and is of implementation %q, not %q", is, impl)
	}
	return is, nil
}

// Room returns the MTU of a tunnel over the link that has the address: the MTU of the link less the overhead of WireGuard.
func Room(outer netip.Addr) (int, error) {
	links, err := netlink.LinkList()
	if err != nil {
		return 0, fmt.Errorf("listing links: %w", err)
	}
	for _, link := range links {
		addresses, err := netlink.AddrList(link, netlink.FAMILY_ALL)
		if err != nil {
			return 0, fmt.Errorf("listing addresses: %w", err)
		}
		if slices.ContainsFunc(addresses, func(a netlink.Addr) bool { return a.IP.Equal(outer.AsSlice()) }) {
			return link.Attrs().MTU - headerSize(outer), nil
		}
	}
	return 0, fmt.Errorf("no link has the address %s", outer)
}

// headerSize returns the overhead of WireGuard per packet in bytes: the headers of IP and UDP, the WireGuard header (16) and the
// authentication tag (16).
func headerSize(outer netip.Addr) int {
	if outer.Unmap().Is4() {
		return 20 + 8 + 32
	}
	return 40 + 8 + 32
}

func setMTU(name string, mtu int, before writeHook) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("looking for the link: %w", err)
	}
	if link.Attrs().MTU == mtu {
		return nil
	}
	before.beforeWrite("setting the MTU")
	if err := netlink.LinkSetMTU(link, mtu); err != nil {
		return fmt.Errorf("setting the MTU to %d: %w", mtu, err)
	}
	return nil
}

func setUp(name string, before writeHook) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("looking for the link: %w", err)
	}
	if link.Attrs().Flags&net.FlagUp != 0 {
		return nil
	}
	before.beforeWrite("setting the link up")
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("setting the link up: %w", err)
	}
	return nil
}
