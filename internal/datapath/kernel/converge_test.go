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

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"liqo.io/liqo/internal/datapath"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/network/plan"
	"liqo.io/liqo/internal/prefix"
)

// moved is the node after its gateway and its own address moved, and whatever else can change did.
func (p sample) moved() datapath.State {
	q := p
	q.gateway, q.outer, q.own = p.gateway.Next(), p.outer.Next(), p.own.Next()
	s := q.node()
	s.Links[1].VXLAN.ID, s.Links[1].MTU = 2, 1400
	s.Links[2].Veth.MAC[5], s.Links[0].MTU, s.Neighbours[1].MAC[5] = 7, 1400, 7
	s.Rules = append(s.Rules, datapath.Rule{Priority: 105, Family: p.family, Input: "lo", Mark: 4, Table: 6092}, datapath.Rule{Priority: 120, Family: p.family, To: p.pods, Output: "lo", Table: 6091})
	t := &s.Tables[0]
	t.Counters = append(t.Counters, "seen")
	t.Sets[0].Elements[0].Value[0] = datapath.Addr(p.target.Next())
	t.Sets[0].Elements = append(t.Sets[0].Elements, datapath.Element{Key: []datapath.Value{datapath.Addr(p.alias.Next())}, Value: []datapath.Value{datapath.Addr(p.target)}})
	t.Sets[1].Elements[1] = datapath.Element{Key: []datapath.Value{datapath.Prefix(p.pods)}}
	t.Sets = append(t.Sets, datapath.Set{Name: "more", Key: []datapath.Type{datapath.TypePort}})
	t.Chains[0].Priority = -102
	t.Chains[1].Policy = datapath.Drop
	t.Chains[2].Rules = append([][]datapath.Statement{{datapath.Lookup{Fields: []datapath.Field{datapath.SourcePort}, Set: "more"}, datapath.Counter{Name: "seen"}}}, t.Chains[2].Rules...)
	t.Chains = slices.Delete(t.Chains, 3, 4)
	s.Tables = append(s.Tables, datapath.Table{Family: p.family, Name: "of-a-user", Chains: []datapath.Chain{
		{Name: "in", Type: datapath.Filter, Hook: datapath.Input, Policy: datapath.Accept, Rules: [][]datapath.Statement{{datapath.AnonymousCounter{}}}},
	}})
	s.Sort()
	return s
}

// stopped is panicked with by a Kernel that is killed.
type stopped struct{ before string }

// applyUntil is killed before its n-th write, and false if it came to its end.
func applyUntil(t *testing.T, s *testNamespace, want datapath.State, n int) (killed bool) {
	t.Helper()
	k := s.openWith(t, Options{before: func(what string) {
		if n--; n == 0 {
			panic(stopped{what})
		}
	}})
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(stopped); !ok {
				panic(r)
			}
			killed = true
		}
	}()
	k.mustApply(t, want)
	return false
}

// killed has Apply be killed before each of its writes on the way from one state to another, and be finished by another process: it all
// ends as it does where nobody is killed. That is exactly the state, or has what others made and a state only speaks of.
func killed(t *testing.T, name string, exact bool, from, to datapath.State) {
	t.Run(name, func(t *testing.T) {
		space := func() *testNamespace {
			s := newTestNamespace(t)
			s.device(t, names.TunnelDevice)
			s.open(t).mustApply(t, from)
			return s
		}
		k := space().open(t)
		k.mustApply(t, to)
		want := k.mustObserve(t)
		if exact && want != to.String() {
			t.Fatal(cmp.Diff(to.String(), want))
		}
		for n, stopped := 1, true; stopped; n++ {
			s := space()
			stopped = applyUntil(t, s, to, n)
			k := s.open(t)
			between, err := k.Observe()
			fatal(t, err)
			guarded(t, between, from, to)
			k.mustApply(t, to)
			if diff := cmp.Diff(want, k.mustObserve(t)); diff != "" {
				t.Fatalf("after a kill before write %d: %s", n, diff)
			}
			if c := k.mustApply(t, to); len(c.Writes)+len(c.Waiting) > 0 {
				t.Fatalf("after a kill before write %d there is still something to do: %q", n, c)
			}
		}
	})
}

func TestApplyAfterKill(t *testing.T) {
	eachFamily(t, func(t *testing.T, p sample) {
		killed(t, "in", true, datapath.State{}, p.node())
		killed(t, "over", true, p.node(), p.moved())
		killed(t, "back", true, p.moved(), p.node())
		killed(t, "out", true, p.moved(), datapath.State{})
	})
}

// The same with what agents apply. In between all addresses change, IPv6 comes, and the gateway begins to remember flows.
func TestApplyPlanAfterKill(t *testing.T) {
	l := &lab{T: t}
	first, second := l.cluster("a"), l.cluster("b")
	second.Pods, second.Peers[0].Pods = append(second.Pods, parsePrefix("fd00:200::/56")), []prefix.Pair{
		{Remote: parsePrefix("10.200.0.0/16"), Local: parsePrefix("10.72.0.0/16")}, {Remote: parsePrefix("fd00:200::/56"), Local: parsePrefix("fd00:71::/56")},
	}
	second.Members[0].PodCIDRs = append(second.Members[0].PodCIDRs, parsePrefix("fd00:200:0:1::/64"))
	second.Firewalls = []plan.Firewall{{Of: plan.Object{Kind: "FirewallConfiguration", Name: "marks"}, Stateful: true}}
	for name, of := range map[string]func(plan.Cluster) (datapath.State, []plan.Problem){
		"node": func(c plan.Cluster) (datapath.State, []plan.Problem) {
			return plan.Node(plan.NodeInput{Cluster: c, Name: "one"})
		},
		"gateway": func(c plan.Cluster) (datapath.State, []plan.Problem) {
			g := c.Tunnels[0]
			return plan.Gateway(plan.GatewayInput{Cluster: c, Of: g.Of, Peer: g.Peer, Address: g.Active, Node: "one", Server: true, MTU: 1400})
		},
	} {
		t.Run(name, func(t *testing.T) {
			from, problems := of(first)
			to, more := of(second)
			if len(problems)+len(more) > 0 {
				t.Fatal(problems, more)
			}
			killed(t, "in", false, datapath.State{}, from)
			killed(t, "over", false, from, to)
			killed(t, "out", true, to, datapath.State{})
		})
	}
}

func TestPendingFlushMark(t *testing.T) {
	eachFamily(t, func(t *testing.T, p sample) {
		k := newTestNamespace(t).open(t)
		fatal(t, k.Settle())
		for i, state := range []datapath.State{p.node(), p.moved(), {}, p.node()} {
			if already, err := k.Unsettle(); err != nil || already != (i > 0) {
				t.Errorf("before state %d there is a mark: %t, %v", i, already, err)
			}
			k.mustApply(t, state)
		}
		fatal(t, k.Settle())
		if already, err := k.Unsettle(); err != nil || already {
			t.Errorf("there still is a mark: %t, %v", already, err)
		}
	})
}

// guarded is what holds at every moment between two states: no route without its last resort, and no route, hop or device without filters.
func guarded(t *testing.T, s, from, to datapath.State) {
	t.Helper()
	leads := slices.ContainsFunc(s.Routes, func(r datapath.Route) bool { return !r.Unreachable })
	for _, last := range slices.Concat(from.Routes, to.Routes) {
		same := func(unreachable bool) func(datapath.Route) bool {
			return func(r datapath.Route) bool {
				return r.Table == last.Table && r.To == last.To && r.Unreachable == unreachable
			}
		}
		if last.Unreachable && slices.ContainsFunc(s.Routes, same(false)) && !slices.ContainsFunc(s.Routes, same(true)) {
			t.Errorf("a route to %s without its last resort:\n%s", last.To, s)
		}
	}
	filtered := slices.ContainsFunc(s.Tables, func(t datapath.Table) bool { return t.Name == datapath.TableName && len(t.Chains) > 0 })
	if (leads || len(s.Links)+len(s.Neighbours) > 0) && !filtered {
		t.Errorf("packets without filters:\n%s", s)
	}
}

// ears hear all that changes in a namespace.
type ears struct {
	space         *testNamespace
	route, filter *nl.NetlinkSocket
	marks         int
}

func listenIn(t *testing.T, s *testNamespace) *ears {
	t.Helper()
	route, err := nl.SubscribeAt(s.handle, netns.None(), unix.NETLINK_ROUTE, unix.RTNLGRP_LINK, unix.RTNLGRP_NEIGH, unix.RTNLGRP_IPV4_IFADDR,
		unix.RTNLGRP_IPV6_IFADDR, unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE, unix.RTNLGRP_IPV4_RULE, unix.RTNLGRP_IPV6_RULE)
	fatal(t, err)
	filter, err := nl.SubscribeAt(s.handle, netns.None(), unix.NETLINK_NETFILTER, 7)
	fatal(t, err)
	t.Cleanup(route.Close)
	t.Cleanup(filter.Close)
	return &ears{space: s, route: route, filter: filter}
}

// markTable has the routes that mark moments.
const markTable = 9999

// during has what is told of routes and of nftables while f runs: the kernel tells of changes in order, and of two of the test's
// before and after. What the kernel does by itself, and late, may be among it.
func (e *ears) during(t *testing.T, k *Kernel, f func()) (route, filter []syscall.NetlinkMessage) {
	t.Helper()
	e.mark(t, k)
	f()
	e.mark(t, k)
	isRoute := func(m syscall.NetlinkMessage) bool {
		key, _, _ := parseRoute(m.Data)
		return m.Header.Type == unix.RTM_NEWROUTE && key.table == markTable
	}
	isFilter := func(m syscall.NetlinkMessage) bool {
		return m.Header.Type == uint16(nftType(unix.NFT_MSG_NEWTABLE)) && strings.HasPrefix(parseBody(m.Data, sizeofGenmsg).stringOf(nameOfTable), "mark")
	}
	return between(t, e.route, isRoute), slices.DeleteFunc(between(t, e.filter, isFilter), func(m syscall.NetlinkMessage) bool {
		return m.Header.Type == uint16(nftType(unix.NFT_MSG_NEWGEN)) // of the first mark
	})
}

func (e *ears) mark(t *testing.T, k *Kernel) {
	t.Helper()
	e.marks++
	to := netip.AddrFrom4([4]byte{192, 0, byte(e.marks >> 8), byte(e.marks)})
	fatal(t, e.space.RouteAdd(&netlink.Route{Dst: ipNet(netip.PrefixFrom(to, 32).String()), Type: unix.RTN_BLACKHOLE, Table: markTable}))
	b, id := &batch{}, tableID{unix.NFPROTO_IPV4, fmt.Sprint("mark", e.marks)}
	b.addMessage(id, unix.NFT_MSG_NEWTABLE, unix.NLM_F_CREATE, "", encodeAttr(unix.NFTA_TABLE_NAME, zeroEnded(id.name)))
	fatal(t, k.sockets.commitBatch(b))
}

// between reads on to the second mark, and returns what came after the first.
func between(t *testing.T, s *nl.NetlinkSocket, mark func(syscall.NetlinkMessage) bool) (out []syscall.NetlinkMessage) {
	t.Helper()
	for marks := 0; ; {
		msgs, _, err := s.Receive()
		fatal(t, err)
		for _, m := range msgs {
			switch {
			case mark(m) && marks == 1:
				return out
			case mark(m):
				marks++
			case marks == 1:
				out = append(out, m)
			}
		}
	}
}

// rounds is how often something is tried that the kernel may interrupt.
const rounds = 50

func TestApplyIdempotent(t *testing.T) {
	eachFamily(t, func(t *testing.T, p sample) {
		s := newTestNamespace(t)
		s.device(t, names.TunnelDevice)
		want := p.node()
		want.Links = append(want.Links, datapath.Link{Name: names.TunnelDevice, MTU: 1400})
		want.Sort()
		s.open(t).mustApply(t, want)
		heard, k := listenIn(t, s), s.open(t)
		var route, filter []syscall.NetlinkMessage
		for range rounds { // an Apply that writes is heard in each
			if route, filter = heard.during(t, k, func() {
				if c := k.mustApply(t, want); len(c.Writes) > 0 {
					t.Errorf("writes: %q", c.Writes)
				}
			}); len(route)+len(filter) == 0 {
				return
			}
		}
		t.Errorf("the kernel told of %v and %v", route, filter)
	})
}

func TestApplyMinimalWrite(t *testing.T) {
	eachFamily(t, func(t *testing.T, p sample) {
		mac := datapath.MAC(p.gateway)
		words := strings.NewReplacer("FAMILY", p.family.String(), "MAC", net.HardwareAddr(mac[:]).String(), "OUTER2", p.outer.Next().String(),
			"PEER", p.peer.String(), "GATEWAY", p.gateway.String(), "OWN", p.own.String())
		one := func(key, value netip.Addr) datapath.Element {
			return datapath.Element{Key: []datapath.Value{datapath.Addr(key)}, Value: []datapath.Value{datapath.Addr(value)}}
		}
		k := newTestNamespace(t).open(t)
		k.mustApply(t, p.node())
		for _, tc := range []struct {
			name   string
			change func(*datapath.State)
			want   []string
		}{
			{"the outer address of a hop", func(s *datapath.State) { s.Neighbours[0].Outer = p.outer.Next() }, []string{"fdb replace MAC dev liqo.fabric dst OUTER2"}},
			{"the MAC", func(s *datapath.State) { s.Links[1].VXLAN.MAC[5] = 9 }, []string{"link set liqo.fabric address " + otherMAC(p), "neigh replace GATEWAY lladdr MAC dev liqo.fabric"}},
			{"a route", func(s *datapath.State) { s.Routes[0].MTU = 1200 }, []string{"replace route PEER via GATEWAY dev liqo.fabric onlink src OWN mtu 1200 table 6091"}},
			{"a rule of routing", func(s *datapath.State) { s.Rules[1].Table = 6093 }, []string{"add RULE lookup 6093", "delete RULE lookup 6091"}},
			{"an element", func(s *datapath.State) {
				s.Tables[0].Sets[0].Elements = append(s.Tables[0].Sets[0].Elements, one(p.alias.Next(), p.target))
			}, []string{"nft: add 1 elements of alias in table FAMILY liqo"}},
			{"the value of an element", func(s *datapath.State) { s.Tables[0].Sets[0].Elements[0] = one(p.alias, p.target.Next()) },
				[]string{"nft: delete 1 elements of alias in table FAMILY liqo\nadd 1 elements of alias in table FAMILY liqo"}},
			{"a range among ranges", func(s *datapath.State) {
				s.Tables[0].Sets[1].Elements = []datapath.Element{{Key: []datapath.Value{datapath.Prefix(half(p.peer))}}, {Key: []datapath.Value{datapath.Prefix(p.services)}}}
			}, []string{"nft: delete 1 elements of direct in table FAMILY liqo\nadd 1 elements of direct in table FAMILY liqo"}},
			{"a rule", func(s *datapath.State) {
				s.Tables[0].Chains[0].Rules = [][]datapath.Statement{{datapath.AnonymousCounter{}}}
			},
				[]string{"nft: flush chain alias_in in table FAMILY liqo\nadd rule alias_in counter in table FAMILY liqo"}},
			{"a policy", func(s *datapath.State) { s.Tables[0].Chains[1].Policy = datapath.Drop }, []string{"nft: add chain outer in table FAMILY liqo"}},
		} {
			t.Run(tc.name, func(t *testing.T) {
				changed := p.node()
				tc.change(&changed)
				want := make([]string, len(tc.want))
				for i, line := range tc.want {
					rule := datapath.Rule{Priority: 105, Family: p.family}.String()
					want[i] = words.Replace(strings.ReplaceAll(line, "RULE", strings.TrimSuffix(rule, " lookup 0")))
				}
				if diff := cmp.Diff(want, k.mustApply(t, changed).Writes); diff != "" {
					t.Error(diff)
				}
				k.mustApply(t, p.node())
			})
		}
	})
}

func TestApplyFilterOrder(t *testing.T) {
	k := newTestNamespace(t).open(t)
	verbs := func(c Changes) []string {
		var out []string
		for _, w := range c.Writes {
			first, _, _ := strings.Cut(w, "\n")
			words := strings.Fields(first)
			out = append(out, strings.Join(words[:min(3, len(words))], " "))
		}
		return out
	}
	if diff := cmp.Diff([]string{
		"nft: add all",
		"link liqo.echo address", "link set liqo.echo", "link set liqo.echo", "link set liqo.echo",
		"link liqo.fabric address", "link set liqo.fabric", "link set liqo.fabric", "link set liqo.fabric",
		"link set liqo.probe", "link set liqo.probe", "link set liqo.probe", "link set liqo.probe",
		"addr add 10.70.0.12/32",
		"fdb replace 02:6c:0a:c8:01:09", "neigh replace 172.29.1.100", "neigh replace 10.200.1.9",
		"add route unreachable", "add route 10.71.0.0/16", "add route 172.29.1.100/32",
		"add rule pref", "add rule pref", "add rule pref", "add rule pref", "add rule pref",
	}, verbs(k.mustApply(t, samples["ip"].node()))); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{
		"delete rule pref", "delete rule pref", "delete rule pref", "delete rule pref", "delete rule pref",
		"delete route 172.29.1.100/32", "delete route 10.71.0.0/16", "delete route unreachable",
		"addr delete 10.70.0.12/32",
		"link delete liqo.fabric", "link delete liqo.probe",
		"nft: delete all",
	}, verbs(k.mustApply(t, datapath.State{}))); diff != "" {
		t.Error(diff)
	}
}

func half(p netip.Prefix) netip.Prefix { return netip.PrefixFrom(p.Addr(), p.Bits()+1) }

func otherMAC(p sample) string {
	mac := datapath.MAC(p.own)
	mac[5] = 9
	return net.HardwareAddr(mac[:]).String()
}

func TestSetFirstRange(t *testing.T) {
	eachFamily(t, func(t *testing.T, p sample) {
		k := newTestNamespace(t).open(t)
		want := p.node()
		k.mustApply(t, want)
		element := func(v datapath.Value) datapath.Element {
			return datapath.Element{Key: []datapath.Value{v}, Value: []datapath.Value{datapath.Addr(p.target)}}
		}
		elements := want.Tables[0].Sets[0].Elements
		for _, more := range [][]datapath.Element{
			{element(datapath.Prefix(p.pods)), element(datapath.Prefix(half(p.peer)))},
			{element(datapath.Prefix(p.pods))},
			{}, // no ranges any more: the set may stay one for ranges
			{element(datapath.Addr(p.own))},
		} {
			want.Tables[0].Sets[0].Elements = append(slices.Clone(elements), more...)
			want.Sort()
			if c := k.mustApply(t, want); len(c.Writes) != 1 {
				t.Errorf("%d writes", len(c.Writes))
			}
			if diff := cmp.Diff(want.String(), k.mustObserve(t)); diff != "" {
				t.Error(diff)
			}
		}
	})
}

func TestApplyCancelled(t *testing.T) {
	s := newTestNamespace(t)
	ctx, cancel := context.WithCancel(t.Context())
	k := s.openWith(t, Options{before: func(string) { cancel() }})
	c, err := k.Apply(ctx, samples["ip"].node())
	if err == nil || len(c.Writes) > 1 {
		t.Errorf("%d writes, error %v", len(c.Writes), err)
	}
}
