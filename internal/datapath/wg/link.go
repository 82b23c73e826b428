// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package wg

import (
	"errors"
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// choose decides where WireGuard runs and, for the kernel, makes the link. A link that exists decides alone: its routes
// are worth more than the faster implementation.
func choose(name string, impl Implementation) (Implementation, error) {
	if impl != Auto && impl != Kernel && impl != Userspace {
		return "", fmt.Errorf("there is no implementation %q", impl)
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

func setMTU(name string, mtu int) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("looking for the link: %w", err)
	}
	if link.Attrs().MTU == mtu {
		return nil
	}
	if err := netlink.LinkSetMTU(link, mtu); err != nil {
		return fmt.Errorf("setting the MTU to %d: %w", mtu, err)
	}
	return nil
}

func setUp(name string) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("looking for the link: %w", err)
	}
	if link.Attrs().Flags&net.FlagUp != 0 {
		return nil
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("setting the link up: %w", err)
	}
	return nil
}
