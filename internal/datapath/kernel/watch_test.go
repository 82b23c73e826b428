// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"liqo.io/liqo/internal/datapath"
	"liqo.io/liqo/internal/names"
)

// patience is how long a change may take to be mended. Nothing waits so long unless it fails.
const patience = 2 * time.Minute

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

func TestDriftRepaired(t *testing.T) {
	eachFamily(t, func(t *testing.T, p sample) {
		s := newTestNamespace(t)
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
				b.addMessage(id, unix.NFT_MSG_DELTABLE, 0, "", encodeAttr(unix.NFTA_TABLE_NAME, zeroEnded(id.name)))
				fatal(t, k.sockets.commitBatch(b))
			}},
			{"a chain", func(t *testing.T) {
				b := &batch{}
				b.flushChain(tableID{protocolFamily(p.family), datapath.TableName}, "outer_in")
				fatal(t, k.sockets.commitBatch(b))
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
				diff := "nothing was repaired"
				t.Cleanup(func() {
					if t.Failed() {
						t.Log(diff)
					}
				})
				for diff != "" { // what was said of an earlier change may come late
					settled(t, writes)
					diff = cmp.Diff(want.String(), k.mustObserve(t))
				}
			})
		}
	})
}

func TestRelevantEvents(t *testing.T) {
	p := samples["ip"]
	s := newTestNamespace(t)
	k := s.open(t)
	heard := listenIn(t, s)
	concerning := func(f func()) (kinds []uint16) {
		route, filter := heard.during(t, k, f)
		i := k.currentInterest()
		for _, m := range route {
			if i.concernsRoute(m) {
				kinds = append(kinds, m.Header.Type)
			}
		}
		for _, m := range filter {
			if i.concernsFilter(m) {
				kinds = append(kinds, m.Header.Type)
			}
		}
		slices.Sort(kinds)
		return slices.Compact(kinds)
	}
	ours := concerning(func() { k.mustApply(t, p.node()) })
	for _, kind := range []int{
		unix.RTM_NEWLINK, unix.RTM_NEWADDR, unix.RTM_NEWNEIGH, unix.RTM_NEWROUTE, unix.RTM_NEWRULE, nftType(unix.NFT_MSG_NEWTABLE),
		nftType(unix.NFT_MSG_NEWCHAIN), nftType(unix.NFT_MSG_NEWRULE), nftType(unix.NFT_MSG_NEWSET), nftType(unix.NFT_MSG_NEWSETELEM), nftType(unix.NFT_MSG_NEWOBJ),
	} {
		if !slices.Contains(ours, uint16(kind)) {
			t.Errorf("%d does not concern us", kind)
		}
	}
	var others []uint16
	for n := range rounds {
		if others = concerning(func() { busy(t, s, k, byte(n)) }); len(others) == 0 {
			return
		}
	}
	t.Errorf("what others make concerns us: %v", others)
}

// busy does what others do on a node.
func busy(t *testing.T, s *testNamespace, k *Kernel, n byte) {
	t.Helper()
	name := fmt.Sprint("eth", n)
	own, next := netip.AddrFrom4([4]byte{172, 29, n, 1}), netip.AddrFrom4([4]byte{172, 29, n, 7})
	s.device(t, name, netip.PrefixFrom(own, 24).String())
	s.address(t, "lo", netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 9, 9, n}), 32).String())
	s.route(t, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 99, n, 0}), 24).String(), next.String(), name)
	fatal(t, s.NeighSet(&netlink.Neigh{
		LinkIndex: s.link(t, name).Attrs().Index, IP: next.AsSlice(), State: netlink.NUD_PERMANENT, HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, 1},
	}))
	rule := netlink.NewRule()
	rule.Priority, rule.Table = 105, 7000+int(n)
	fatal(t, s.RuleAdd(rule))
	b, id := &batch{}, tableID{unix.NFPROTO_IPV4, fmt.Sprint("kube", n)}
	b.addMessage(id, unix.NFT_MSG_NEWTABLE, unix.NLM_F_CREATE, "", encodeAttr(unix.NFTA_TABLE_NAME, zeroEnded(id.name)))
	b.addTable(builtTable{id: id, chains: []builtChain{{name: "outer"}}}, &kernelTable{})
	fatal(t, k.sockets.commitBatch(b))
}

func TestLostEvents(t *testing.T) {
	s := newTestNamespace(t)
	k := s.open(t)
	k.mustApply(t, samples["ip"].node())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	socket, err := k.subscribeGroups(unix.NETLINK_ROUTE, unix.RTNLGRP_IPV4_IFADDR)
	fatal(t, err)
	fatal(t, socket.SetReceiveBufferSize(1, true)) // the least that the kernel allows
	lo := s.link(t, "lo")
	for i := range 200 { // of no interest
		fatal(t, s.AddrAdd(lo, &netlink.Addr{IPNet: ipNet(netip.PrefixFrom(netip.AddrFrom4([4]byte{127, 1, 0, byte(i)}), 32).String())}))
	}
	heard := make(chan struct{}, 1)
	go k.listenFor(ctx, socket, heard, watchInterest.concernsRoute)
	defer socket.Close()
	select {
	case <-heard:
	case <-time.After(patience):
		t.Error("nobody was told")
	}
}

func TestWatchEnds(t *testing.T) {
	k := newTestNamespace(t).open(t)
	ctx, cancel := context.WithCancel(t.Context())
	news, err := k.Watch(ctx)
	fatal(t, err)
	cancel()
	for range news {
	}
}
