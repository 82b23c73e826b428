// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"liqo.io/liqo/internal/datapath"
)

// pendingFlush marks a pending conntrack flush. The mark exists from before a change until the conntrack entries from before the change are deleted.
// Apply leaves the mark alone.
var pendingFlush = tableID{unix.NFPROTO_IPV4, datapath.PendingFlushTable}

// Unsettle marks a conntrack flush as pending before a change. If this process ends before the flush, the mark is the only trace, because all
// else is in place by then. It returns true if the mark exists already.
func (k *Kernel) Unsettle() (already bool, err error) {
	b := &batch{}
	b.addMessage(pendingFlush, unix.NFT_MSG_NEWTABLE, unix.NLM_F_CREATE|unix.NLM_F_EXCL, "add all", encodeAttr(unix.NFTA_TABLE_NAME, zeroEnded(pendingFlush.name)))
	if err = k.sockets.commitBatch(b); errors.Is(err, syscall.EEXIST) {
		return true, nil
	}
	return false, err
}

// Settle removes the mark of a pending conntrack flush.
func (k *Kernel) Settle() error {
	b := &batch{}
	b.addMessage(pendingFlush, unix.NFT_MSG_DELTABLE, 0, "delete all", encodeAttr(unix.NFTA_TABLE_NAME, zeroEnded(pendingFlush.name)))
	if err := k.sockets.commitBatch(b); !errors.Is(err, syscall.ENOENT) {
		return err
	}
	return nil
}

// Forget flushes the conntrack entries with a source, or a destination before or after DNAT, in the prefixes. An entry keeps its NAT for its lifetime;
// after the flush the next packet of either direction creates a new entry under the current rules. Forget returns the number of deleted entries.
func (k *Kernel) Forget(prefixes ...netip.Prefix) (int, error) {
	h, err := netlink.NewHandleAt(k.ns, unix.NETLINK_NETFILTER)
	if err != nil {
		return 0, fmt.Errorf("opening a netlink socket for flows: %w", err)
	}
	defer h.Close()
	total := 0
	for _, family := range []netlink.InetFamily{unix.AF_INET, unix.AF_INET6} {
		about := prefixesOfFamily(family, prefixes)
		if len(about) == 0 {
			continue
		}
		n, err := deleteConntrack(h, family, about)
		total += n
		if err != nil {
			return total, fmt.Errorf("deleting flows of %v: %w", []netip.Prefix(about), err)
		}
	}
	return total, nil
}

// deleteConntrack retries deletions interrupted by concurrent changes of the conntrack table.
func deleteConntrack(h *netlink.Handle, family netlink.InetFamily, about prefixes) (total int, err error) {
	for range dumps {
		var n uint
		n, err = h.ConntrackDeleteFilters(netlink.ConntrackTable, family, about)
		total += int(n)
		if !errors.Is(err, netlink.ErrDumpInterrupted) {
			return total, err
		}
	}
	return total, err
}

// prefixes is a filter for conntrack entries.
type prefixes []netip.Prefix

func prefixesOfFamily(family netlink.InetFamily, all []netip.Prefix) prefixes {
	return slices.DeleteFunc(slices.Clone(all), func(p netip.Prefix) bool { return p.Addr().Is4() != (family == unix.AF_INET) })
}

// MatchConntrackFlow reports whether an address that NAT rules match is in one of the prefixes: the source, or the destination before or after DNAT. The
// source after SNAT is only a result. On a control-plane node the result is the external address of the node for connections of the host to the API
// server, because kube-proxy masquerades by an address of the loopback device. Without such a connection, an agent would miss the next changes.
func (p prefixes) MatchConntrackFlow(f *netlink.ConntrackFlow) bool {
	for _, ip := range []net.IP{f.Forward.SrcIP, f.Forward.DstIP, f.Reverse.SrcIP} {
		addr, _ := netip.AddrFromSlice(ip)
		if addr = addr.Unmap(); slices.ContainsFunc(p, func(one netip.Prefix) bool { return one.Contains(addr) }) {
			return true
		}
	}
	return false
}
