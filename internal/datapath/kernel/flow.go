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

// unsettled is there from before a change until the flows that began before it are forgotten. Apply leaves it alone.
var unsettled = tableID{unix.NFPROTO_IPV4, datapath.UnsettledName}

// Unsettle leaves a mark for whoever comes after this process, if that is ended before it has forgotten what it must: all else is in place
// then. It returns true if the mark of another is there.
func (k *Kernel) Unsettle() (already bool, err error) {
	b := &batch{}
	b.addMessage(unsettled, unix.NFT_MSG_NEWTABLE, unix.NLM_F_CREATE|unix.NLM_F_EXCL, "add all", encodeAttr(unix.NFTA_TABLE_NAME, zeroEnded(unsettled.name)))
	if err = k.sockets.commitBatch(b); errors.Is(err, syscall.EEXIST) {
		return true, nil
	}
	return false, err
}

// Settle takes the mark away.
func (k *Kernel) Settle() error {
	b := &batch{}
	b.addMessage(unsettled, unix.NFT_MSG_DELTABLE, 0, "delete all", encodeAttr(unix.NFTA_TABLE_NAME, zeroEnded(unsettled.name)))
	if err := k.sockets.commitBatch(b); !errors.Is(err, syscall.ENOENT) {
		return err
	}
	return nil
}

// Forget deletes the tracked flows that have to do with the prefixes: those with any of the four addresses, of the first packet
// or of replies to it, in one of them. A flow is translated as its first packet was, for ever; deleted, the next packet of either
// side begins it anew under the rules of now. It returns how many there were.
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

// deleteConntrack repeats what was interrupted by flows that come and go.
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

// prefixes match flows.
type prefixes []netip.Prefix

func prefixesOfFamily(family netlink.InetFamily, all []netip.Prefix) prefixes {
	return slices.DeleteFunc(slices.Clone(all), func(p netip.Prefix) bool { return p.Addr().Is4() != (family == unix.AF_INET) })
}

// MatchConntrackFlow is true for flows that have an address in one of the prefixes.
func (p prefixes) MatchConntrackFlow(f *netlink.ConntrackFlow) bool {
	for _, ip := range []net.IP{f.Forward.SrcIP, f.Forward.DstIP, f.Reverse.SrcIP, f.Reverse.DstIP} {
		addr, _ := netip.AddrFromSlice(ip)
		if addr = addr.Unmap(); slices.ContainsFunc(p, func(one netip.Prefix) bool { return one.Contains(addr) }) {
			return true
		}
	}
	return false
}
