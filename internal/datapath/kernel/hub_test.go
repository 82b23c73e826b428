// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"liqo.io/liqo/internal/datapath"
	"liqo.io/liqo/internal/datapath/wg"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/network/plan"
	"liqo.io/liqo/internal/pki"
	"liqo.io/liqo/internal/prefix"
)

// The hub lab is a hub a with two leaves b and c, whose networks are all equal. Both leaves are peers of the hub only: each knows pods of the
// other one by aliases of the hub. The gateways of the hub are on different nodes; that to b has a standby.
const (
	hubToB, hubToC = "a/to-b-gateway", "a/to-c-gateway"
	hubStandby     = "a/to-b-standby"
	leafGateway    = "10.200.1.9"
)

var hubPods = []struct{ name, node, address string }{
	{"a/pod", "a/one", "10.200.1.5"}, {"a/far", "a/two", "10.200.2.7"}, {hubToB, "a/one", "10.200.1.8"}, {hubToC, "a/two", "10.200.2.8"},
	{hubStandby, "a/two", "10.200.2.10"},
	{"b/pod", "b/one", "10.200.1.5"}, {"b/gateway", "b/one", leafGateway},
	{"c/pod", "c/one", "10.200.1.5"}, {"c/plain", "c/one", "10.200.1.6"}, {"c/gateway", "c/one", leafGateway},
}

// hubWays are walks with their destination and the source as the destination sees it. Pods b/pod and c/pod have an alias in the hub.
var hubWays = []struct{ name, from, to, server string }{
	{"hub to leaf", "a/pod", "10.71.1.5:7", "10.71.1.5"},
	{"hub to other leaf, by gateway on other node", "a/pod", "10.69.1.5:7", "10.71.1.5"},
	{"other node of hub to leaf", "a/far", "10.71.1.5:7", "10.71.2.7"},
	{"leaf to hub", "b/pod", "10.71.2.7:7", "10.71.1.5"},
	{"leaf to leaf", "c/pod", "10.68.0.31:7", "10.68.0.32"},
	{"leaf to leaf, other way", "b/pod", "10.68.0.32:7", "10.68.0.31"},
	{"leaf to leaf, pod without alias", "c/plain", "10.68.0.31:7", "10.68.0.0"},
	{"leaf to leaf, node", "c/one", "10.68.0.31:7", "10.68.0.0"},
	{"leaf to leaf, node, other way", "b/one", "10.68.0.32:7", "10.68.0.0"},
}

// hubDead are packets that the hub drops: what they go to, where they are counted, and as what.
var hubDead = []struct{ name, from, to, frame, at, counter string }{
	{"own alias", "c/pod", "10.68.0.32:7", "", hubToC, plan.CounterPeerDestination},
	{"alias of no pod", "c/pod", "10.68.0.99:7", "", hubToC, plan.CounterPeerDestination},
	{"pod of other leaf by address of hub", "c/gateway", "10.71.1.5:7", "loose", hubToC, plan.CounterPeerDestination},
	{"pod of other leaf by address of hub, other way", "b/gateway", "10.69.1.5:7", "loose", hubToB, plan.CounterPeerDestination},
	{"gateway in the name of pod of other leaf", hubToC, "10.200.1.1:6091", "10.71.1.5", "a/one", plan.CounterOuter},
	{"gateway to other gateway, in the name of its leaf", hubToC, "10.200.1.8:6091", "10.71.1.5", hubToB, plan.CounterOuter},
	{"pod to gateway, in the name of a leaf", "a/pod", "10.200.1.8:6091", "10.69.1.5", hubToB, plan.CounterOuter},
	{"standby in the name of pod of other leaf", hubStandby, "10.200.1.1:6091", "10.69.1.5", "a/one", plan.CounterOuter},
	{"standby in the name of a pod", hubStandby, "10.200.1.1:6091", "10.200.2.7", "a/one", plan.CounterOuter},
	{"standby to other gateway, in the name of its leaf", hubStandby, "10.200.2.8:6091", "10.69.1.5", hubToC, plan.CounterOuter},
	{"standby to active gateway, in the name of their leaf", hubStandby, "10.200.1.8:6091", "10.71.1.5", hubToB, plan.CounterOuter},
	{"pod to standby, in the name of its leaf", "a/pod", "10.200.2.10:6091", "10.71.1.5", hubStandby, plan.CounterOuter},
	{"leaf to standby", "b/gateway", "10.200.2.10:6091", "loose", "a/two", plan.CounterFreshElsewhere},
}

// hubFrames are frames of the standby in the name of its leaf, which may have become active a moment ago: who gets them, and whose they are there.
var hubFrames = []struct{ name, to, mac, inner, at, source string }{
	{"to a node", "10.200.1.1:6091", "02:6c:0a:46:00:0b", "10.200.1.5:9", "a/pod", "10.71.1.5"},
	{"to the gateway of the other leaf", "10.200.2.8:6091", "02:6c:0a:c8:02:08", "10.69.1.5:9", "c/pod", "10.68.0.31"},
}

func newHubLab(t *testing.T, settings labSettings) *lab {
	l := &lab{T: t, spaces: map[string]*testNamespace{}, kernels: map[string]*Kernel{}, labSettings: settings}
	l.host("world", "br0", world+"/16")
	l.watchStrays()
	for i, at := range []string{"a/one", "b/one", "c/one"} {
		l.node(at[:1], "one", fmt.Sprintf("172.29.%d.1", i+1), "10.200.1.1")
	}
	l.node("a", "two", "172.29.1.2", "10.200.2.1")
	l.spaces["a/one"].route(t, "10.200.2.0/24", "172.29.1.2", "eth0")
	l.spaces["a/two"].route(t, "10.200.1.0/24", "172.29.1.1", "eth0")
	for _, p := range hubPods {
		l.space(p.name)
		l.plug(p.name, p.node, "cni0", p.address+"/24")
		l.spaces[p.name].route(t, "0.0.0.0/0", netip.MustParsePrefix(p.address+"/24").Masked().Addr().Next().String(), "eth0")
		echo(t, l.spaces[p.name], addr(p.address))
	}
	for _, at := range slices.Sorted(maps.Keys(l.spaces)) {
		if strings.HasSuffix(at, "gateway") || at == hubStandby || strings.HasSuffix(at, "/one") || strings.HasSuffix(at, "/two") {
			l.kernels[at] = l.spaces[at].open(t)
			l.kubernetes(at)
		}
	}
	private, _, err := pki.NewTunnelKey()
	fatal(t, err)
	l.tunnel(hubStandby, wg.Config{MTU: names.DefaultMTU, PrivateKey: private, Mark: names.TunnelMark})
	for i, ends := range [][2]string{{"b/gateway", hubToB}, {"c/gateway", hubToC}} {
		l.connectLeaf(ends[0], ends[1], fmt.Sprintf("172.29.%d.1:%d", i+2, tunnelPort))
	}
	l.applyHub()
	return l
}

// connectLeaf makes the tunnel of a leaf, which has the server.
func (l *lab) connectLeaf(server, client, endpoint string) {
	l.Helper()
	var private, public [2][32]byte
	for i := range private {
		var err error
		private[i], public[i], err = pki.NewTunnelKey()
		fatal(l, err)
	}
	all := []netip.Prefix{parsePrefix("0.0.0.0/0")} // an end may try what it wants
	l.tunnel(server, wg.Config{MTU: names.DefaultMTU, PrivateKey: private[0], Mark: names.TunnelMark, ListenPort: names.TunnelPort, Peers: []wg.Peer{{PublicKey: public[1], AllowedIPs: all, Keepalive: 20 * time.Second}}})
	end := l.tunnel(client, wg.Config{MTU: names.DefaultMTU, PrivateKey: private[1], Mark: names.TunnelMark, Peers: []wg.Peer{{
		PublicKey: public[0], Endpoint: netip.MustParseAddrPort(endpoint), Keepalive: 20 * time.Second, AllowedIPs: all,
	}}})
	fatal(l, soon("a handshake", func() (bool, error) {
		status, err := end.Observe()
		return len(status.Peers) == 1 && !status.Peers[0].LastHandshake.IsZero(), err
	}))
}

// hubCluster returns what the hub or a leaf knows.
func hubCluster(name string) plan.Cluster {
	pair := func(remote, local string) []prefix.Pair {
		return []prefix.Pair{{Remote: parsePrefix(remote), Local: parsePrefix(local)}}
	}
	out := plan.Cluster{Pods: prefixesOf("10.200.0.0/16"), Services: prefixesOf("10.96.0.0/12"), External: prefixesOf("10.70.0.0/16")}
	add := func(id, pods, external, gateway string) {
		key := plan.PeerKey{Namespace: "liqo-tenant-" + id, ClusterID: id}
		of := plan.Object{Kind: "Configuration", Namespace: key.Namespace, Name: id}
		out.Peers = append(out.Peers, plan.Peer{Of: of, Key: key, Pods: pair("10.200.0.0/16", pods), External: pair("10.70.0.0/16", external)})
		out.Tunnels = append(out.Tunnels, plan.Tunnel{Of: plan.Object{Kind: "GatewayServer", Namespace: key.Namespace, Name: id}, Peer: key, Active: addr(gateway)})
	}
	member := func(name, number, external, bridge, pods string) {
		out.Members = append(out.Members, plan.ClusterNode{
			Of: plan.Object{Kind: "InternalNode", Name: name}, External: []netip.Addr{addr(external)}, Local: addr(bridge), Remote: addr(number), PodCIDRs: prefixesOf(pods),
		})
	}
	switch name {
	case "a":
		add("b", "10.71.0.0/16", "10.68.0.0/16", "10.200.1.8")
		add("c", "10.69.0.0/16", "10.64.0.0/16", "10.200.2.8")
		out.Tunnels[0].Standby = []netip.Addr{addr("10.200.2.10")}
		member("one", "172.29.1.1", "10.70.0.11", "10.200.1.1", "10.200.1.0/24")
		member("two", "172.29.1.2", "10.70.0.12", "10.200.2.1", "10.200.2.0/24")
		for pod, alias := range map[string]string{"10.71.1.5": "10.70.0.31", "10.69.1.5": "10.70.0.32"} {
			out.Aliases = append(out.Aliases, plan.TranslatedIP{Of: plan.Object{Kind: "IP", Namespace: "shop", Name: alias}, Alias: addr(alias), Address: addr(pod)})
		}
	default:
		add("a", "10.71.0.0/16", "10.68.0.0/16", leafGateway)
		member("one", map[string]string{"b": "172.29.2.1", "c": "172.29.3.1"}[name], "10.70.0.11", "10.200.1.1", "10.200.1.0/24")
	}
	return out
}

// applyHub makes all nodes and gateways what plans say.
func (l *lab) applyHub() {
	l.Helper()
	for _, c := range []string{"a", "b", "c"} {
		known := hubCluster(c)
		for _, m := range known.Members {
			state, problems := plan.Node(plan.NodeInput{Cluster: known, Name: m.Of.Name, RulePriority: l.priority})
			if changes := l.kernels[c+"/"+m.Of.Name].mustApply(l, state); len(problems)+len(changes.Waiting) > 0 {
				l.Fatalf("%s/%s: %v, and waiting for %v", c, m.Of.Name, problems, changes.Waiting)
			}
		}
		if l.tracked {
			known.Firewalls = []plan.Firewall{{Of: plan.Object{Kind: "FirewallConfiguration", Name: "marks"}, Stateful: true}}
		}
		for _, tunnel := range known.Tunnels {
			at, node := c+"/gateway", "one"
			if c == "a" {
				at = map[string]string{"b": hubToB, "c": hubToC}[tunnel.Peer.ClusterID]
			}
			if at == hubToC {
				node = "two"
			}
			l.applyGateway(at, plan.GatewayInput{Cluster: known, Of: tunnel.Of, Peer: tunnel.Peer, Address: tunnel.Active, Node: node, Server: c != "a"})
			for _, standby := range tunnel.Standby {
				l.applyGateway(hubStandby, plan.GatewayInput{Cluster: known, Of: tunnel.Of, Peer: tunnel.Peer, Address: standby, Node: "two"})
			}
		}
	}
}

func (l *lab) applyGateway(at string, in plan.GatewayInput) {
	l.Helper()
	state, problems := plan.Gateway(in)
	if changes := l.kernels[at].mustApply(l, state); len(problems)+len(changes.Waiting) > 0 {
		l.Fatalf("%s: %v, and waiting for %v", at, problems, changes.Waiting)
	}
}

// frameOf is the payload of a packet of the fabric that carries a datagram.
func frameOf(t *testing.T, mac, source, to string) []byte {
	t.Helper()
	hardware, err := net.ParseMAC(mac)
	fatal(t, err)
	frame := vxlan(addr(source))[:udpless]
	copy(frame[vxlanHeader:], hardware)
	return append(frame, packetOf(datapath.UDP, addr(source), netip.MustParseAddrPort(to))...)
}

// takes sends until a pod gets a datagram on port 9: one may get lost.
func (l *lab) takes(t *testing.T, at, source string, send func(context.Context) error, from string) {
	t.Helper()
	var conn *net.UDPConn
	l.spaces[at].inside(t, func() (err error) {
		conn, err = net.ListenUDP("udp4", &net.UDPAddr{Port: 9})
		return err
	})
	defer conn.Close()
	var by netip.AddrPort
	err := context.DeadlineExceeded
	for end := time.Now().Add(patience); err != nil && time.Now().Before(end); {
		l.spaces[from].inside(t, func() error { return send(t.Context()) })
		fatal(t, conn.SetReadDeadline(time.Now().Add(time.Second)))
		_, by, err = conn.ReadFromUDPAddrPort(make([]byte, 100))
	}
	if err != nil || by.Addr().Unmap() != addr(source) {
		t.Errorf("%s got a datagram of %s (%v), want one of %s", at, by, err, source)
	}
}

func TestHubPaths(t *testing.T) {
	for name, settings := range map[string]labSettings{"stateless": {}, "stateful": {priority: 60, tracked: true, loose: true}} {
		t.Run(name, func(t *testing.T) {
			l := newHubLab(t, settings)
			for _, way := range hubWays {
				t.Run(strings.ReplaceAll(way.name, " ", "_"), func(t *testing.T) {
					l.spaces[way.from].inside(t, func() error { return walk(netip.MustParseAddrPort(way.to), way.server) })
				})
			}
			t.Run("trace", func(t *testing.T) {
				// Gateways of the hub and of the other leaf have the address of unknown sources. What the second gateway of the hub says gets lost: it
				// is beside the flow of the first one.
				hops := "10.200.1.1 10.200.1.9 10.68.0.0 * 10.68.0.0 10.68.0.0 10.68.0.31"
				l.spaces["c/pod"].inside(t, func() error { return traceRoute(addr("10.68.0.31"), strings.Fields(hops)) })
			})
			for _, frame := range hubFrames {
				t.Run(strings.ReplaceAll("standby "+frame.name, " ", "_"), func(t *testing.T) {
					l.takes(t, frame.at, frame.source, datagram(netip.MustParseAddrPort(frame.to), frameOf(t, frame.mac, "10.71.1.5", frame.inner)...), hubStandby)
				})
			}
			l.only(nil)
			l.valid()
			refused := map[string]bool{}
			for _, end := range hubDead {
				refused[end.at+" "+end.counter] = true
				t.Run(strings.ReplaceAll("dropped "+end.name, " ", "_"), func(t *testing.T) {
					for _, send := range attempts(netip.MustParseAddrPort(end.to), end.frame) {
						l.spaces[end.from].inside(t, func() error { return l.refuses(end.at, end.counter, send) })
					}
				})
			}
			t.Run("dropped_one_that_was_a_standby", func(t *testing.T) {
				known := hubCluster("a")
				known.Tunnels[0].Standby = nil
				state, _ := plan.Node(plan.NodeInput{Cluster: known, Name: "one", RulePriority: l.priority})
				l.kernels["a/one"].mustApply(l, state)
				l.spaces[hubStandby].inside(t, func() error {
					return l.refuses("a/one", plan.CounterOuter, datagram(netip.MustParseAddrPort("10.200.1.1:6091"), vxlan(addr("10.71.1.5"))...))
				})
			})
			l.only(refused)
			l.valid()
		})
	}
}
