// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"liqo.io/liqo/internal/datapath"
	"liqo.io/liqo/internal/names"
)

// patience is how long a change may take to be mended. Nothing waits so long unless it fails.
const patience = 10 * time.Second

// keep applies whenever the kernel says so, until the test ends, and says how many writes each Apply made.
func keep(t *testing.T, k *Kernel, want datapath.State) <-chan int {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	news, err := k.Watch(ctx)
	fatal(t, err)
	writes, done := make(chan int, 100), make(chan struct{})
	k.mustApply(t, want)
	go func() {
		defer close(done)
		for range news {
			c, err := k.Apply(ctx, want)
			if err != nil && ctx.Err() == nil {
				t.Error(err)
			}
			writes <- len(c.Writes)
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return writes
}

// settled waits for an Apply that has nothing to write.
func settled(t *testing.T, writes <-chan int) {
	t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case n := <-writes:
			if n == 0 {
				return
			}
		case <-deadline:
			t.Fatal("nobody was told, or there is no end of it")
		}
	}
}

func TestWhatOthersUndoIsDoneAgain(t *testing.T) {
	eachFamily(t, func(t *testing.T, p plan) {
		s := newSpace(t)
		k := s.open(t)
		want := p.node()
		writes := keep(t, k, want)
		settled(t, writes) // what the first Apply did is told, too
		family := int(familyOf(p.own))
		fabric := func() netlink.Link { return s.link(t, names.FabricDevice) }
		for _, tc := range []struct {
			name string
			undo func(t *testing.T)
		}{
			{"a table", func(t *testing.T) {
				b := &batch{}
				id := tableID{protocolFamily(p.family), datapath.TableName}
				b.add(id, unix.NFT_MSG_DELTABLE, 0, "", attr(unix.NFTA_TABLE_NAME, zeroEnded(id.name)))
				fatal(t, k.sockets.commit(b))
			}},
			{"a chain", func(t *testing.T) {
				b := &batch{}
				b.flushChain(tableID{protocolFamily(p.family), datapath.TableName}, "outer_in")
				fatal(t, k.sockets.commit(b))
			}},
			{"a device", func(t *testing.T) { fatal(t, s.LinkDel(fabric())) }},
			{"a device that is down", func(t *testing.T) { fatal(t, s.LinkSetDown(fabric())) }},
			{"an address", func(t *testing.T) {
				fatal(t, s.AddrDel(s.link(t, "lo"), &netlink.Addr{IPNet: ipNet(netip.PrefixFrom(p.own, p.own.BitLen()).String())}))
			}},
			{"an address on the fabric", func(t *testing.T) {
				s.address(t, names.FabricDevice, netip.PrefixFrom(p.alias, p.alias.BitLen()).String())
			}},
			{"routes", func(t *testing.T) {
				routes, err := s.RouteListFiltered(family, &netlink.Route{Table: 6091}, netlink.RT_FILTER_TABLE)
				fatal(t, err)
				for _, r := range routes {
					fatal(t, s.RouteDel(&r))
				}
			}},
			{"a rule", func(t *testing.T) {
				rule := netlink.NewRule()
				rule.Priority, rule.Family, rule.Table = 105, family, 6091
				fatal(t, s.RuleDel(rule))
			}},
			{"a neighbour", func(t *testing.T) {
				fatal(t, s.NeighDel(&netlink.Neigh{LinkIndex: fabric().Attrs().Index, IP: p.gateway.AsSlice()}))
			}},
			{"a forward", func(t *testing.T) {
				mac := datapath.MAC(p.gateway)
				fatal(t, s.NeighDel(&netlink.Neigh{LinkIndex: fabric().Attrs().Index, Family: unix.AF_BRIDGE, Flags: netlink.NTF_SELF, HardwareAddr: mac[:], IP: p.outer.AsSlice()}))
			}},
		} {
			t.Run(tc.name, func(t *testing.T) {
				tc.undo(t)
				settled(t, writes)
				if diff := cmp.Diff(want.String(), k.mustObserve(t)); diff != "" {
					t.Error(diff)
				}
			})
		}
	})
}

func TestWhatConcernsUs(t *testing.T) {
	p := plans["ip"]
	s := newSpace(t)
	k := s.open(t)
	ears := listenIn(t, s)
	k.mustApply(t, p.node())
	i := k.currentInterest()
	concerned := func(socket *nl.NetlinkSocket, concerns func(interest, syscall.NetlinkMessage) bool, last func(m syscall.NetlinkMessage) bool) (kinds []uint16) {
		for {
			msgs, _, err := socket.Receive()
			fatal(t, err)
			for _, m := range msgs {
				if last(m) {
					return slices.Compact(kinds)
				}
				if concerns(i, m) {
					kinds = append(kinds, m.Header.Type)
				}
			}
		}
	}
	lastRoute := func(m syscall.NetlinkMessage) bool {
		_, name := parseLink(m.Data)
		return m.Header.Type == unix.RTM_NEWLINK && strings.HasPrefix(name, "last")
	}
	lastFilter := func(m syscall.NetlinkMessage) bool {
		return body(m.Data, sizeofGenmsg).text(nameOfTable) == "last"
	}
	end := func(n int) {
		fatal(t, s.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: fmt.Sprint("last", n)}, PeerName: fmt.Sprint("last-end", n)}))
		b := &batch{}
		b.add(tableID{unix.NFPROTO_IPV4, "last"}, unix.NFT_MSG_NEWTABLE, unix.NLM_F_CREATE, "", attr(unix.NFTA_TABLE_NAME, zeroEnded("last")))
		b.add(tableID{unix.NFPROTO_IPV4, "last"}, unix.NFT_MSG_DELTABLE, 0, "", attr(unix.NFTA_TABLE_NAME, zeroEnded("last")))
		fatal(t, k.sockets.commit(b))
	}
	end(1)
	if kinds := concerned(ears.route, interest.concernsRoute, lastRoute); len(kinds) < 5 {
		t.Errorf("of what was made here only %v", kinds)
	}
	if kinds := concerned(ears.filter, interest.concernsFilter, lastFilter); len(kinds) < 5 {
		t.Errorf("of tables made here only %v", kinds)
	}
	s.device(t, "eth0", "172.29.1.1/24")
	s.address(t, "lo", "10.9.9.9/32")
	s.route(t, "10.99.0.0/16", "172.29.1.7", "eth0")
	fatal(t, s.NeighSet(&netlink.Neigh{LinkIndex: s.link(t, "eth0").Attrs().Index, IP: net.IPv4(172, 29, 1, 7), State: netlink.NUD_PERMANENT, HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, 1}}))
	rule := netlink.NewRule()
	rule.Priority, rule.Table = 105, 6093
	fatal(t, s.RuleAdd(rule))
	b := &batch{}
	id := tableID{unix.NFPROTO_IPV4, "kube"}
	b.add(id, unix.NFT_MSG_NEWTABLE, unix.NLM_F_CREATE, "", attr(unix.NFTA_TABLE_NAME, zeroEnded(id.name)))
	b.table(builtTable{id: id, chains: []builtChain{{name: "outer"}}}, &heldTable{})
	fatal(t, k.sockets.commit(b))
	end(2)
	if kinds := concerned(ears.route, interest.concernsRoute, lastRoute); len(kinds) > 0 {
		t.Errorf("of what others made %v", kinds)
	}
	if kinds := concerned(ears.filter, interest.concernsFilter, lastFilter); len(kinds) > 0 {
		t.Errorf("of tables that others made %v", kinds)
	}
}

func TestLostNewsAreNews(t *testing.T) {
	s := newSpace(t)
	k := s.open(t)
	k.mustApply(t, plans["ip"].node())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	socket, err := k.subscribe(unix.NETLINK_ROUTE, unix.RTNLGRP_IPV4_IFADDR)
	fatal(t, err)
	fatal(t, socket.SetReceiveBufferSize(1, true)) // the least that the kernel allows
	lo := s.link(t, "lo")
	for i := range 200 { // of no interest
		fatal(t, s.AddrAdd(lo, &netlink.Addr{IPNet: ipNet(netip.PrefixFrom(netip.AddrFrom4([4]byte{127, 1, 0, byte(i)}), 32).String())}))
	}
	heard := make(chan struct{}, 1)
	go k.listen(ctx, socket, heard, interest.concernsRoute)
	defer socket.Close()
	select {
	case <-heard:
	case <-time.After(patience):
		t.Error("nobody was told")
	}
}

func TestAWatchEndsWithItsContext(t *testing.T) {
	k := newSpace(t).open(t)
	ctx, cancel := context.WithCancel(t.Context())
	news, err := k.Watch(ctx)
	fatal(t, err)
	cancel()
	for range news {
	}
}
