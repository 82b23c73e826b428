// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/api/networking/v1beta1/firewall"
	"liqo.io/liqo/internal/datapath"
	"liqo.io/liqo/internal/names"
)

func TestUserObjectTargets(t *testing.T) {
	rome := PeerKey{"liqo-tenant-rome", "rome"}
	for _, tc := range []struct {
		namespace   string
		labels      string // category subcategory unique
		routes, fws string // where it applies, of: node, other-node, rome, oslo, namesake
	}{
		{"liqo", "fabric", "node other-node", ""},
		{"liqo", "fabric all-nodes", "node other-node", "node other-node"},
		{"liqo", "fabric ip-mapping", "node other-node", "node other-node"},
		{"liqo", "fabric single-node node", "node other-node", "node"},
		{"liqo", "gateway", "", ""},
		{"liqo", "gateway all-gateways", "", "rome oslo namesake"},
		{"liqo", "gateway fabric", "rome oslo namesake", "rome oslo namesake"},
		{"liqo", "gateway ip-mapping", "", "rome oslo namesake"},
		{"liqo", "gateway fabric-node node", "rome oslo namesake", "namesake"},
		{"liqo", "gateway anything rome", "rome", "rome"},
		{"liqo-tenant-rome", "gateway anything rome", "rome", "rome"},
		{"liqo-tenant-rome", "gateway all-gateways", "", "rome"},
		{"liqo-tenant-rome", "fabric all-nodes", "", ""},
		{"default", "gateway anything rome", "", ""},
		{"liqo", "", "", ""},
	} {
		var of [3]string
		_, _ = fmt.Sscan(tc.labels, &of[0], &of[1], &of[2])
		route := &networkingv1beta1.RouteConfiguration{ObjectMeta: metav1.ObjectMeta{Namespace: tc.namespace, Labels: map[string]string{
			names.RouteCategory: of[0], names.RouteSubcategory: of[1], names.RouteUnique: of[2],
		}}}
		firewall := &networkingv1beta1.FirewallConfiguration{ObjectMeta: metav1.ObjectMeta{Namespace: tc.namespace, Labels: map[string]string{
			names.FirewallCategory: of[0], names.FirewallSubcategory: of[1], names.FirewallUnique: of[2],
		}}}
		var routes, fws string
		say := func(who string, r, f bool) {
			if r {
				routes += " " + who
			}
			if f {
				fws += " " + who
			}
		}
		for _, n := range []string{"node", "other-node"} {
			say(n, RoutesOnNode(route, "liqo"), FirewallOnNode(firewall, "liqo", n))
		}
		say("rome", RoutesOnGateway(route, "liqo", rome, "node"), FirewallOnGateway(firewall, "liqo", rome))
		oslo, namesake := PeerKey{"liqo-tenant-oslo", "oslo"}, PeerKey{"liqo-tenant-node", "node"} // of a node
		say("oslo", RoutesOnGateway(route, "liqo", oslo, "node"), FirewallOnGateway(firewall, "liqo", oslo))
		say("namesake", RoutesOnGateway(route, "liqo", namesake, "node"), FirewallOnGateway(firewall, "liqo", namesake))
		if want := " " + tc.routes; routes != want && routes+tc.routes != "" {
			t.Errorf("routes of %s in %s apply to%s, want%s", tc.labels, tc.namespace, routes, want)
		}
		if want := " " + tc.fws; fws != want && fws+tc.fws != "" {
			t.Errorf("firewall of %s in %s applies to%s, want%s", tc.labels, tc.namespace, fws, want)
		}
		route.DeletionTimestamp = new(metav1.Now())
		if RoutesOnNode(route, "liqo") || RoutesOnGateway(route, "liqo", rome, "node") {
			t.Errorf("%s in %s applies while it is deleted", tc.labels, tc.namespace)
		}
	}
}

func TestTableIDs(t *testing.T) {
	for name, want := range map[string]int{"rome": 1237755304, "worker-1-extcidr": 964469623, "to-lab": 32592813} {
		if got := tableID(name); got != want {
			t.Errorf("the table %q is %d, want %d", name, got, want)
		}
	}
}

// written is a state, and what it is without.
func written(s datapath.State, problems []Problem) string {
	out := s.String()
	for _, p := range problems {
		out += "# " + p.Message + "\n"
	}
	return out
}

func TestUserRoutes(t *testing.T) {
	cidr := func(s string) *networkingv1beta1.CIDR { return new(networkingv1beta1.CIDR(s)) }
	ip := func(s string) *networkingv1beta1.IP { return new(networkingv1beta1.IP(s)) }
	c := &networkingv1beta1.RouteConfiguration{}
	c.Name, c.Namespace = "to-lab", "liqo"
	c.Spec.Table = networkingv1beta1.Table{Name: "to-lab", Rules: []networkingv1beta1.Rule{
		{Dst: cidr("192.0.2.0/24"), Iif: new("cni0"), FwMark: new(7), Routes: []networkingv1beta1.Route{
			{Dst: cidr("192.0.2.0/24"), Gw: ip("172.29.1.254"), Dev: new("eth0"), Onlink: new(true), Src: ip("172.29.1.1")},
			{Dst: cidr("192.0.2.128/25"), Dev: new("eth1"), Scope: new(networkingv1beta1.LinkScope)},
			{Dst: cidr("192.0.2.0/24"), Dev: new("eth1")},
			{Dst: cidr("nonsense"), Dev: new("eth1")},
			{Dst: cidr("198.51.100.0/24")},
			{Dst: cidr("198.51.100.0/24"), Dev: new("a/b")},
			{Dst: cidr("198.51.100.0/24"), Dev: new("eth1"), Src: ip("fd00::1")},
			{Dst: cidr("198.51.100.0/24"), Dev: new("eth1"), Scope: new(networkingv1beta1.NowhereScope)},
			{Dev: new("eth1")},
		}},
		{Src: cidr("10.200.7.9/24"), Priority: new(50)},
		{Oif: new("eth9")},
		{Src: cidr("10.0.0.0/8"), Dst: cidr("fd00::/8")},
		{Priority: new(40000)},
		{FwMark: new(-1)},
	}}
	r, problems := RoutingOf(c)
	var s datapath.State
	user := model{}
	user.addRoutings(&s, []Routing{r}, userPlace{tables: []int{peersTable}, before: defaultRulePriority})
	s.Sort()
	want := `route 192.0.2.0/24 via 172.29.1.254 dev eth0 onlink src 172.29.1.1 table 32592813
route 192.0.2.128/25 dev eth1 scope link table 32592813
rule pref 50 from 10.200.7.0/24 lookup 32592813
rule pref 104 oif eth9 lookup 32592813
rule pref 104 to 192.0.2.0/24 iif cni0 fwmark 7 lookup 32592813
# route 3 of rule 1: there is another route to 192.0.2.0/24
# route 4 of rule 1: "nonsense" is not a network
# route 5 of rule 1: it has neither gw nor dev
# route 6 of rule 1: "a/b" is not the name of a device
# route 7 of rule 1: fd00::1 is not of the family of 198.51.100.0/24
# route 8 of rule 1: no route has the scope "nowhere"
# route 9 of rule 1: it has no dst
# rule 4: 10.0.0.0/8 and fd00::/8 are not of the same family
# rule 5: the priority 40000 is not between 0 and 32765
# rule 6: -1 is not a mark
`
	if diff := cmp.Diff(want, written(s, problems)); diff != "" {
		t.Error(diff)
	}
}

func TestUserFirewalls(t *testing.T) {
	eq, neq := firewall.MatchOperationEq, firewall.MatchOperationNeq
	from := func(op firewall.MatchOperation, v string) firewall.Match {
		return firewall.Match{Op: op, IP: &firewall.MatchIP{Value: v, Position: firewall.MatchPositionSrc}}
	}
	port := func(op firewall.MatchOperation, v string) firewall.Match {
		return firewall.Match{
			Op: op, Proto: &firewall.MatchProto{Value: firewall.L4ProtoTCP}, Port: &firewall.MatchPort{Value: v, Position: firewall.MatchPositionDst},
			Dev: &firewall.MatchDev{Value: "eth0", Position: firewall.MatchDevPositionIn},
		}
	}
	filtering := func(name string, hook firewall.ChainHook, rules ...firewall.FilterRule) firewall.Chain {
		return firewall.Chain{Name: &name, Type: firewall.ChainTypeFilter, Hook: &hook, Policy: new(firewall.ChainPolicyDrop), Rules: firewall.RulesSet{FilterRules: rules}}
	}
	translating := func(name string, hook firewall.ChainHook, priority firewall.ChainPriority, rules ...firewall.NatRule) firewall.Chain {
		return firewall.Chain{Name: &name, Type: firewall.ChainTypeNAT, Hook: &hook, Priority: &priority, Rules: firewall.RulesSet{NatRules: rules}}
	}
	c := firewallWith("lab", firewall.TableFamilyINet,
		filtering("pass", firewall.ChainHookForward,
			firewall.FilterRule{Action: firewall.ActionAccept, Counter: true, Match: []firewall.Match{from(eq, "10.200.0.0/16"), port(neq, "80")}},
			firewall.FilterRule{Action: firewall.ActionDrop, Match: []firewall.Match{from(neq, "10.0.0.5-10.0.0.9"), port(eq, "80-90")}},
			firewall.FilterRule{Action: firewall.ActionReject, Match: []firewall.Match{from(eq, "fd00::/8")}},
			firewall.FilterRule{Action: firewall.ActionAccept, Match: []firewall.Match{{Op: neq, Proto: &firewall.MatchProto{Value: firewall.L4ProtoUDP}}}},
			firewall.FilterRule{Action: firewall.ActionTCPMssClamp, Match: []firewall.Match{port(eq, "443")}, Value: new("1200")},
			firewall.FilterRule{Action: firewall.ActionTCPMssClamp, Match: []firewall.Match{port(eq, "443")}},
			firewall.FilterRule{Action: firewall.ActionCtMark, Value: new("12")},
			firewall.FilterRule{Action: firewall.ActionMetaMarkFromCtMark},
			firewall.FilterRule{Action: firewall.ActionNotrack},
			firewall.FilterRule{Name: new("mark"), Action: firewall.ActionCtMark, Value: new("x")},
			firewall.FilterRule{Name: new("any"), Action: firewall.ActionTCPMssClamp},
			firewall.FilterRule{Name: new("backwards"), Action: firewall.ActionDrop, Match: []firewall.Match{port(eq, "90-80")}},
			firewall.FilterRule{Name: new("nobody"), Action: firewall.ActionDrop, Match: []firewall.Match{from(eq, "nobody")}},
			firewall.FilterRule{Name: new("nothing"), Action: "shrug"},
		),
		filtering("early", firewall.ChainHookPrerouting,
			firewall.FilterRule{Name: new("route"), Action: firewall.ActionTCPMssClamp, Match: []firewall.Match{port(eq, "443")}, Value: new("0")}),
		filtering("early", firewall.ChainHookInput),
		filtering("nowhere", firewall.ChainHookIngress),
		filtering("bad name", firewall.ChainHookInput),
		translating("to", firewall.ChainHookPrerouting, -100,
			firewall.NatRule{NatType: firewall.NatTypeDestination, To: new("10.200.1.5"), Match: []firewall.Match{port(eq, "8080")}},
			firewall.NatRule{NatType: firewall.NatTypeDestination, To: new("fd00:1::/64")},
			firewall.NatRule{Name: new("source"), NatType: firewall.NatTypeSource, To: new("10.200.1.5")},
			firewall.NatRule{Name: new("none"), NatType: firewall.NatTypeDestination}),
		translating("back", firewall.ChainHookPostrouting, 100,
			firewall.NatRule{NatType: firewall.NatTypeMasquerade, Match: []firewall.Match{from(eq, "10.9.0.0/16")}},
			firewall.NatRule{NatType: firewall.NatTypeSource, To: new("10.9.0.0/16")}),
		translating("too-early", firewall.ChainHookPrerouting, -300),
		firewall.Chain{Name: new("routes"), Type: firewall.ChainTypeRoute, Hook: new(firewall.ChainHookOutput)},
	)
	f, problems := FirewallOf(c)
	if !f.Stateful {
		t.Error("what translates needs state")
	}
	golden(t, "user-firewall", written(datapath.State{Tables: f.Tables}, problems))
}

func TestInvalidFirewalls(t *testing.T) {
	for want, c := range map[string]*networkingv1beta1.FirewallConfiguration{
		`table x: the family "BRIDGE" is not supported`: firewallWith("x", firewall.TableFamilyBridge),
		"the name of the table is invalid":              firewallWith("x y", firewall.TableFamilyIPv4),
	} {
		if f, problems := FirewallOf(c); len(f.Tables) > 0 || len(problems) != 1 || problems[0].Message != want {
			t.Errorf("%v, want %s", problems, want)
		}
	}
}

// What two objects ask for is the first's; what is ours is nobody's.
func TestUserObjectConflicts(t *testing.T) {
	c := milan()
	routing := func(name string, table int) Routing {
		return Routing{Of: Object{"RouteConfiguration", "liqo", name}, Table: table, Routes: []datapath.Route{{To: nets("192.0.2.0/24")[0], Device: name}}}
	}
	firewall := func(name, table string) Firewall {
		return Firewall{Of: Object{"FirewallConfiguration", "liqo", name}, Tables: []datapath.Table{{Family: datapath.IPv4, Name: table}}}
	}
	c.Routings = []Routing{routing("second", 7), routing("first", 7), routing("third", peersTable), routing("main", 254)}
	c.Firewalls = []Firewall{firewall("second", "t"), firewall("first", "t"), firewall("ours", datapath.TableName), firewall("mark", datapath.PendingFlushTable)}
	_, problems := Node(NodeInput{Cluster: c, Name: "worker-1"})
	var got []string
	for _, p := range problems {
		got = append(got, p.String())
	}
	want := []string{
		"RouteConfiguration liqo/main: table 254 is not for users",
		"FirewallConfiguration liqo/mark: the table liqo_unsettled is not for users",
		"FirewallConfiguration liqo/ours: the table liqo is not for users",
		"FirewallConfiguration liqo/second: the table t is that of FirewallConfiguration liqo/first",
		"RouteConfiguration liqo/second: table 7 is that of RouteConfiguration liqo/first",
		"RouteConfiguration liqo/third: table 6091 is not for users",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// What a gateway sends as itself comes before rules of users that have no priority, and these before peers, whatever the priority of that is.
func TestUserRuleOrder(t *testing.T) {
	c := milan()
	c.Routings = []Routing{{Of: Object{"RouteConfiguration", "liqo", "mine"}, Table: 7777, Rules: []datapath.Rule{{Family: datapath.IPv4, Input: "eth1"}}}}
	for priority, want := range map[int]string{
		0:     "103 goto 106, 104 iif eth1 lookup 7777, 105 lookup 6091, 106 nop",
		1:     "0 goto 2, 1 lookup 6091, 1 iif eth1 lookup 7777, 2 nop",
		2:     "0 goto 3, 1 iif eth1 lookup 7777, 2 lookup 6091, 3 nop",
		32765: "32763 goto 32766, 32764 iif eth1 lookup 7777, 32765 lookup 6091, 32766 nop",
	} {
		state, problems := Node(NodeInput{Cluster: c, Name: "worker-1", RulePriority: priority})
		var got []string
		for _, r := range state.Rules {
			if r.Table != probesTable {
				got = append(got, strings.NewReplacer("rule pref ", "", "from 10.200.1.9/32 ", "").Replace(r.String()))
			}
		}
		if diff := cmp.Diff(want, strings.Join(got, ", ")); diff != "" || len(problems) > 0 {
			t.Errorf("priority %d: %s %v", priority, diff, problems)
		}
	}
}
