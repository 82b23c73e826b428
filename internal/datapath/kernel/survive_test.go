// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"liqo.io/liqo/internal/datapath"
	"liqo.io/liqo/internal/names"
)

// inventory is all that a namespace holds, whoever made it, but for what the kernel does by itself.
func inventory(t *testing.T, s *testNamespace, k *Kernel) string {
	t.Helper()
	var lines []string
	dump := func(protocol, kind int, request []byte) {
		fatal(t, k.sockets.dumpAll(protocol, kind, request, func(msg []byte) error {
			if protocol == unix.NETLINK_ROUTE && kind == unix.RTM_GETLINK {
				l, name := parseLink(msg)
				lines = append(lines, fmt.Sprintf("link %s %+v", name, l))
				return nil
			}
			lines = append(lines, fmt.Sprintf("%d %d %x", protocol, kind, msg))
			return nil
		}))
	}
	dump(unix.NETLINK_ROUTE, unix.RTM_GETLINK, make([]byte, unix.SizeofIfInfomsg))
	dump(unix.NETLINK_ROUTE, unix.RTM_GETADDR, make([]byte, unix.SizeofIfAddrmsg))
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		routes, err := s.RouteListFiltered(family, &netlink.Route{Table: unix.RT_TABLE_UNSPEC}, netlink.RT_FILTER_TABLE)
		fatal(t, err)
		for _, r := range routes {
			if r.Table == unix.RT_TABLE_LOCAL {
				continue // the kernel's own, some of which come late
			}
			lines = append(lines, fmt.Sprintf("route %+v", r))
		}
		rules, err := s.RuleList(family)
		fatal(t, err)
		for _, r := range rules {
			lines = append(lines, fmt.Sprintf("%v", r))
		}
	}
	for _, kind := range []int{unix.NFT_MSG_GETTABLE, unix.NFT_MSG_GETCHAIN, unix.NFT_MSG_GETRULE, unix.NFT_MSG_GETSET, unix.NFT_MSG_GETOBJ} {
		dump(unix.NETLINK_NETFILTER, nftType(kind), []byte{unix.NFPROTO_UNSPEC, 0, 0, 0})
	}
	// Messages of netfilter begin with a number that grows with each transaction, and routes may change places.
	for i, l := range lines {
		if strings.HasPrefix(l, fmt.Sprint(unix.NETLINK_NETFILTER)) {
			fields := strings.Fields(l)
			lines[i] = strings.Join(fields[:2], " ") + " " + fields[2][8:]
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// strange fills a namespace with what looks like ours and is not.
func strange(t *testing.T, s *testNamespace, k *Kernel, p sample) {
	t.Helper()
	s.device(t, "liqo-else", netip.PrefixFrom(p.target, p.target.BitLen()).String())
	s.address(t, "lo", netip.PrefixFrom(p.alias, p.alias.BitLen()).String())
	index := s.link(t, "liqo-else").Attrs().Index
	other := netip.PrefixFrom(p.pods.Addr(), p.pods.Bits())
	fatal(t, s.RouteAdd(&netlink.Route{Dst: ipNet(other.String()), LinkIndex: index, Table: 6091, Protocol: 4}))
	rule := netlink.NewRule()
	rule.Priority, rule.Table, rule.Family = 105, 6091, int(familyOf(p.own))
	fatal(t, s.RuleAdd(rule))
	b := &batch{}
	id := tableID{protocolFamily(p.family), "kube"}
	b.addMessage(id, unix.NFT_MSG_NEWTABLE, unix.NLM_F_CREATE, "", encodeAttr(unix.NFTA_TABLE_NAME, zeroEnded(id.name)))
	b.addTable(builtTable{id: id, counters: []string{"dropped"}, sets: []builtSet{{name: "alias", form: setForm{keyType: 13, keyLen: 2}}}, chains: []builtChain{{name: "outer"}}}, &kernelTable{})
	inet := tableID{unix.NFPROTO_INET, datapath.TableName}
	b.addMessage(inet, unix.NFT_MSG_NEWTABLE, unix.NLM_F_CREATE, "", encodeAttr(unix.NFTA_TABLE_NAME, zeroEnded(inet.name)))
	fatal(t, k.sockets.commitBatch(b))
}

func TestForeignStateKept(t *testing.T) {
	eachFamily(t, func(t *testing.T, p sample) {
		s := newTestNamespace(t)
		k := s.open(t)
		strange(t, s, k, p)
		before := inventory(t, s, k)
		for _, state := range []datapath.State{p.node(), p.moved(), p.node(), {}} {
			k.mustApply(t, state)
		}
		if diff := cmp.Diff(before, inventory(t, s, k)); diff != "" {
			t.Error(diff)
		}
		if got := k.mustObserve(t); got != "" {
			t.Errorf("still ours:\n%s", got)
		}
	})
}

func TestForeignObjectConflict(t *testing.T) {
	eachFamily(t, func(t *testing.T, p sample) {
		own := netip.PrefixFrom(p.own, p.own.BitLen()).String()
		for _, tc := range []struct {
			name  string
			make  func(t *testing.T, s *testNamespace, k *Kernel)
			error string
		}{
			{"a device", func(t *testing.T, s *testNamespace, _ *Kernel) { s.device(t, names.FabricDevice) }, `link liqo.fabric already exists and is not a vxlan of Liqo but of kind "veth"`},
			{"an address", func(t *testing.T, s *testNamespace, _ *Kernel) { s.address(t, "lo", own) }, "addr add " + own + " dev lo: a foreign one already exists"},
			{"a route", func(t *testing.T, s *testNamespace, _ *Kernel) {
				fatal(t, s.RouteAdd(&netlink.Route{Dst: ipNet(p.peer.String()), Type: unix.RTN_BLACKHOLE, Table: 6091, Priority: datapath.UnreachableMetric}))
			}, "add route unreachable " + p.peer.String() + " metric 4278198272 table 6091: a foreign one already exists"},
			{"a table", func(t *testing.T, _ *testNamespace, k *Kernel) {
				b := &batch{}
				b.addMessage(tableID{protocolFamily(p.family), "of-a-user"}, unix.NFT_MSG_NEWTABLE, unix.NLM_F_CREATE, "", encodeAttr(unix.NFTA_TABLE_NAME, zeroEnded("of-a-user")))
				fatal(t, k.sockets.commitBatch(b))
			}, "table " + p.family.String() + " of-a-user already exists and was not created by Liqo"},
		} {
			t.Run(tc.name, func(t *testing.T) {
				s := newTestNamespace(t)
				k := s.open(t)
				tc.make(t, s, k)
				before := inventory(t, s, k)
				want := p.node()
				want.Tables = append(want.Tables, p.moved().Tables[1])
				_, err := k.Apply(t.Context(), want)
				if err == nil || !strings.Contains(err.Error(), tc.error) {
					t.Errorf("error %v, want %s", err, tc.error)
				}
				if got := k.mustObserve(t); !strings.Contains(got, "chain outer_in") || !strings.Contains(got, "rule") {
					t.Errorf("the rest is not there:\n%s", got)
				}
				k.mustApply(t, datapath.State{})
				if diff := cmp.Diff(before, inventory(t, s, k)); diff != "" {
					t.Error(diff)
				}
			})
		}
	})
}

// A pair of devices is one only as a whole, and what has the name of one end of it is no stranger if it is of that kind.
func TestVethPairRepaired(t *testing.T) {
	p := samples["ip"]
	veth := func(name, other string) *netlink.Veth {
		return &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: other}
	}
	for name, pairs := range map[string][]*netlink.Veth{
		"one has another end":   {veth(names.ProbeDevice, "other")},
		"the other one, too":    {veth(names.ProbeDevice, "other"), veth(names.EchoDevice, "more")},
		"the pair is the other": {veth(names.EchoDevice, names.ProbeDevice)},
	} {
		s := newTestNamespace(t)
		for _, one := range pairs {
			fatal(t, s.LinkAdd(one))
		}
		k := s.open(t)
		if _, err := k.Apply(t.Context(), p.node()); err != nil {
			t.Logf("%s: %v", name, err) // while one is in the place of the other
		}
		k.mustApply(t, p.node())
		if diff := cmp.Diff(p.node().String(), k.mustObserve(t)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		k.mustApply(t, datapath.State{})
		if got := k.mustObserve(t); got != "" {
			t.Errorf("%s: still ours:\n%s", name, got)
		}
	}
}

func TestForeignObjectNotReplaced(t *testing.T) {
	p := samples["ip"] // in IPv6 two such routes are one
	s := newTestNamespace(t)
	k := s.open(t)
	want := p.node()
	k.mustApply(t, want)
	stranger := &netlink.Route{Dst: ipNet(p.peer.String()), Type: unix.RTN_PROHIBIT, Table: 6091}
	fatal(t, s.RouteAppend(stranger))
	want.Routes[0].MTU = 1200
	if _, err := k.Apply(t.Context(), want); err == nil || !strings.Contains(err.Error(), "a route of others is in the same place, and stays") {
		t.Errorf("error %v", err)
	}
	fatal(t, s.RouteDel(stranger)) // it is still there
	k.mustApply(t, want)
	if diff := cmp.Diff(want.String(), k.mustObserve(t)); diff != "" {
		t.Error(diff)
	}
}

func TestUserRuleRejected(t *testing.T) {
	eachFamily(t, func(t *testing.T, p sample) {
		k := newTestNamespace(t).open(t)
		want := p.node()
		good, bad := p.moved().Tables[1], p.moved().Tables[1]
		bad.Name = "of-another"
		bad.Chains[0].Rules = [][]datapath.Statement{{datapath.Masquerade{}}} // in a chain that filters
		want.Tables = append(want.Tables, bad, good, good)
		_, err := k.Apply(t.Context(), want)
		if err == nil || !strings.Contains(err.Error(), "add rule in masquerade in table "+p.family.String()+" of-another: operation not supported") {
			t.Errorf("error %v", err)
		} else if !strings.Contains(err.Error(), "of-a-user is requested twice") {
			t.Errorf("error %v", err)
		}
		possible := p.node()
		possible.Tables = append(possible.Tables, good)
		if diff := cmp.Diff(possible.String(), k.mustObserve(t)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestUserTables(t *testing.T) {
	eachFamily(t, func(t *testing.T, p sample) {
		s := newTestNamespace(t)
		want := datapath.State{Tables: p.moved().Tables}
		s.open(t).mustApply(t, want)
		k := s.open(t)
		if c := k.mustApply(t, want); len(c.Writes) > 0 {
			t.Errorf("after a restart: %q", c.Writes)
		}
		c := k.mustApply(t, datapath.State{Tables: want.Tables[:1]})
		if diff := cmp.Diff([]string{"nft: delete all in table " + p.family.String() + " of-a-user"}, c.Writes); diff != "" {
			t.Error(diff)
		}
	})
}

func TestMissingDevice(t *testing.T) {
	eachFamily(t, func(t *testing.T, p sample) {
		s := newTestNamespace(t)
		k := s.open(t)
		want := p.node()
		tunnel := netip.PrefixFrom(p.target, p.target.BitLen()-2)
		want.Links = append(want.Links, datapath.Link{Name: names.TunnelDevice, MTU: 1400})
		want.Addresses = append(want.Addresses, datapath.Address{Device: names.TunnelDevice, Prefix: tunnel})
		want.Routes = append(want.Routes, datapath.Route{Table: 101, To: p.pods, Via: p.target.Next(), Device: names.TunnelDevice})
		c := k.mustApply(t, want)
		if diff := cmp.Diff([]string{names.TunnelDevice}, c.Waiting); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(p.node().String(), k.mustObserve(t)); diff != "" {
			t.Error(diff)
		}
		s.device(t, names.TunnelDevice)
		fatal(t, s.LinkSetDown(s.link(t, names.TunnelDevice)))
		if c := k.mustApply(t, want); len(c.Waiting) > 0 {
			t.Errorf("waiting for %q", c.Waiting)
		}
		if c := k.mustApply(t, want); len(c.Writes)+len(c.Waiting) > 0 {
			t.Errorf("a second time: %q", c)
		}
		for _, line := range []string{"addr " + tunnel.String() + " dev liqo-tunnel", "route " + p.pods.String() + " via"} {
			if got := k.mustObserve(t); !strings.Contains(got, line) {
				t.Errorf("no %s in\n%s", line, got)
			}
		}
	})
}

func TestUnsupportedState(t *testing.T) {
	p := samples["ip"]
	hop := func(next, outer string, mac [6]byte) datapath.Neighbour {
		return datapath.Neighbour{Device: names.FabricDevice, Next: addr(next), Outer: addr(outer), MAC: mac}
	}
	for want, add := range map[string]func(*datapath.State){
		"a vxlan called other could not be recognized later": func(s *datapath.State) {
			s.Links = append(s.Links, datapath.Link{Name: "other", VXLAN: &datapath.VXLAN{ID: 1}})
		},
		"hop 10.0.0.1 is on eth0, which is not created": func(s *datapath.State) {
			s.Neighbours = append(s.Neighbours, datapath.Neighbour{Device: "eth0", Next: addr("10.0.0.1")})
		},
		"hops 10.200.1.9 and 11.0.0.1 have one MAC and lead to": func(s *datapath.State) {
			s.Neighbours = slices.Insert(s.Neighbours, 0, hop("11.0.0.1", "10.1.0.1", datapath.MAC(p.gateway)))
		},
		"outer addresses of two families": func(s *datapath.State) { s.Neighbours = append(s.Neighbours, hop("11.0.0.1", "fd00::1", [6]byte{2})) },
	} {
		k := newTestNamespace(t).open(t)
		state := p.node()
		add(&state)
		if _, err := k.Apply(t.Context(), state); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
		if diff := cmp.Diff(p.node().String(), k.mustObserve(t)); diff != "" {
			t.Error(diff)
		}
	}
}
