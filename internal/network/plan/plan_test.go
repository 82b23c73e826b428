// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/api/networking/v1beta1/firewall"
	"liqo.io/liqo/internal/datapath"
	"liqo.io/liqo/internal/prefix"
)

var update = flag.Bool("update", false, "rewrite testdata")

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

func addrs(of ...string) (out []netip.Addr) {
	for _, s := range of {
		out = append(out, addr(s))
	}
	return out
}

func nets(of ...string) (out []netip.Prefix) {
	for _, s := range of {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

// pairs are "there here" with the same length.
func pairs(of ...string) (out []prefix.Pair) {
	for _, s := range of {
		remote, local, _ := strings.Cut(s, " ")
		out = append(out, prefix.Pair{Remote: netip.MustParsePrefix(remote), Local: netip.MustParsePrefix(local)})
	}
	return out
}

func key(id string) PeerKey { return PeerKey{"liqo-tenant-" + id, id} }

func peer(id string, pods, external []prefix.Pair) Peer {
	return Peer{Of: Object{"Configuration", "liqo-tenant-" + id, id}, Key: key(id), Pods: pods, External: external}
}

func tunnel(id, active string) Tunnel {
	t := Tunnel{Of: Object{"GatewayServer", "liqo-tenant-" + id, id}, Peer: key(id)}
	if active != "" {
		t.Active = addr(active)
	}
	return t
}

func member(name, external, local, remote string, pods ...string) ClusterNode {
	return ClusterNode{Of: Object{"InternalNode", "", name}, External: addrs(strings.Fields(external)...), Local: addr(local), Remote: addr(remote), PodCIDRs: nets(pods...)}
}

func alias(name, from, to string, masquerade bool) TranslatedIP {
	return TranslatedIP{Of: Object{"IP", "demo", name}, Alias: addr(from), Address: addr(to), Masquerade: masquerade}
}

// milan is a cluster with the same networks as its peer rome, which is shown under others.
func milan() Cluster {
	return Cluster{
		Pods: nets("10.200.0.0/16"), Services: nets("10.96.0.0/12"), External: nets("10.70.0.0/16"),
		Peers:   []Peer{peer("rome", pairs("10.200.0.0/16 10.71.0.0/16"), pairs("10.70.0.0/16 10.68.0.0/16"))},
		Tunnels: []Tunnel{tunnel("rome", "10.200.1.9")},
		Members: []ClusterNode{
			member("worker-1", "10.70.0.11", "10.200.1.1", "172.29.1.1", "10.200.1.0/24"),
			member("worker-2", "10.70.0.12", "10.200.2.1", "172.29.1.2", "10.200.2.0/24"),
		},
	}
}

// hub is milan with a second peer, oslo, that has the same networks once more.
func hub() Cluster {
	c := milan()
	c.Peers = append(c.Peers, peer("oslo", pairs("10.200.0.0/16 10.69.0.0/16"), pairs("10.70.0.0/16 10.64.0.0/16")))
	c.Tunnels = append(c.Tunnels, tunnel("oslo", "10.200.1.8"))
	return c
}

// withStandby gives the last gateway another replica.
func withStandby(c Cluster) Cluster {
	c.Tunnels = slices.Clone(c.Tunnels)
	c.Tunnels[len(c.Tunnels)-1].Standby = addrs("10.200.2.19")
	return c
}

// A standby takes over, and nothing but routes changes on a node. Without an active replica the standbys stay prepared.
func TestFailoverChangesRoutesOnly(t *testing.T) {
	lines := func(c Cluster) string {
		state, _ := Node(NodeInput{Cluster: c, Name: "worker-2"})
		var kept []string
		for line := range strings.Lines(state.String()) {
			if !strings.HasPrefix(strings.TrimSpace(line), "route ") {
				kept = append(kept, line)
			}
		}
		slices.Sort(kept)
		return strings.Join(kept, "")
	}
	before := withStandby(milan())
	for name, active := range map[string]netip.Addr{"taken_over": addr("10.200.2.19"), "none": {}} {
		after := withStandby(milan())
		after.Tunnels[0].Active, after.Tunnels[0].Standby = active, addrs("10.200.1.9", "10.200.2.19")
		if diff := cmp.Diff(lines(before), lines(after)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func with6(c Cluster) Cluster {
	c.Pods = append(c.Pods, nets("fd00:200::/56")...)
	c.Services = append(c.Services, nets("fd00:96::/112")...)
	c.External = append(c.External, nets("fd00:70::/64")...)
	c.Peers[0].Pods = append(c.Peers[0].Pods, pairs("fd00:200::/56 fd00:71::/56")...)
	c.Peers[0].External = append(c.Peers[0].External, pairs("fd00:70::/64 fd00:68::/64")...)
	c.Members[0].PodCIDRs = append(c.Members[0].PodCIDRs, nets("fd00:200:0:1::/64")...)
	c.Members[1].PodCIDRs = append(c.Members[1].PodCIDRs, nets("fd00:200:0:2::/64")...)
	return c
}

// only6 is milan without IPv4.
func only6() Cluster {
	return Cluster{
		Pods: nets("fd00:200::/56"), Services: nets("fd00:96::/112"), External: nets("fd00:70::/64"),
		Peers:   []Peer{peer("rome", pairs("fd00:200::/56 fd00:71::/56"), pairs("fd00:70::/64 fd00:68::/64"))},
		Tunnels: []Tunnel{tunnel("rome", "fd00:200:0:1::9")},
		Members: []ClusterNode{
			member("worker-1", "fd00:70::ff01", "fd00:200:0:1::1", "fd00:29::1", "fd00:200:0:1::/64"),
			member("worker-2", "fd00:70::ff02", "fd00:200:0:2::1", "fd00:29::2", "fd00:200:0:2::/64"),
		},
	}
}

func change(c Cluster, by func(*Cluster)) Cluster {
	by(&c)
	return c
}

func onNode(name string, c Cluster) func() (datapath.State, []Problem) {
	return func() (datapath.State, []Problem) { return Node(NodeInput{Cluster: c, Name: name}) }
}

func inGateway(id, address string, c Cluster) func() (datapath.State, []Problem) {
	return func() (datapath.State, []Problem) {
		return Gateway(GatewayInput{
			Cluster: c, Of: Object{"GatewayServer", "liqo-tenant-" + id, id}, Peer: key(id), Address: addr(address), Node: "worker-1", Server: true,
		})
	}
}

func withAliases(c Cluster) Cluster {
	c.Aliases = []TranslatedIP{
		alias("printer", "10.70.0.21", "172.29.1.100", true),
		alias("database", "10.70.0.22", "172.29.1.101", false),
		alias("node-exporter", "10.70.0.23", "172.29.1.2", false),
		alias("pod-of-rome", "10.70.0.24", "10.71.1.5", false),
	}
	return c
}

func withAPIServer(c Cluster) Cluster {
	c.Aliases = []TranslatedIP{alias("api-server", "10.70.0.25", "10.96.0.1", false)}
	c.ClusterIPs = []Service{{
		Of: Object{"Service", "default", "kubernetes"}, ClusterIPs: addrs("10.96.0.1"),
		Ports: []ServicePort{{datapath.TCP, 443, []netip.AddrPort{netip.MustParseAddrPort("172.29.1.1:6443"), netip.MustParseAddrPort("172.29.1.2:6443")}}},
	}}
	return c
}

// withNewExternal gives milan another external CIDR; nodes and IPs keep their host bits.
func withNewExternal(c Cluster) Cluster {
	c.External = nets("10.75.0.0/16")
	for i := range c.Members {
		c.Members[i].External = []netip.Addr{prefix.Move(c.Members[i].External[0], c.External[0])}
	}
	for i := range c.Aliases {
		a := &c.Aliases[i]
		a.Alias, a.Previous = prefix.Move(a.Alias, c.External[0]), []netip.Addr{a.Alias}
	}
	return c
}

// localPods are pods of worker-1: of no consumer, with a label for peers, of two consumers, one of those with a token, and of a namespace
// that is not known yet.
func localPods() []LocalPod {
	return []LocalPod{
		{Of: Object{"Pod", "billing", "web"}, Addresses: addrs("10.200.1.4")},
		{Of: Object{"Pod", "shop", "web"}, Addresses: addrs("10.200.1.5"), Reachable: true},
		{Of: Object{"Pod", "shop-rome", "web"}, Addresses: addrs("10.200.1.6"), Consumer: "rome"},
		{Of: Object{"Pod", "shop-rome", "operator"}, Addresses: addrs("10.200.1.7"), Consumer: "rome", APIServer: true},
		{Of: Object{"Pod", "shop-oslo", "forced"}, Addresses: addrs("10.200.1.10"), Consumer: "oslo"},
		{Of: Object{"Pod", "new", "web"}, Addresses: addrs("10.200.1.11"), Unknown: true, APIServer: true},
	}
}

func restricted() PodAccess {
	return PodAccess{OffloadedOnly: true, IsolateConsumers: true, Pods: localPods()}
}

func withHosts(c Cluster) Cluster {
	c = withAPIServer(c)
	c.Taken = []ReservedPrefix{{netip.MustParsePrefix("172.29.1.1/32"), "worker-1"}, {netip.MustParsePrefix("172.29.1.2/32"), "worker-2"}}
	return c
}

func onRestrictedNode(c Cluster, access PodAccess) func() (datapath.State, []Problem) {
	return func() (datapath.State, []Problem) {
		return Node(NodeInput{Cluster: c, Name: "worker-1", Access: access})
	}
}

// The walks of docs/design/datapath.md, as the kernel is told them.
func TestWalks(t *testing.T) {
	late := milan()
	late.Tunnels[0].Active = netip.Addr{}
	absent := milan()
	absent.Members = absent.Members[:1]
	disjoint := milan()
	disjoint.Peers = []Peer{peer("rome", pairs("10.201.0.0/16 10.201.0.0/16"), pairs("10.69.0.0/16 10.69.0.0/16"))}
	several := milan()
	several.Pods = nets("10.200.0.0/16", "10.210.0.0/16")
	several.Peers[0].Pods = pairs("10.200.0.0/16 10.71.0.0/16", "10.210.0.0/16 10.72.0.0/16")
	several.Members[1].PodCIDRs = nets("10.200.2.0/24", "10.210.7.3/32", "10.210.9.0/28")
	aliased := milan()
	aliased.Aliases = []TranslatedIP{alias("one-pod", "10.70.0.26", "10.200.2.7", false)}
	covering := hub()
	covering.Peers[1].Pods = pairs("10.200.0.0/16 172.29.0.0/16")

	for _, tc := range []struct {
		file, about string
		state       func() (datapath.State, []Problem)
	}{
		{"node-beside-gateway", "worker-1, where the gateway to rome runs. Both clusters have the same networks: rome's pods are seen as 10.71.0.0/16, its external addresses as 10.68.0.0/16.", onNode("worker-1", milan())},
		{"node-elsewhere", "worker-2, the gateway runs on worker-1: only the node's own address is another one.", onNode("worker-2", milan())},
		{"node-no-gateway", "No replica has the tunnel: what is rome's is unreachable, and does not leave by the default route.", onNode("worker-2", late)},
		{"node-no-address", "worker-2 has no InternalNode, and so no part in the fabric.", onNode("worker-2", absent)},
		{"node-two-peers", "rome and oslo have the same networks. Each has its own gateway, which speaks for it alone.", onNode("worker-2", hub())},
		{"node-two-gateways", "A second gateway to rome came later: all goes by the first, whatever their names are.", onNode("worker-2", change(milan(), func(c *Cluster) {
			later := tunnel("rome", "10.200.2.9")
			later.Of.Name, later.Since = "a-later-one", time.Unix(1, 0)
			c.Tunnels = append(c.Tunnels, later)
		}))},
		{"node-replicas", "The gateway to rome has a standby: only routes are missing for it.", onNode("worker-2", withStandby(milan()))},
		{"node-aliases", "IP objects: a printer with masquerade, a database without, an address of worker-2, and a pod of rome.", onNode("worker-1", withAliases(hub()))},
		{"node-cluster-ip", "An IP object of a cluster IP, the API server's: this node has chosen one of its endpoints.", onNode("worker-1", withAPIServer(milan()))},
		{"node-ipv6", "A cluster of IPv6 only.", onNode("worker-2", only6())},
		{"node-dual-stack", "Two families over a fabric of IPv4. The node has no IPv6 address for peers: pods of it speak to them, the node does not.", onNode("worker-2", with6(milan()))},
		{"node-refused", "oslo's pods would be seen under the addresses of nodes: they are left out.", onNode("worker-2", covering)},
		{"node-restricted", "Peers reach offloaded pods only, and pods of consumers no node and not the API server.", onRestrictedNode(withHosts(hub()), restricted())},
		{"node-restricted-ipv6", "The same for IPv6 only, while a pod of a consumer starts, whose address is not known.", onRestrictedNode(only6(), PodAccess{
			OffloadedOnly: true, IsolateConsumers: true, Pods: []LocalPod{
				{Of: Object{"Pod", "billing", "web"}, Addresses: addrs("fd00:200:0:1::4")}, {Of: Object{"Pod", "shop-rome", "starts"}, Consumer: "rome"},
			},
		})},

		{"gateway-remapped", "The gateway to rome, whose networks are the same as here.", inGateway("rome", "10.200.1.9", milan())},
		{"gateway-disjoint", "The gateway to rome, whose networks are nobody else's: nothing is translated.", inGateway("rome", "10.200.1.9", disjoint)},
		{"gateway-aliases", "IP objects: what is not of a node, a pod or a peer is reached by the gateway's own node.", inGateway("rome", "10.200.1.9", withAliases(milan()))},
		{"gateway-aliased-pod", "An IP object of a pod of this cluster, that peers also reach by its own address: which one they meant is remembered.", inGateway("rome", "10.200.1.9", aliased)},
		{"gateway-previous-ips", "The external CIDR is another one: peers that know the previous one still reach IPs there.",
			inGateway("rome", "10.200.1.9", withNewExternal(withAliases(milan())))},
		{"gateway-cluster-ip", "An IP object of a cluster IP: the gateway's own node knows what is behind it.", inGateway("rome", "10.200.1.9", withAPIServer(milan()))},
		{"gateway-hub", "The gateway to rome, beside one to oslo. A pod of rome and one of oslo have aliases: they speak under those, others of oslo under 10.70.0.0.",
			inGateway("rome", "10.200.1.9", change(withAliases(hub()), func(c *Cluster) {
				c.Aliases = []TranslatedIP{alias("pod-of-rome", "10.70.0.31", "10.71.1.5", false), alias("pod-of-oslo", "10.70.0.32", "10.69.1.5", false)}
			}))},
		{"gateway-replicas", "The gateway to oslo has a standby, which may speak for oslo, too.", inGateway("rome", "10.200.1.9", withStandby(hub()))},
		{"gateway-endpoint-ips", "IP objects of endpoints in oslo, of which one is for rome, and one for other peers.",
			inGateway("rome", "10.200.1.9", change(hub(), func(c *Cluster) {
				c.Aliases = []TranslatedIP{alias("for-rome", "10.70.0.31", "10.69.1.5", false), alias("for-bern", "10.70.0.32", "10.69.1.6", false)}
				c.Aliases[0].Peers, c.Aliases[1].Peers = []string{"oslo", "rome"}, []string{"bern", "oslo"}
			}))},
		{"gateway-pod-cidrs", "Several networks of pods, and pods of worker-2 outside of those of nodes.", inGateway("rome", "10.200.1.9", several)},
		{"gateway-moved", "The pod of a gateway has moved to worker-2, which is not known yet: the same, from where it is.", func() (datapath.State, []Problem) {
			return Gateway(GatewayInput{Cluster: milan(), Of: milan().Tunnels[0].Of, Peer: key("rome"), Address: addr("10.200.2.9"), Node: "worker-2", Server: true})
		}},
		{"gateway-ipv6", "The gateway of a cluster of IPv6 only. The tunnel itself has IPv4 addresses.", inGateway("rome", "fd00:200:0:1::9", only6())},
		{"gateway-dual-stack", "Two families over a fabric of IPv4.", inGateway("rome", "10.200.1.9", with6(milan()))},
		{"gateway-stateful", "A user's firewall marks flows: everything is tracked.", inGateway("rome", "10.200.1.9", change(milan(), func(c *Cluster) {
			f, _ := FirewallOf(markFlows())
			c.Firewalls = []Firewall{f}
		}))},
	} {
		t.Run(tc.file, func(t *testing.T) {
			state, problems := tc.state()
			got := "# " + tc.about + "\n\n" + state.String()
			for _, p := range problems {
				got += fmt.Sprintf("# left out: %s\n", p)
			}
			golden(t, tc.file, got)
			for _, broken := range check(state) {
				t.Error(broken)
			}
		})
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("rewrite it if this is meant, with -update:\n%s", diff)
	}
}

// markFlows marks what comes from rome.
func markFlows() *networkingv1beta1.FirewallConfiguration {
	name := "users-marks"
	return firewallWith(name, firewall.TableFamilyIPv4, firewall.Chain{
		Name: new("marks"), Type: firewall.ChainTypeFilter, Hook: new(firewall.ChainHookForward), Policy: new(firewall.ChainPolicyAccept),
		Rules: firewall.RulesSet{FilterRules: []firewall.FilterRule{{
			Name: new("from-rome"), Action: firewall.ActionCtMark, Value: new("7"), Counter: true,
			Match: []firewall.Match{{Op: firewall.MatchOperationEq, IP: &firewall.MatchIP{Value: "10.71.0.0/16", Position: firewall.MatchPositionSrc}}},
		}}},
	})
}

func firewallWith(name string, family firewall.TableFamily, chains ...firewall.Chain) *networkingv1beta1.FirewallConfiguration {
	c := &networkingv1beta1.FirewallConfiguration{}
	c.Name, c.Namespace = name, "liqo"
	c.Spec.Table = firewall.Table{Name: &name, Family: &family, Chains: chains}
	return c
}

// check has a sentence for each thing in a state that a kernel would refuse, or that translates two things to one.
func check(s datapath.State) (broken []string) {
	say := func(format string, args ...any) { broken = append(broken, fmt.Sprintf(format, args...)) }
	type routeKey struct {
		table, metric int
		to            netip.Prefix
	}
	routes := map[routeKey]bool{}
	for _, r := range s.Routes {
		k := routeKey{r.Table, r.Metric, r.To}
		if routes[k] {
			say("two routes: %s", r)
		}
		routes[k] = true
	}
	type hopKey struct {
		device string
		next   netip.Addr
	}
	hops := map[hopKey]bool{}
	for _, h := range s.Neighbours {
		k := hopKey{h.Device, h.Next}
		if hops[k] {
			say("two hops: %s", h)
		}
		hops[k] = true
	}
	for _, r := range s.Routes {
		if owned := r.Table == peersTable || r.Table == clusterTable || r.Table == outTable; owned && r.Device == "liqo.fabric" && !hops[hopKey{r.Device, r.Via}] {
			say("no hop for %s", r)
		}
	}
	tables := map[string]bool{}
	for _, t := range s.Tables {
		if id := t.Family.String() + " " + t.Name; tables[id] {
			say("two tables: %s", id)
		} else {
			tables[id] = true
		}
		broken = append(broken, checkTable(t)...)
	}
	return broken
}

func checkTable(t datapath.Table) (broken []string) {
	say := func(format string, args ...any) {
		broken = append(broken, fmt.Sprintf("table %s %s: ", t.Family, t.Name)+fmt.Sprintf(format, args...))
	}
	chains, sets, counters, reached := map[string]datapath.Chain{}, map[string]datapath.Set{}, map[string]bool{}, map[string]bool{}
	for _, c := range t.Chains {
		if _, ok := chains[c.Name]; ok {
			say("two chains %s", c.Name)
		}
		chains[c.Name] = c
		reached[c.Name] = reached[c.Name] || c.Hook != ""
	}
	for _, s := range t.Sets {
		if _, ok := sets[s.Name]; ok {
			say("two sets %s", s.Name)
		}
		sets[s.Name] = s
		checkSet(s, say)
	}
	for _, c := range t.Counters {
		counters[c] = true
	}
	if t.Name == datapath.TableName {
		checkTranslations(t, say)
	}
	used := map[string]bool{}
	for _, c := range t.Chains {
		for _, r := range c.Rules {
			for _, s := range r {
				switch s := s.(type) {
				case datapath.Verdict:
					if _, ok := chains[s.Chain]; s.Chain != "" && !ok {
						say("no chain %s", s.Chain)
					}
					reached[s.Chain] = true
				case datapath.Lookup:
					used[s.Set] = true
					if got := sets[s.Set]; len(got.Key) != len(s.Fields) || len(got.Value) > 0 {
						say("%s is no set of %d fields", s.Set, len(s.Fields))
					}
				case datapath.SetMapped:
					used[s.Map] = true
					if got := sets[s.Map]; len(got.Key) != 1 || len(got.Value) != 1 {
						say("%s is no map", s.Map)
					}
				case datapath.TranslateDestination:
					used[s.Map] = true
					if got := sets[s.Map]; s.Map != "" && (len(got.Key) != len(s.Key) || len(got.Value) == 0) {
						say("%s is no map of %d fields", s.Map, len(s.Key))
					}
				case datapath.Counter:
					if !counters[s.Name] {
						say("no counter %s", s.Name)
					}
				}
			}
		}
	}
	for name := range chains {
		if !reached[name] {
			say("nothing leads to chain %s", name)
		}
	}
	for name := range sets {
		if !used[name] {
			say("nothing uses set %s", name)
		}
	}
	return broken
}

// checkTranslations says where something goes in as one and comes out as another.
func checkTranslations(t datapath.Table, say func(string, ...any)) {
	moves := func(chain string, field datapath.Field) map[string]string {
		out := map[string]string{}
		for _, c := range t.Chains {
			for _, r := range c.Rules {
				if c.Name != chain || len(r) < 2 {
					continue
				}
				is, ok := r[0].(datapath.Cmp)
				to, moved := r[1].(datapath.SetPrefix)
				if ok && moved && is.Field == field {
					out[is.Values[0].String()] = to.Prefix.String()
				}
			}
		}
		return out
	}
	elements := func(set string) map[string]string {
		out := map[string]string{}
		for _, s := range t.Sets {
			for _, e := range s.Elements {
				if s.Name == set {
					out[e.Key[0].String()] = e.Value[0].String()
				}
			}
		}
		return out
	}
	inverse := func(of map[string]string) map[string]string {
		out := map[string]string{}
		for k, v := range of {
			if _, ok := out[v]; ok {
				say("two become %s", v)
			}
			out[v] = k
		}
		return out
	}
	in, out := moves("from_peer", datapath.Source), moves("to_peer", datapath.Destination)
	if !slices.ContainsFunc(t.Sets, func(s datapath.Set) bool { return s.Name == "alias_in" }) {
		return // a peer without networks comes in nowhere
	}
	for what, same := range map[string][2]map[string]string{
		"networks":        {in, inverse(out)},
		"quoted, coming":  {in, moves("quoted_in", datapath.QuotedDestination)},
		"quoted, leaving": {out, moves("quoted_out", datapath.QuotedSource)},
		"aliases":         {elements("alias_in"), inverse(elements("alias_out"))},
	} {
		if diff := cmp.Diff(same[0], same[1]); diff != "" {
			say("%s go in otherwise than they come out: %s", what, diff)
		}
	}
}

func checkSet(s datapath.Set, say func(string, ...any)) {
	for i, e := range s.Elements {
		if len(e.Key) != len(s.Key) || len(e.Value) != len(s.Value) {
			say("an element of %s has not its types", s.Name)
			return
		}
		for j, v := range e.Key {
			if v.Type != s.Key[j] {
				say("an element of %s is not of its type", s.Name)
			}
		}
		for _, other := range s.Elements[:i] {
			overlap := true
			for j := range e.Key {
				overlap = overlap && e.Key[j].Low <= other.Key[j].High && other.Key[j].Low <= e.Key[j].High
			}
			if overlap {
				say("elements of %s overlap: %s and %s", s.Name, e.Key, other.Key)
			}
		}
	}
}

// The pod of a gateway forwards IPv6, too, whatever its peer has, and its neighbours must not use it.
func TestGatewayTransit(t *testing.T) {
	for name, test := range map[string]struct {
		c       Cluster
		address string
		noIPv6  bool
		want    int // families
	}{
		"IPv4":                                {c: milan(), address: "10.200.1.9", want: 2},
		"both":                                {c: with6(milan()), address: "10.200.1.9", want: 2},
		"IPv6":                                {c: only6(), address: "fd00:200:0:1::9", want: 2},
		"IPv4, by a kernel that has no other": {c: milan(), address: "10.200.1.9", noIPv6: true, want: 1},
	} {
		state, _ := Gateway(GatewayInput{Cluster: test.c, Peer: key("rome"), Address: addr(test.address), Node: "worker-1", NoIPv6: test.noIPv6})
		closed := map[datapath.Family]bool{}
		for _, table := range state.Tables {
			for _, c := range table.Chains {
				if c.Hook == datapath.Forward && c.Policy == datapath.Drop {
					closed[table.Family] = true
				}
			}
		}
		if len(closed) != test.want || !closed[datapath.IPv4] {
			t.Errorf("%s: closed are %v", name, closed)
		}
	}
}

// The device takes what it always took: that is how larger packets are tried.
func TestRouteMTU(t *testing.T) {
	c := with6(milan())
	in := GatewayInput{Cluster: c, Of: c.Tunnels[0].Of, Peer: key("rome"), Address: c.Tunnels[0].Active, Node: "worker-1", MTU: 1340}
	whole, _ := Gateway(in)
	for passing, want := range map[int]string{0: "", -1: "", 1340: "", 9000: "", 1296: " mtu 1296"} {
		in.Passing = passing
		state, problems := Gateway(in)
		if len(problems) > 0 {
			t.Errorf("%d pass: %v", passing, problems)
		}
		lines := 0
		for line := range strings.Lines(whole.String()) {
			if strings.HasPrefix(line, "route ") && strings.Contains(line, " dev liqo-tunnel") {
				lines++
				line = strings.Replace(line, " table 101", want+" table 101", 1)
			}
			if !strings.Contains(state.String(), line) {
				t.Errorf("%d pass: there is no %q in\n%s", passing, line, state)
			}
		}
		if lines != 4 {
			t.Errorf("%d routes lead into the tunnel", lines)
		}
	}
	in.Passing = 1200
	state, problems := Gateway(in)
	if !strings.Contains(fmt.Sprint(problems), "IPv6 needs an MTU of 1280 bytes, and the tunnel has 1200") || strings.Contains(state.String(), "route fd00:71::/56 dev") {
		t.Errorf("too little passes for IPv6: %v\n%s", problems, state)
	}
}

// Nodes ask by the way of their pods where there is one, and from an address of pods that is no host's for other reasons.
func TestProbes(t *testing.T) {
	for name, test := range map[string]struct {
		edit func(*Cluster)
		want []string
	}{
		"one peer":   {nil, []string{"rome from 10.200.255.254 to 10.68.0.0 as 10.70.0.12, 1340 bytes"}},
		"no gateway": {func(c *Cluster) { c.Tunnels = nil }, nil},
		"two peers": {func(c *Cluster) { *c = hub() }, []string{
			"oslo from 10.200.255.254 to 10.64.0.0 as 10.70.0.12, 1340 bytes", "rome from 10.200.255.254 to 10.68.0.0 as 10.70.0.12, 1340 bytes",
		}},
		"no address in front of peers": {func(c *Cluster) { c.Members[1].External = nil }, nil},
		"no pods":                      {func(c *Cluster) { c.Pods = nil }, nil},
		"a network that is taken":      {func(c *Cluster) { c.Peers[0].External = pairs("10.70.0.0/16 10.70.0.0/16") }, nil},
		"several networks": {func(c *Cluster) {
			c.Peers[0].External = pairs("10.80.0.0/16 10.66.0.0/16", "10.70.0.0/16 10.68.0.0/16")
		}, []string{
			"rome from 10.200.255.254 to 10.68.0.0 as 10.70.0.12, 1340 bytes",
		}},
		"few pods":   {func(c *Cluster) { c.Pods = nets("10.200.0.0/30") }, []string{"rome from 10.200.0.2 to 10.68.0.0 as 10.70.0.12, 1340 bytes"}},
		"two pods":   {func(c *Cluster) { c.Pods = nets("10.200.0.0/31") }, []string{"rome from 10.200.0.0 to 10.68.0.0 as 10.70.0.12, 1340 bytes"}},
		"one pod":    {func(c *Cluster) { c.Pods = nets("10.200.0.7/32") }, []string{"rome from 10.200.0.7 to 10.68.0.0 as 10.70.0.12, 1340 bytes"}},
		"IPv6 alone": {func(c *Cluster) { *c = only6() }, []string{"rome from fd00:200:0:ff:ffff:ffff:ffff:fffe to fd00:68:: as fd00:70::ff02, 1340 bytes"}},
		"both families": {func(c *Cluster) {
			*c = with6(milan())
			c.Members[1].External = addrs("10.70.0.12", "fd00:70::12")
		}, []string{"rome from 10.200.255.254 to 10.68.0.0 as 10.70.0.12, 1340 bytes"}},
	} {
		c := milan()
		if test.edit != nil {
			test.edit(&c)
		}
		state, _ := Node(NodeInput{Cluster: c, Name: "worker-2"})
		var got []string
		for _, p := range Probes(c.Peers, state) {
			got = append(got, fmt.Sprintf("%s from %s to %s as %s, %d bytes", p.Peer, p.From, p.To, p.Node, p.MTU))
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
