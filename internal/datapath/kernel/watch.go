// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"liqo.io/liqo/internal/datapath"
)

// coalescing is the time for which changes are coalesced into one notification.
const coalescing = 300 * time.Millisecond

// watchBuffer is the receive buffer in bytes: some thousand changes.
const watchBuffer = 4 << 20

// watchInterest selects the relevant events of the namespace. The zero value, before the first Apply, selects all.
type watchInterest struct {
	devices map[string]bool
	indices map[int32]bool  // of existing devices, except lo
	made    map[int32]bool  // of devices created by us
	tables  map[uint32]bool // routing tables
	nft     map[tableID]bool
}

func interestOf(want datapath.State, current *kernelState) watchInterest {
	i := watchInterest{devices: map[string]bool{}, indices: map[int32]bool{}, made: map[int32]bool{}, tables: map[uint32]bool{}, nft: map[tableID]bool{}}
	for _, m := range made {
		i.devices[m.name] = true
	}
	for _, l := range want.Links {
		i.devices[l.Name] = true
	}
	for _, a := range want.Addresses {
		i.devices[a.Device] = true
	}
	for _, r := range want.Routes {
		if r.Device != "" {
			i.devices[r.Device] = true
		}
		if r.Table != unix.RT_TABLE_MAIN && r.Table != unix.RT_TABLE_LOCAL {
			i.tables[uint32(r.Table)] = true
		}
	}
	for name := range i.devices {
		if l, ok := current.byName[name]; ok && name != "lo" {
			i.indices[l.index] = true
		}
	}
	for _, name := range current.ownLinks() {
		i.made[current.byName[name].index] = true
	}
	for _, t := range want.Tables {
		i.nft[idOf(t)] = true
	}
	for id, t := range current.tables {
		if t.ours {
			i.nft[id] = true
		}
	}
	return i
}

func (k *Kernel) setInterest(i watchInterest) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.interest = i
}

func (k *Kernel) currentInterest() watchInterest {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.interest
}

// Watch notifies of changes that may concern the last applied state: the caller then applies again. Our own changes notify, too; an Apply without
// writes causes no further notification, so the loop ends. Lost events count as a change. The channel is closed when ctx ends.
func (k *Kernel) Watch(ctx context.Context) (<-chan struct{}, error) {
	route, err := k.subscribeGroups(unix.NETLINK_ROUTE, unix.RTNLGRP_LINK, unix.RTNLGRP_NEIGH, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR,
		unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE, unix.RTNLGRP_IPV4_RULE, unix.RTNLGRP_IPV6_RULE)
	if err != nil {
		return nil, err
	}
	const nftables = 7 // netlink group of all nftables changes
	filter, err := k.subscribeGroups(unix.NETLINK_NETFILTER, nftables)
	if err != nil {
		route.Close()
		return nil, err
	}
	heard := make(chan struct{}, 1)
	var listening sync.WaitGroup
	listening.Go(func() { k.listenFor(ctx, route, heard, watchInterest.concernsRoute) })
	listening.Go(func() { k.listenFor(ctx, filter, heard, watchInterest.concernsFilter) })
	context.AfterFunc(ctx, func() {
		route.Close()
		filter.Close()
	})
	out := make(chan struct{}, 1)
	go func() {
		defer close(out)
		coalesceEvents(ctx, heard, out)
		listening.Wait()
	}()
	return out, nil
}

func (k *Kernel) subscribeGroups(protocol int, groups ...uint) (*nl.NetlinkSocket, error) {
	s, err := nl.SubscribeAt(k.ns, netns.None(), protocol, groups...)
	if err != nil {
		return nil, fmt.Errorf("subscribing to changes of protocol %d: %w", protocol, err)
	}
	// A smaller buffer only loses more events, and lost events count as changes.
	if s.SetReceiveBufferSize(watchBuffer, true) != nil {
		_ = s.SetReceiveBufferSize(watchBuffer, false)
	}
	return s, nil
}

// listenFor notifies of relevant events until the socket is closed.
func (k *Kernel) listenFor(ctx context.Context, s *nl.NetlinkSocket, heard chan<- struct{}, concerns func(watchInterest, syscall.NetlinkMessage) bool) {
	for ctx.Err() == nil {
		msgs, _, err := s.Receive()
		if err != nil { // ENOBUFS or an unreadable message: the lost events may be relevant
			notify(heard)
			pauseBriefly(ctx)
		}
		i := k.currentInterest()
		if slices.ContainsFunc(msgs, func(m syscall.NetlinkMessage) bool { return concerns(i, m) }) {
			notify(heard)
		}
	}
}

func pauseBriefly(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(coalescing):
	}
}

// notify never blocks: a pending notification is enough for a slow reader.
func notify(to chan<- struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}

// coalesceEvents sends one notification for all events within the coalescing time.
func coalesceEvents(ctx context.Context, heard <-chan struct{}, out chan<- struct{}) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-heard:
		}
		pauseBriefly(ctx)
		select { // events of the meantime belong to this notification
		case <-heard:
		default:
		}
		notify(out)
	}
}

func (i watchInterest) concernsRoute(m syscall.NetlinkMessage) bool {
	if i.devices == nil {
		return true
	}
	switch m.Header.Type {
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		l, name := parseLink(m.Data)
		return i.devices[name] || i.indices[l.index]
	case unix.RTM_NEWADDR, unix.RTM_DELADDR:
		a, marked := parseAddress(m.Data)
		return marked || i.indices[a.index]
	case unix.RTM_NEWNEIGH, unix.RTM_DELNEIGH:
		h, ok := parseNeighbour(m.Data)
		return ok && i.made[h.index]
	case unix.RTM_NEWROUTE, unix.RTM_DELROUTE:
		key, _, owned := parseRoute(m.Data)
		return owned || i.tables[key.table]
	case unix.RTM_NEWRULE, unix.RTM_DELRULE:
		_, owned := parseRule(m.Data)
		return owned
	}
	return false
}

// nameOfTable is the type of the table name attribute, the first attribute in every message about a table or its contents.
const nameOfTable = 1

func (i watchInterest) concernsFilter(m syscall.NetlinkMessage) bool {
	if i.devices == nil {
		return true
	}
	if len(m.Data) < sizeofGenmsg || m.Header.Type == uint16(nftType(unix.NFT_MSG_NEWGEN)) {
		return false
	}
	return i.nft[tableID{m.Data[0], parseBody(m.Data, sizeofGenmsg).stringOf(nameOfTable)}]
}
