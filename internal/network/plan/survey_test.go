// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"maps"
	"math/rand"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	_ "liqo.io/liqo/internal/testkit/repeatable"
	"pgregory.net/rapid"

	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/api/networking/v1beta1/firewall"
	"liqo.io/liqo/internal/datapath"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/prefix"
)

// What every node and gateway refuses of what users wrote is told once, for all of them, with its reason.
func TestRefusals(t *testing.T) {
	elsewhere := func(c *Cluster) {
		stray := tunnel("rome", "10.200.2.9")
		stray.Of.Namespace, stray.Peer.Namespace = "default", "default"
		c.Tunnels = append(c.Tunnels, stray)
	}
	for _, rule := range []struct {
		says  string
		spoil func(*Cluster)
		want  []string
	}{
		{"nothing is refused where all is well", func(*Cluster) {}, nil},
		{"one gateway leads to a peer", func(c *Cluster) {
			second := tunnel("rome", "10.200.2.9")
			second.Of.Name = "second"
			c.Tunnels = append(c.Tunnels, second)
		}, []string{"AnotherGateway of GatewayServer liqo-tenant-rome/second: the peer has a gateway already: GatewayServer liqo-tenant-rome/rome"}},
		{"a gateway is beside the Configuration of its peer", elsewhere, []string{
			"ConfigurationElsewhere of GatewayServer default/rome: not in use: the effective Configuration of the peer is Configuration liqo-tenant-rome/rome, and gateways must be in its namespace",
		}},
		{"a gateway waits for its Configuration", func(c *Cluster) { elsewhere(c); c.Peers = nil }, nil},
		{"an MTU is one", func(c *Cluster) { c.Tunnels[0].Asked = 100 }, []string{
			"UnusableMTU of GatewayServer liqo-tenant-rome/rome: invalid MTU 100: using 1340",
		}},
		{"IPv6 has an MTU of its own, whether the gateway runs or not", func(c *Cluster) {
			c.Peers[0].Pods, c.Tunnels[0] = pairs("fd00:200::/56 fd00:71::/56"), tunnel("rome", "")
			c.Tunnels[0].MTU = 1200
		}, []string{
			"UnusableMTU of GatewayServer liqo-tenant-rome/rome: fd00:71::/56 is unreachable: IPv6 needs an MTU of 1280 bytes, and the tunnel has 1200",
		}},
		{"a node is where it is, whoever is shown there", func(c *Cluster) { c.Taken = []ReservedPrefix{{nets("10.71.3.4/32")[0], "address of Node worker-3"}} }, []string{
			"NetworkInTheWay of Configuration liqo-tenant-rome/rome: 10.71.0.0/16 is left out: it covers 10.71.3.4, address of Node worker-3",
		}},
		{"pods outside of the pod networks of the installation are where they are", func(c *Cluster) {
			c.Members[1].PodCIDRs = append(c.Members[1].PodCIDRs, nets("10.71.5.0/24")...)
		}, []string{
			"NetworkInTheWay of Configuration liqo-tenant-rome/rome: 10.71.0.0/16 is left out: it covers 10.71.5.0/24, pods of InternalNode worker-2",
		}},
		{"an address has one alias", func(c *Cluster) {
			c.Aliases = []TranslatedIP{alias("first", "10.70.0.21", "172.29.1.100", false), alias("second", "10.70.0.22", "172.29.1.100", false)}
		}, []string{"AnotherIP of IP demo/second: 172.29.1.100 has the alias 10.70.0.21 of IP demo/first already"}},
		{"an alias leads somewhere", func(c *Cluster) { c.Aliases = []TranslatedIP{alias("x", "10.70.0.21", "169.254.169.254", false)} }, []string{
			"UnusableAddress of IP demo/x: 10.70.0.21 and 169.254.169.254 cannot both be reached: 169.254.0.0/16 is for links and tunnels",
		}},
		{"what no user wrote is no refusal", func(c *Cluster) { c.Members[1].External = addrs("10.70.0.11") }, nil},
	} {
		c := milan()
		rule.spoil(&c)
		var got []string
		problems, _ := Refused(c)
		for _, p := range problems {
			got = append(got, p.Reason+" of "+p.String())
		}
		if diff := cmp.Diff(rule.want, got); diff != "" {
			t.Errorf("%s: %s", rule.says, diff)
		}
	}
}

// What contradicts something is left out, with a sentence that names both.
func TestContradictions(t *testing.T) {
	for want, corrupt := range map[string]func(*Cluster){
		"Configuration liqo-tenant-rome/rome: 10.200.128.0/17 is left out: it covers 10.200.0.0/16, pods of this cluster": func(c *Cluster) {
			c.Peers[0].Pods = pairs("10.200.128.0/17 10.200.128.0/17")
		},
		"Configuration liqo-tenant-rome/rome: 10.96.0.0/16 is left out: it covers 10.96.0.0/12, Services of this cluster": func(c *Cluster) {
			c.Peers[0].Pods = pairs("10.200.0.0/16 10.96.0.0/16")
		},
		"Configuration liqo-tenant-rome/rome: 10.70.0.0/16 is left out: it covers 10.70.0.0/16, addresses of this cluster in front of peers": func(c *Cluster) {
			c.Peers[0].External = pairs("10.70.0.0/16 10.70.0.0/16")
		},
		"Configuration liqo-tenant-rome/rome: 192.168.0.0/16 is left out: it covers 192.168.5.9, GatewayServer liqo-tenant-rome/rome": func(c *Cluster) {
			c.Tunnels[0].Active = addr("192.168.5.9")
			c.Peers[0].Pods = pairs("10.200.0.0/16 192.168.0.0/16")
		},
		"Configuration liqo-tenant-rome/rome: 172.16.0.0/12 is left out: it covers 172.29.1.1, InternalNode worker-1": func(c *Cluster) {
			c.Peers[0].Pods = pairs("10.192.0.0/12 172.16.0.0/12")
		},
		"Configuration liqo-tenant-rome/rome: 203.0.113.0/24 is left out: it covers 203.0.113.7, the API server": func(c *Cluster) {
			c.Taken = []ReservedPrefix{{nets("203.0.113.7/32")[0], "the API server"}}
			c.Peers[0].Pods = pairs("10.200.0.0/24 203.0.113.0/24")
		},
		"Configuration liqo-tenant-rome/rome: 0.0.0.0/0 is left out: it covers 0.0.0.0/8, this host": func(c *Cluster) {
			c.Peers[0].Pods = pairs("0.0.0.0/0 0.0.0.0/0")
		},
		"Configuration liqo-tenant-rome/rome: 10.71.0.0/16 is left out: network 169.254.0.0/16 of the peer covers 169.254.0.0/16, links and tunnels": func(c *Cluster) {
			c.Peers[0].Pods = pairs("169.254.0.0/16 10.71.0.0/16")
		},
		"Configuration liqo-tenant-rome/rome: 10.71.0.0/17 is left out: remote prefix 10.200.0.0/16 and local prefix 10.71.0.0/17 differ in length": func(c *Cluster) {
			c.Peers[0].Pods = pairs("10.200.0.0/16 10.71.0.0/17")
		},
		"Configuration liqo-tenant-rome/rome: 10.72.0.0/24 is left out: network 10.200.9.0/24 of the peer overlaps with 10.200.0.0/16 of Configuration liqo-tenant-rome/rome": func(c *Cluster) {
			c.Peers[0].Pods = pairs("10.200.0.0/16 10.71.0.0/16", "10.200.9.0/24 10.72.0.0/24")
		},
		"Configuration liqo-tenant-siena/siena: 10.71.3.0/24 is left out: it overlaps 10.71.0.0/16 of Configuration liqo-tenant-rome/rome": func(c *Cluster) {
			c.Peers = append(c.Peers, peer("siena", pairs("10.9.3.0/24 10.71.3.0/24"), nil))
		},
		"GatewayServer liqo-tenant-rome/rome: fd00:71::/56 is unreachable: IPv6 needs an MTU of 1280 bytes, and the tunnel has 1200": func(c *Cluster) {
			c.Peers[0].Pods, c.Tunnels[0].MTU = pairs("fd00:200::/56 fd00:71::/56"), 1200
		},
		"Network 126.0.0.0/7: it is left out: it covers 127.0.0.0/8, this host": func(c *Cluster) { c.Pods = append(c.Pods, nets("126.0.0.0/7")...) },
		"GatewayServer liqo-tenant-rome/second: the peer has a gateway already: GatewayServer liqo-tenant-rome/rome": func(c *Cluster) {
			second := tunnel("rome", "10.200.2.9")
			second.Of.Name = "second"
			c.Tunnels = append(c.Tunnels, second)
		},
		"GatewayServer default/rome: not in use: the effective Configuration of the peer is Configuration liqo-tenant-rome/rome, and gateways must be in its namespace": func(c *Cluster) {
			stray := tunnel("rome", "10.200.2.9")
			stray.Of.Namespace, stray.Peer.Namespace = "default", "default"
			c.Tunnels = append(c.Tunnels, stray)
		},
		"GatewayServer liqo-tenant-rome/a: the peer has a gateway already: GatewayServer liqo-tenant-rome/rome": func(c *Cluster) {
			later := tunnel("rome", "10.200.2.9")
			later.Of.Name, later.Since = "a", time.Unix(1, 0)
			c.Tunnels = append(c.Tunnels, later)
		},
		"GatewayServer liqo-tenant-rome/a: the peer has a gateway already: GatewayServer liqo-tenant-rome/b": func(c *Cluster) {
			down, up := tunnel("rome", ""), tunnel("rome", "10.200.2.9")
			down.Of.Name, up.Of.Name, up.Since = "a", "b", time.Unix(1, 0)
			c.Tunnels = []Tunnel{down, up}
		},
		"Configuration liqo-tenant-oslo/oslo: 10.71.3.0/24 is left out: it overlaps 10.71.0.0/16 of Configuration liqo-tenant-rome/rome": func(c *Cluster) {
			later := peer("oslo", pairs("10.9.3.0/24 10.71.3.0/24"), nil)
			later.Since = time.Unix(1, 0)
			c.Peers = append(c.Peers, later)
		},
		"InternalNode worker-0: 10.70.0.11 is the address of InternalNode worker-1": func(c *Cluster) {
			later := member("worker-0", "10.70.0.11", "10.200.3.1", "172.29.1.3", "10.200.3.0/24")
			later.Since = time.Unix(1, 0)
			c.Members = append(c.Members, later)
		},
		"RouteConfiguration demo/a: table 5 is that of RouteConfiguration demo/b": func(c *Cluster) {
			of := func(name string) Object { return Object{"RouteConfiguration", "demo", name} }
			c.Routings = []Routing{{Of: of("a"), Since: time.Unix(1, 0), Table: 5}, {Of: of("b"), Table: 5}}
		},
		"FirewallConfiguration demo/a: the table t is that of FirewallConfiguration demo/b": func(c *Cluster) {
			of := func(name string) Object { return Object{"FirewallConfiguration", "demo", name} }
			tables := []datapath.Table{{Family: datapath.IPv4, Name: "t"}}
			c.Firewalls = []Firewall{{Of: of("a"), Since: time.Unix(1, 0), Tables: tables}, {Of: of("b"), Tables: tables}}
		},
		"GatewayServer liqo-tenant-siena/siena: 10.200.1.9 is the address of GatewayServer liqo-tenant-rome/rome": func(c *Cluster) {
			c.Tunnels = append(c.Tunnels, tunnel("siena", "10.200.1.9"))
		},
		"GatewayServer liqo-tenant-siena/siena: fd00::9 is not of the family of the fabric, ip": func(c *Cluster) {
			c.Tunnels = append(c.Tunnels, tunnel("siena", "fd00::9"))
		},
		"GatewayServer liqo-tenant-rome/rome: invalid MTU 70000: using 1340":        func(c *Cluster) { c.Tunnels[0].Asked = 70000 },
		"GatewayServer liqo-tenant-rome/rome: invalid MTU 65500: using 1340":        func(c *Cluster) { c.Tunnels[0].Asked = 65500 },
		"InternalNode worker-2: 10.70.0.11 is the address of InternalNode worker-1": func(c *Cluster) { c.Members[1].External = addrs("10.70.0.11") },
		"InternalNode worker-2: 10.70.0.14 is not used beside 10.70.0.13: a node has one address of a family": func(c *Cluster) {
			c.Members[1].External = addrs("10.70.0.14", "10.70.0.13")
		},
		"InternalNode worker-2: the pods of 10.200.1.0/24 are those of InternalNode worker-1": func(c *Cluster) { c.Members[1].PodCIDRs = nets("10.200.1.0/24") },
		"IP demo/second: 172.29.1.100 has the alias 10.70.0.21 of IP demo/first already": func(c *Cluster) {
			c.Aliases = []TranslatedIP{alias("second", "10.70.0.20", "172.29.1.100", false), alias("first", "10.70.0.21", "172.29.1.100", false)}
		},
		"IP demo/a: 172.29.1.100 has the alias 10.70.0.21 of IP demo/b already": func(c *Cluster) {
			c.Aliases = []TranslatedIP{alias("a", "10.70.0.20", "172.29.1.100", false), alias("b", "10.70.0.21", "172.29.1.100", false)}
			c.Aliases[0].Since = time.Unix(1, 0)
		},
		"IP demo/second: 10.70.0.21 is an alias of 172.29.1.100, says IP demo/first": func(c *Cluster) {
			c.Aliases = []TranslatedIP{alias("first", "10.70.0.21", "172.29.1.100", false), alias("second", "10.70.0.21", "172.29.1.101", false)}
		},
		"IP demo/x: 10.70.0.0 is the address of gateways and cannot be an alias":                                func(c *Cluster) { c.Aliases = []TranslatedIP{alias("x", "10.70.0.0", "172.29.1.100", false)} },
		"IP demo/x: 10.70.0.12 is the address of InternalNode worker-2 and cannot be an alias":                  func(c *Cluster) { c.Aliases = []TranslatedIP{alias("x", "10.70.0.12", "172.29.1.100", false)} },
		"IP demo/x: 10.200.0.9 is an address of this cluster's pods or Services and cannot be an alias":         func(c *Cluster) { c.Aliases = []TranslatedIP{alias("x", "10.200.0.9", "172.29.1.100", false)} },
		"IP demo/x: 10.71.0.9 is in 10.71.0.0/16 of Configuration liqo-tenant-rome/rome and cannot be an alias": func(c *Cluster) { c.Aliases = []TranslatedIP{alias("x", "10.71.0.9", "172.29.1.100", false)} },
		"IP demo/x: 10.70.0.22 is in front of peers already":                                                    func(c *Cluster) { c.Aliases = []TranslatedIP{alias("x", "10.70.0.21", "10.70.0.22", false)} },
		"IP demo/x: 10.70.0.21 and fd00::1 are not of the same family":                                          func(c *Cluster) { c.Aliases = []TranslatedIP{alias("x", "10.70.0.21", "fd00::1", false)} },
		"IP demo/x: 10.70.0.21 and 169.254.169.254 cannot both be reached: 169.254.0.0/16 is for links and tunnels": func(c *Cluster) {
			c.Aliases = []TranslatedIP{alias("x", "10.70.0.21", "169.254.169.254", false)}
		},
	} {
		c := milan()
		corrupt(&c)
		state, problems := Node(NodeInput{Cluster: c, Name: "worker-1"})
		if diff := cmp.Diff([]string{want}, messages(problems)); diff != "" {
			t.Error(diff)
		}
		gateway, problems := Gateway(GatewayInput{
			Cluster: c, Of: c.Tunnels[0].Of, Peer: key("rome"), Address: c.Tunnels[0].Active, Node: "worker-1", MTU: c.Tunnels[0].MTU,
		})
		if diff := cmp.Diff([]string{want}, messages(problems)); diff != "" {
			t.Error("in the gateway:", diff)
		}
		for _, broken := range append(check(state), check(gateway)...) {
			t.Errorf("%s: %s", want, broken)
		}
	}
}

// What is held for a peer leads nowhere else while its Configuration is changed, or of no use, unless this cluster needs it.
func TestReservedPrefixes(t *testing.T) {
	led := func(held string, peers ...Peer) string {
		t.Helper()
		c := milan()
		c.Peers, c.Held = peers, nets(held)
		state, problems := Node(NodeInput{Cluster: c, Name: "worker-1"})
		if len(problems) > 0 {
			t.Error(problems)
		}
		for _, broken := range check(state) {
			t.Error(broken)
		}
		var out []string
		if led := func(r datapath.Rule) bool { return r.Table == peersTable && r.Family == familyOf(nets(held)[0]) }; !slices.ContainsFunc(state.Rules, led) {
			out = append(out, "not at all")
		}
		for _, r := range state.Routes {
			if r.Table == peersTable && r.To == nets(held)[0] {
				out = append(out, map[bool]string{true: "nowhere", false: "by " + r.Device}[r.Unreachable])
			}
		}
		return strings.Join(out, ", ")
	}
	rome := peer("rome", pairs("10.200.0.0/16 10.71.0.0/16"), pairs("10.70.0.0/16 10.68.0.0/16"))
	for _, test := range []struct {
		held, want string
		peers      []Peer
	}{
		{"10.71.0.0/16", "nowhere", nil},
		{"fd00:71::/56", "nowhere", nil},
		{"10.72.0.0/16", "nowhere", []Peer{rome}},
		{"10.71.0.0/16", "by liqo.fabric, nowhere", []Peer{rome}}, // as without it
		{"10.200.0.0/16", "", nil},                                // pods of this cluster
		{"172.29.0.0/16", "", nil},                                // its nodes
	} {
		if got := led(test.held, test.peers...); got != test.want {
			t.Errorf("%s of %d peers is led %q, want %q", test.held, len(test.peers), got, test.want)
		}
	}
}

// Objects that agree on an alias are one; a node that asks for masquerade gets it.
func TestEqualAliases(t *testing.T) {
	c := milan()
	c.Aliases = []TranslatedIP{alias("first", "10.70.0.21", "172.29.1.100", false), alias("second", "10.70.0.21", "172.29.1.100", true)}
	s := newModel(c, addr("10.200.1.9"), c.Tunnels[0].Of)
	if len(s.problems) > 0 || len(s.aliases) != 1 || !s.aliases[0].Masquerade {
		t.Error(s.aliases, s.problems)
	}
}

// The alias of an endpoint is one of the allowed peers only, unless another object shows the address to more.
func TestAllowedPeers(t *testing.T) {
	forPeers := func(name, at string, peers ...string) TranslatedIP {
		a := alias(name, at, "10.69.1.5", false)
		a.Peers = peers
		return a
	}
	for name, test := range map[string]struct {
		aliases []TranslatedIP
		want    string
	}{
		"all":                  {[]TranslatedIP{forPeers("a", "10.70.0.31")}, "bern rome"},
		"some":                 {[]TranslatedIP{forPeers("a", "10.70.0.31", "oslo", "rome")}, "rome"},
		"none":                 {[]TranslatedIP{forPeers("a", "10.70.0.31", "")}, ""},
		"two_objects":          {[]TranslatedIP{forPeers("a", "10.70.0.31", "rome"), forPeers("b", "10.70.0.32", "bern")}, "bern rome"},
		"equal_objects":        {[]TranslatedIP{forPeers("a", "10.70.0.31", "rome"), forPeers("b", "10.70.0.31", "bern")}, "bern rome"},
		"object_for_all":       {[]TranslatedIP{forPeers("a", "10.70.0.31", "rome"), forPeers("b", "10.70.0.32")}, "bern rome"},
		"later_one_restricted": {[]TranslatedIP{forPeers("a", "10.70.0.31"), forPeers("b", "10.70.0.32", "rome")}, "bern rome"},
	} {
		t.Run(name, func(t *testing.T) {
			c := hub()
			c.Peers = append(c.Peers, peer("bern", pairs("10.200.0.0/16 10.67.0.0/16"), pairs("10.70.0.0/16 10.66.0.0/16")))
			c.Tunnels = append(c.Tunnels, tunnel("bern", "10.200.1.11"))
			c.Aliases = test.aliases
			var got []string
			for _, id := range []string{"bern", "oslo", "rome"} {
				state, _ := inGateway(id, "10.200.1.9", c)()
				if strings.Contains(fmt.Sprint(state), "10.70.0.31") {
					got = append(got, id)
				}
			}
			equal(t, "peers", test.want, strings.Join(got, " "))
		})
	}
}

// Objects as users, other versions and broken processes may write them.
type objects struct {
	configurations []*networkingv1beta1.Configuration
	servers        []*networkingv1beta1.GatewayServer
	nodes          []*networkingv1beta1.InternalNode
	ips            []*ipamv1alpha1.IP
	networks       []ipamv1alpha1.Network
	routes         []*networkingv1beta1.RouteConfiguration
	walls          []*networkingv1beta1.FirewallConfiguration
	services       []Service
	taken          []ReservedPrefix
}

func drawObjects(t *rapid.T) objects {
	var o objects
	address := func(what string) networkingv1beta1.IP {
		return networkingv1beta1.IP(rapid.OneOf(
			rapid.SampledFrom([]string{
				"10.200.1.9", "10.200.2.7", "10.70.0.0", "10.70.0.11", "10.70.0.21", "10.71.1.5", "10.69.1.5", "10.96.0.1", "172.29.1.1", "172.29.1.100",
				"fd00:70::11", "fd00:200::9", "fd00:71::5", "fd00:29::1", "", "::", "0.0.0.0", "127.0.0.1", "fe80::1%eth0", "::ffff:10.0.0.1",
			}),
			rapid.StringMatching(`10\.(70|71|200)\.[0-2]\.[0-9]`), rapid.String(),
		).Draw(t, what))
	}
	cidr := func(what string) networkingv1beta1.CIDR {
		return networkingv1beta1.CIDR(rapid.OneOf(
			rapid.SampledFrom([]string{
				"10.200.0.0/16", "10.71.0.0/16", "10.69.0.0/16", "10.68.0.0/16", "10.70.0.0/16", "10.200.1.0/24", "10.200.2.0/24", "172.29.0.0/16", "10.71.3.0/24",
				"fd00:200::/56", "fd00:71::/56", "fd00:70::/64", "::/0", "0.0.0.0/0", "10.200.1.9/32", "10.1.2.3/8", "::ffff:10.0.0.0/104", "", "1/2",
			}),
			rapid.StringMatching(`10\.[67][0-9]\.0\.0/(16|15|17)`), rapid.String(),
		).Draw(t, what))
	}
	cidrs := func(what string) []networkingv1beta1.CIDR {
		return rapid.SliceOfN(rapid.Custom(func(*rapid.T) networkingv1beta1.CIDR { return cidr(what) }), 0, 3).Draw(t, what+"s")
	}
	made := 0
	meta := func() metav1.ObjectMeta {
		made++
		id := rapid.SampledFrom([]string{"rome", "oslo", "siena"}).Draw(t, "peer")
		return metav1.ObjectMeta{
			Namespace: "liqo-tenant-" + id, Name: fmt.Sprint(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name"), made),
			CreationTimestamp: metav1.Unix(rapid.Int64Range(0, 2).Draw(t, "made"), 0), Labels: map[string]string{names.RemoteClusterID: id},
		}
	}
	times := func(what string, of func()) {
		for range rapid.IntRange(0, 4).Draw(t, what) {
			of()
		}
	}
	times("configurations", func() {
		c := configuration(networkingv1beta1.ClusterConfigCIDR{Pod: cidrs("pod there"), External: cidrs("external there")}, networkingv1beta1.ClusterConfigCIDR{Pod: cidrs("pod here"), External: cidrs("external here")})
		if rapid.Bool().Draw(t, "lengths agree") {
			c.Status.Remote.CIDR = *c.Spec.Remote.CIDR.DeepCopy()
		}
		generation := c.Generation
		c.ObjectMeta = meta()
		c.Generation = generation
		o.configurations = append(o.configurations, c)
	})
	times("servers", func() {
		g := &networkingv1beta1.GatewayServer{ObjectMeta: meta()}
		g.Spec.MTU = rapid.IntRange(-1, 70000).Draw(t, "mtu")
		g.Status.InternalEndpoint = &networkingv1beta1.InternalGatewayEndpoint{IP: new(address("gateway"))}
		o.servers = append(o.servers, g)
	})
	times("nodes", func() {
		n := &networkingv1beta1.InternalNode{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("worker-", len(o.nodes)+1)}}
		n.Spec.Interface.Node.IP = address("node in front of peers")
		n.Status.NodeIP = networkingv1beta1.InternalNodeStatusNodeIP{Local: new(address("node here")), Remote: new(address("node there"))}
		n.Status.PodCIDRs = cidrs("pods of a node")
		o.nodes = append(o.nodes, n)
	})
	times("ips", func() {
		ip := &ipamv1alpha1.IP{ObjectMeta: meta(), Spec: ipamv1alpha1.IPSpec{IP: address("spec"), Masquerade: new(rapid.Bool().Draw(t, "masquerade"))}}
		ip.Status.IP = address("alias")
		o.ips = append(o.ips, ip)
	})
	times("networks", func() {
		n := ipamv1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: rapid.String().Draw(t, "network"), Labels: map[string]string{
			rapid.SampledFrom([]string{names.NetworkType, names.CIDRType}).Draw(t, "whose"): rapid.SampledFrom([]string{names.NetworkTypePod, names.NetworkTypeService, names.NetworkTypeExternal}).Draw(t, "type"),
		}}}
		n.Status.CIDR = cidr("network")
		o.networks = append(o.networks, n)
	})
	text := func(what string, of ...string) string {
		return rapid.OneOf(rapid.SampledFrom(of), rapid.String()).Draw(t, what)
	}
	times("routes", func() {
		c := &networkingv1beta1.RouteConfiguration{ObjectMeta: meta()}
		c.Spec.Table.Name = text("table", "one", "two", "")
		times("rules", func() {
			c.Spec.Table.Rules = append(c.Spec.Table.Rules, networkingv1beta1.Rule{
				Dst: new(cidr("to")), Iif: new(text("device", "eth0", "")), Priority: new(rapid.Int().Draw(t, "priority")),
				Routes: []networkingv1beta1.Route{{Dst: new(cidr("dst")), Gw: new(address("gw")), Dev: new(text("dev", "eth0", ""))}, {}},
			})
		})
		o.routes = append(o.routes, c)
	})
	times("walls", func() {
		c := firewallWith(text("table", "one", "liqo", ""), firewall.TableFamily(text("family", "INET", "IPV4", "IPV6")))
		c.ObjectMeta = meta()
		times("chains", func() {
			c.Spec.Table.Chains = append(c.Spec.Table.Chains, firewall.Chain{
				Name: new(text("chain", "a", "b")), Type: firewall.ChainType(text("type", "filter", "nat")), Hook: new(firewall.ChainHook(text("hook", "forward", "postrouting"))),
				Rules: firewall.RulesSet{
					FilterRules: []firewall.FilterRule{{Action: firewall.FilterAction(text("action", "accept", "ctmark")), Value: new(text("value", "1")), Match: []firewall.Match{{
						Op: "eq", IP: &firewall.MatchIP{Value: text("ip", "10.0.0.1-10.0.0.9", "fd00::/8"), Position: "src"}, Port: &firewall.MatchPort{Value: text("port", "80", "1-2"), Position: "dst"},
					}}}},
					NatRules: rapid.SampledFrom([][]firewall.NatRule{nil, {{NatType: "snat", To: new("10.0.0.0/8")}, {}}}).Draw(t, "nat"),
				},
			})
		})
		o.walls = append(o.walls, c)
	})
	times("services", func() {
		a, err := parseAddress(string(address("cluster ip")))
		if err == nil {
			o.services = append(o.services, Service{Of: Object{"Service", "default", fmt.Sprint("s", len(o.services))}, ClusterIPs: addrs(a.String()), Ports: withAPIServer(Cluster{}).ClusterIPs[0].Ports})
		}
	})
	times("taken", func() {
		p, _ := prefix.ParsePrefix(string(cidr("taken")))
		o.taken = append(o.taken, ReservedPrefix{p, "somebody"}) // may be none
	})
	return o
}

// cluster gathers them; r puts them into any order.
func (o objects) cluster(r *rand.Rand) (c Cluster) {
	for _, one := range o.configurations {
		if p, ok, _ := PeerOf(one); ok {
			c.Peers = append(c.Peers, p)
		}
	}
	for _, one := range o.servers {
		g, _, _ := TunnelOfServer(one)
		c.Tunnels = append(c.Tunnels, g)
	}
	for _, one := range o.nodes {
		m, _ := MemberOf(one)
		c.Members = append(c.Members, m)
	}
	for _, one := range o.ips {
		if a, ok, _ := AliasOf(one); ok {
			c.Aliases = append(c.Aliases, a)
		}
	}
	for _, one := range o.routes {
		one, _ := RoutingOf(one)
		c.Routings = append(c.Routings, one)
	}
	for _, one := range o.walls {
		one, _ := FirewallOf(one)
		c.Firewalls = append(c.Firewalls, one)
	}
	c.Pods, c.Services, c.External, _ = Own(o.networks, "liqo")
	c.Held, _ = Held(o.networks)
	shuffle(r, c.Held)
	c.ClusterIPs, c.Taken = slices.Clone(o.services), slices.Clone(o.taken)
	shuffle(r, c.Peers)
	for i := range c.Peers {
		c.Peers[i].Pods, c.Peers[i].External = slices.Clone(c.Peers[i].Pods), slices.Clone(c.Peers[i].External)
		shuffle(r, c.Peers[i].Pods)
		shuffle(r, c.Peers[i].External)
	}
	shuffle(r, c.Tunnels)
	shuffle(r, c.Members)
	shuffle(r, c.Aliases)
	shuffle(r, c.Routings)
	shuffle(r, c.Firewalls)
	shuffle(r, c.Pods)
	shuffle(r, c.Services)
	shuffle(r, c.External)
	shuffle(r, c.ClusterIPs)
	shuffle(r, c.Taken)
	return c
}

func shuffle[T any](r *rand.Rand, in []T) {
	r.Shuffle(len(in), func(i, j int) { in[i], in[j] = in[j], in[i] })
}

// Whatever the objects say: a state is one that a kernel takes, does not depend on their order, and nothing panics.
func TestObjectOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := drawObjects(t)
		seed := rapid.Int64().Draw(t, "order")
		address, _ := parseAddress(rapid.SampledFrom([]string{"10.200.1.9", "fd00:200::9", ""}).Draw(t, "address of the gateway"))
		plans := func(r *rand.Rand) map[string]string {
			c := o.cluster(r)
			out := map[string]string{}
			node, problems := Node(NodeInput{Cluster: c, Name: "worker-1", RulePriority: 7})
			out["node"] = written(node, problems)
			var of Object
			if len(o.servers) > 0 {
				of = Object{"GatewayServer", o.servers[0].Namespace, o.servers[0].Name}
			}
			gateway, problems := Gateway(GatewayInput{Cluster: c, Of: of, Peer: key("rome"), Address: address, Node: "worker-1"})
			out["gateway"] = written(gateway, problems)
			for _, s := range []datapath.State{node, gateway} {
				for _, broken := range check(s) {
					t.Errorf("%s\n%s", broken, s)
				}
			}
			return out
		}
		if diff := cmp.Diff(plans(rand.New(rand.NewSource(0))), plans(rand.New(rand.NewSource(seed)))); diff != "" {
			t.Error(diff)
		}
	})
}

// Inputs that no object has, since their fields are of Go.
func TestInvalidValues(t *testing.T) {
	c := Cluster{
		Pods: nets("10.0.0.0/8"), Peers: []Peer{{Pods: []prefix.Pair{{}}, External: pairs("10.0.0.1/8 11.0.0.1/8")}},
		Tunnels: []Tunnel{{}, {Active: addr("::ffff:10.0.0.1")}, {Active: addr("::")}}, Members: []ClusterNode{{External: addrs("fe80::1%x")}}, Aliases: []TranslatedIP{{}},
		ClusterIPs: []Service{{}}, Taken: []ReservedPrefix{{}}, Routings: []Routing{{}}, Firewalls: []Firewall{{}},
	}
	for _, with := range []Cluster{{}, c} {
		_, _ = Node(NodeInput{Cluster: with, RulePriority: -1})
		_, _ = Gateway(GatewayInput{Cluster: with, MTU: -1})
	}
}

// large is a cluster with that many peers, nodes, and aliases of each kind: of a peer's pods, nodes, pods, others, and others with masquerade.
func large(peers, nodes, aliases int) Cluster {
	c := milan()
	c.Peers, c.Tunnels, c.Members = nil, nil, nil
	for i := range peers {
		id := fmt.Sprint("peer-", i)
		c.Peers = append(c.Peers, peer(id, pairs(fmt.Sprintf("10.200.0.0/16 11.%d.0.0/16", i)), pairs(fmt.Sprintf("10.70.0.0/16 12.%d.0.0/16", i))))
		c.Tunnels = append(c.Tunnels, tunnel(id, fmt.Sprintf("10.200.0.%d", i+1)))
	}
	for i := range nodes {
		c.Members = append(c.Members, member(fmt.Sprint("worker-", i), fmt.Sprintf("10.70.%d.%d", 240+i/250, i%250),
			fmt.Sprintf("10.200.%d.1", i/4), fmt.Sprintf("172.29.%d.%d", i/250, i%250), fmt.Sprintf("10.200.%d.%d/26", i/4, i%4*64)))
	}
	for kind, network := range []string{"11.1", "172.29", "10.200", "198.18", "198.19"} {
		for i := range aliases {
			c.Aliases = append(c.Aliases, alias(fmt.Sprintf("ip-%d-%d", kind, i), fmt.Sprintf("10.70.%d.%d", 1+10*kind+i/250, i%250),
				fmt.Sprintf("%s.%d.%d", network, i/250, i%250), network == "198.19"))
		}
	}
	return c
}

// A packet passes no more chains and rules in a large cluster: what is of each node and of each alias are elements of sets, and routes.
func TestRuleCount(t *testing.T) {
	for name, plan := range map[string]func(Cluster) (datapath.State, []Problem){
		"node": func(c Cluster) (datapath.State, []Problem) { return Node(NodeInput{Cluster: c, Name: "worker-0"}) },
		"gateway": func(c Cluster) (datapath.State, []Problem) {
			return Gateway(GatewayInput{Cluster: c, Of: c.Tunnels[0].Of, Peer: key("peer-0"), Address: addr("10.200.0.1"), Node: "worker-0"})
		},
	} {
		shape := func(nodes, aliases int) (rules string, elements int) {
			s, problems := plan(large(2, nodes, aliases))
			if len(problems) > 0 {
				t.Errorf("%s: left out: %v", name, problems[0])
			}
			for _, table := range s.Tables {
				for i := range table.Sets {
					elements += len(table.Sets[i].Elements)
					table.Sets[i].Elements = nil
				}
			}
			return datapath.State{Rules: s.Rules, Tables: s.Tables}.String(), elements
		}
		want, _ := shape(1, 1)
		got, elements := shape(1000, 1000)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if elements < 5000 {
			t.Errorf("%s: its sets have %d elements", name, elements)
		}
	}
}

// A large cluster: 1000 nodes, 100 peers, 5000 aliases.
func BenchmarkGateway(b *testing.B) {
	c := large(100, 1000, 1000)
	for b.Loop() {
		_, _ = Gateway(GatewayInput{Cluster: c, Of: c.Tunnels[0].Of, Peer: key("peer-0"), Address: addr("10.200.0.1"), Node: "worker-1"})
	}
}

func FuzzTextOfUsers(f *testing.F) {
	f.Add("10.0.0.1-10.0.0.9", "80-90", "eth0", "drop")
	f.Fuzz(func(t *testing.T, ip, port, name, action string) {
		c := firewallWith(name, firewall.TableFamilyINet, firewall.Chain{
			Name: &name, Type: firewall.ChainTypeFilter, Hook: new(firewall.ChainHook(port)),
			Rules: firewall.RulesSet{FilterRules: []firewall.FilterRule{{Action: firewall.FilterAction(action), Value: &port, Match: []firewall.Match{{
				IP: &firewall.MatchIP{Value: ip, Position: "src"}, Port: &firewall.MatchPort{Value: port, Position: "dst"}, Dev: &firewall.MatchDev{Value: name, Position: "in"},
			}}}}},
		})
		wall, _ := FirewallOf(c)
		_ = fmt.Sprint(datapath.State{Tables: wall.Tables})
		routes := &networkingv1beta1.RouteConfiguration{}
		routes.Spec.Table = networkingv1beta1.Table{Name: name, Rules: []networkingv1beta1.Rule{{
			Src: new(networkingv1beta1.CIDR(ip)), Oif: &name, Routes: []networkingv1beta1.Route{{Dst: new(networkingv1beta1.CIDR(ip)), Src: new(networkingv1beta1.IP(port)), Dev: &name}},
		}}}
		_, _ = RoutingOf(routes)
	})
}

// Nodes ask the peer's gateway at the address that it gives itself.
func TestGatewayNodes(t *testing.T) {
	for name, test := range map[string]struct {
		there []string // the i-th is seen as 10.<60+i>.0.0/16, or fd60::<i>:0/112
		want  string
	}{
		"nowhere":              {nil, "invalid Prefix"},
		"one":                  {[]string{"10.70.0.0/16"}, "10.60.0.0/16"},
		"the lowest":           {[]string{"10.80.0.0/16", "10.70.0.0/16"}, "10.61.0.0/16"},
		"one covers the other": {[]string{"10.70.0.0/17", "10.70.0.0/16"}, "10.61.0.0/16"},
		"nobody can have it":   {[]string{"127.70.0.0/16", "10.70.0.0/16"}, "10.61.0.0/16"},
		"IPv4 before IPv6":     {[]string{"fd70::/112", "10.70.0.0/16"}, "10.61.0.0/16"},
		"IPv6 alone":           {[]string{"fd71::/112", "fd70::/112"}, "fd60::1:0/112"},
	} {
		peer, mirror := Peer{}, Cluster{}
		for i, text := range test.there {
			remote := netip.MustParsePrefix(text)
			local := netip.MustParsePrefix(fmt.Sprintf("10.%d.0.0/16", 60+i))
			if remote.Addr().Is6() {
				local = netip.MustParsePrefix(fmt.Sprintf("fd60::%d:0/112", i))
			}
			peer.External = append(peer.External, prefix.Pair{Remote: remote, Local: local})
			mirror.External = append(mirror.External, remote)
		}
		got := peer.Gateways()
		if got.String() != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
		i := slices.IndexFunc(peer.External, func(p prefix.Pair) bool { return p.Local == got })
		if i < 0 {
			continue
		}
		remote := peer.External[i].Remote.Addr()
		if own := newModel(mirror, netip.Addr{}, Object{}).unknownSource(datapath.FamilyOf(remote)); own != remote {
			t.Errorf("%s: the gateways have %s, and are asked at %s", name, own, remote)
		}
	}
}

func TestOutsideHosts(t *testing.T) {
	c := milan()
	c.Taken = []ReservedPrefix{{nets("198.51.100.1/32")[0], "address of Node worker-1"}}
	c.Members[1].PodCIDRs = append(c.Members[1].PodCIDRs, nets("10.210.7.3/32")...)
	c.Aliases = []TranslatedIP{
		alias("host", "10.70.0.21", "192.0.2.1", false), alias("masqueraded", "10.70.0.22", "192.0.2.2", true), alias("pod", "10.70.0.23", "10.200.2.7", false),
		alias("service", "10.70.0.24", "10.96.0.1", false), alias("node", "10.70.0.25", "172.29.1.1", false), alias("public-address-of-node", "10.70.0.26", "198.51.100.1", false),
		alias("pod-of-peer", "10.70.0.27", "10.71.1.5", false), alias("pod-outside", "10.70.0.28", "10.210.7.3", false), alias("unusable", "10.70.0.29", "127.0.0.1", false),
		alias("pod-of-peer-without-configuration", "10.70.0.30", "10.85.1.5", false),
	}
	c.Held = nets("10.85.0.0/16")
	if _, outside := Refused(c); !maps.Equal(outside, map[Object]bool{c.Aliases[0].Of: true}) {
		t.Errorf("outside: %v", outside)
	}
	for _, test := range []struct {
		set, addr string
		want      bool
	}{{"", "10.1.0.1", false}, {"10.1.0.0/16 10.3.0.0/16", "10.1.0.0", true}, {"10.1.0.0/16 10.3.0.0/16", "10.1.255.255", true}, {"10.1.0.0/16 10.3.0.0/16", "10.2.0.0", false},
		{"10.1.0.0/16 10.3.0.0/16", "10.3.0.1", true}, {"10.1.0.0/16 fd00::/64", "10.0.0.1", false}, {"10.1.0.0/16 fd00::/64", "fd00::1", true}, {"10.1.0.0/16 fd00::/64", "fd01::1", false}} {
		if got := setContains(prefixSet(nets(strings.Fields(test.set)...)), addr(test.addr)); got != test.want {
			t.Errorf("%s in %q: %t", test.addr, test.set, got)
		}
	}
}
