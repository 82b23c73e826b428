// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"liqo.io/liqo/internal/datapath"
	"liqo.io/liqo/internal/datapath/wg"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/network/plan"
	"liqo.io/liqo/internal/pki"
	"liqo.io/liqo/internal/prefix"
)

// The lab is two whole clusters in network namespaces, with equal networks and pods of the very same addresses. What ours is of
// it is as plans say: nodes and gateways get it by Apply, and the tunnel is WireGuard. What is not ours is as unkind as real
// clusters are: nodes masquerade what leaves the network of pods, drop what has no valid state, and look at reverse paths.

// outer begins the addresses of a cluster's nodes in the world between them, covered what they are where those of the other one are in the network
// under which the cluster's pods are seen there.
var (
	outer   = map[string]string{"a": "172.29.1.", "b": "172.29.2."}
	covered = map[string]string{"a": "10.72.9.", "b": "10.71.9."}
)

// world is the address of a host beside the nodes, which is their way to all others, too.
const world = "172.29.1.100"

// scanner is another address of that host, which has a route back to pods of peers by the node of the gateway.
const scanner = "172.29.3.100"

// labNodes are nodes of each cluster.
var labNodes = []struct{ name, number, external, bridge, pods string }{
	{"one", "1", "10.70.0.11", "10.200.1.1", "10.200.1.0/24"},
	{"two", "2", "10.70.0.12", "10.200.2.1", "10.200.2.0/24"},
}

// labPods are on nodes. Pods called twin have the address of the other cluster's gateway.
var labPods = []struct{ name, node, address string }{
	{"a/pod", "a/one", "10.200.1.5"}, {"a/gateway", "a/one", "10.200.1.9"}, {"a/twin", "a/one", "10.200.1.8"}, {"a/far", "a/two", "10.200.2.7"},
	{"b/pod", "b/one", "10.200.1.5"}, {"b/gateway", "b/one", "10.200.1.8"}, {"b/twin", "b/one", "10.200.1.9"}, {"b/far", "b/two", "10.200.2.7"},
}

// Where kube-proxy listens on each node: a Service with a backend of the peer, and the server's tunnel.
const (
	service    = "10.96.0.80:7"
	nodePort   = 30080
	tunnelPort = 30051
)

type lab struct {
	*testing.T
	spaces  map[string]*testNamespace
	kernels map[string]*Kernel // of nodes and gateways
	client  tunnelEnd          // that of b
	world   *Kernel
	labSettings
}

// labSettings are how plans may differ.
type labSettings struct {
	priority int  // of the rule of nodes
	tracked  bool // packets in gateways
	loose    bool // reverse paths: nobody looks at where a source is
	covered  bool // addresses of nodes, by the networks of their pods as the peer sees them
	// mtu is what nodes think of the tunnel, passing what gateways do; 0: all that it has room for.
	mtu, passing int
}

func newLab(t *testing.T, settings labSettings) *lab {
	l := &lab{T: t, spaces: map[string]*testNamespace{}, kernels: map[string]*Kernel{}, labSettings: settings}
	between := l.host("world", "br0", world+"/16")
	if l.covered {
		between.address(l, "br0", covered["a"]+"100/16")
		between.address(l, "br0", covered["b"]+"100/16")
	}
	between.address(l, "br0", scanner+"/32")
	l.watchStrays()
	for _, c := range []string{"a", "b"} {
		for _, n := range labNodes {
			l.node(c, n.name, l.outer(c)+n.number, n.bridge)
		}
		l.spaces[c+"/one"].route(t, labNodes[1].pods, l.outer(c)+"2", "eth0")
		l.spaces[c+"/two"].route(t, labNodes[0].pods, l.outer(c)+"1", "eth0")
	}
	for _, p := range labPods {
		l.space(p.name)
		l.plug(p.name, p.node, "cni0", p.address+"/24")
		l.spaces[p.name].route(t, "0.0.0.0/0", netip.MustParsePrefix(p.address+"/24").Masked().Addr().Next().String(), "eth0")
	}
	for _, at := range slices.Sorted(maps.Keys(l.spaces)) {
		if strings.HasSuffix(at, "gateway") || slices.Contains([]string{"a/one", "a/two", "b/one", "b/two"}, at) {
			l.kernels[at] = l.spaces[at].open(t)
			l.kubernetes(at)
		}
	}
	if !l.covered {
		between.route(l, l.seen("a"), l.outer("a")+"1", "br0")
	}
	l.connectGateways()
	l.apply()
	l.serve()
	return l
}

func (l *lab) outer(cluster string) string {
	if l.covered {
		return covered[cluster]
	}
	return outer[cluster]
}

// seen is the network of pods as a cluster sees that of the other one.
func (l *lab) seen(by string) string {
	if l.covered && by == "b" {
		return "10.72.0.0/16"
	}
	return "10.71.0.0/16"
}

func (l *lab) space(name string) *testNamespace {
	s := newTestNamespace(l)
	filter := 1
	if l.loose {
		filter = 2
	}
	s.sysctl(l, fmt.Sprint("net/ipv4/conf/all/rp_filter=", filter), fmt.Sprint("net/ipv4/conf/default/rp_filter=", filter), "net/ipv4/icmp_ratelimit=0")
	l.spaces[name] = s
	return s
}

// sysctl sets what is the namespace's own.
func (s *testNamespace) sysctl(tb testing.TB, all ...string) {
	tb.Helper()
	s.inside(tb, func() error {
		var errs []error
		for _, one := range all {
			path, value, _ := strings.Cut(one, "=")
			errs = append(errs, os.WriteFile(filepath.Join("/proc/sys", path), []byte(value), 0o644))
		}
		return errors.Join(errs...)
	})
}

// host has a bridge with an address.
func (l *lab) host(name, bridge, address string) *testNamespace {
	s := l.space(name)
	fatal(l, s.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: bridge}}))
	s.address(l, bridge, address)
	s.up(l, bridge)
	return s
}

func (l *lab) node(cluster, name, address, bridge string) {
	s := l.host(cluster+"/"+name, "cni0", bridge+"/24")
	s.sysctl(l, "net/ipv4/conf/all/route_localnet=1") // as kube-proxy does, for its ports on 127.0.0.1
	l.plug(cluster+"/"+name, "world", "br0", address+"/16")
	way := world
	if l.covered {
		way = covered[cluster] + "100"
	}
	s.route(l, "0.0.0.0/0", way, "eth0")
}

// plug connects a namespace with the bridge of another.
func (l *lab) plug(name, into, bridge, address string) {
	s, other, port := l.spaces[name], l.spaces[into], strings.ReplaceAll(name, "/", "-")
	connect(l, s, "eth0", other, port)
	fatal(l, other.LinkSetMaster(other.link(l, port), other.link(l, bridge)))
	s.address(l, "eth0", address)
}

// kubernetes is what kube-proxy and a CNI do. It is not ours, and has to survive.
func (l *lab) kubernetes(at string) {
	is := func(f datapath.Field, v datapath.Value, not bool) datapath.Cmp {
		return datapath.Cmp{Field: f, Not: not, Values: []datapath.Value{v}}
	}
	key := func(v ...datapath.Value) []datapath.Value { return v }
	of, pods := netip.MustParseAddrPort(service), datapath.Prefix(parsePrefix("10.200.0.0/16"))
	services := datapath.Set{
		Name: "services", Key: []datapath.Type{datapath.TypeAddress, datapath.TypeProtocol, datapath.TypePort},
		Value: []datapath.Type{datapath.TypeAddress, datapath.TypePort},
	}
	ports := datapath.Set{Name: "ports", Key: services.Key[1:], Value: services.Value}
	for _, p := range []uint8{datapath.TCP, datapath.UDP} {
		backend := key(datapath.Addr(addr("10.71.1.5")), datapath.Port(7))
		services.Elements = append(services.Elements, datapath.Element{Key: key(datapath.Addr(of.Addr()), datapath.ProtocolValue(p), datapath.Port(of.Port())), Value: backend})
		ports.Elements = append(ports.Elements, datapath.Element{Key: key(datapath.ProtocolValue(p), datapath.Port(nodePort)), Value: backend})
	}
	ports.Elements = append(ports.Elements, datapath.Element{
		Key: key(datapath.ProtocolValue(datapath.UDP), datapath.Port(tunnelPort)), Value: key(datapath.Addr(addr("10.200.1.9")), datapath.Port(names.TunnelPort)),
	})
	const masquerade = 0x4000
	proxy := [][]datapath.Statement{
		{
			datapath.Word{Field: datapath.DestinationScope, Word: datapath.Local}, is(datapath.DestinationPort, datapath.Ports(30000, 32767), false),
			datapath.SetNumber{Field: datapath.Mark, Number: masquerade},
			datapath.TranslateDestination{Map: "ports", Key: []datapath.Field{datapath.L4Protocol, datapath.DestinationPort}},
		},
		{datapath.TranslateDestination{Map: "services", Key: []datapath.Field{datapath.Destination, datapath.L4Protocol, datapath.DestinationPort}}},
	}
	table := datapath.Table{
		Family: datapath.IPv4, Name: "kubernetes", Counters: []string{"invalid"}, Sets: []datapath.Set{services, ports},
		Chains: []datapath.Chain{
			{Name: "in", Type: datapath.NAT, Hook: datapath.Prerouting, Priority: -100, Rules: proxy},
			{Name: "out", Type: datapath.NAT, Hook: datapath.Output, Priority: -100, Rules: proxy},
			{Name: "forward", Type: datapath.Filter, Hook: datapath.Forward, Rules: [][]datapath.Statement{
				{datapath.Word{Field: datapath.FlowState, Word: datapath.Invalid}, datapath.Counter{Name: "invalid"}, datapath.Verdict{Kind: datapath.Drop}},
			}},
			{Name: "post", Type: datapath.NAT, Hook: datapath.Postrouting, Priority: 100, Rules: [][]datapath.Statement{
				{datapath.Number{Field: datapath.Mark, Numbers: []uint32{masquerade}}, datapath.Masquerade{}},
				{is(datapath.Source, pods, false), is(datapath.Destination, pods, true), datapath.Masquerade{}},
			}},
		},
	}
	if strings.HasSuffix(at, "gateway") { // no node. Where packets are tracked none may be invalid
		table.Sets, table.Chains = nil, table.Chains[2:3]
		if !l.tracked {
			table.Chains = nil
		}
	}
	l.kernels[at].foreign(l, table)
}

// watchStrays has the world count what is on its way to addresses of clusters, and came to it.
func (l *lab) watchStrays() {
	l.world = l.spaces["world"].open(l)
	l.world.foreign(l, datapath.Table{Family: datapath.IPv4, Name: "kubernetes", Counters: []string{"strays"}, Chains: []datapath.Chain{
		{Name: "in", Type: datapath.Filter, Hook: datapath.Prerouting, Rules: [][]datapath.Statement{
			{datapath.Cmp{Field: datapath.Destination, Values: []datapath.Value{datapath.Prefix(parsePrefix("10.0.0.0/8"))}}, datapath.Counter{Name: "strays"}},
		}},
	}})
}

func (l *lab) strays() uint64 { return l.world.counted(l, "strays") }

// foreign makes a table that is not ours.
func (k *Kernel) foreign(tb testing.TB, table datapath.Table) {
	tb.Helper()
	built, err := buildTable(table)
	fatal(tb, err)
	b := &batch{}
	b.addMessage(built.id, unix.NFT_MSG_NEWTABLE, unix.NLM_F_CREATE, "", encodeAttr(unix.NFTA_TABLE_NAME, zeroEnded(built.id.name)))
	b.addTable(built, &kernelTable{})
	fatal(tb, k.sockets.commitBatch(b))
}

// connectGateways has the gateway of b find that of a at a port of a node.
func (l *lab) connectGateways() {
	var private, public [2][32]byte
	for i := range private {
		var err error
		private[i], public[i], err = pki.NewTunnelKey()
		fatal(l, err)
	}
	a := wg.Peer{PublicKey: public[1], AllowedIPs: []netip.Prefix{plan.TunnelNetwork(), parsePrefix("10.200.0.0/16"), parsePrefix("10.70.0.0/16")}, Keepalive: 20 * time.Second}
	b := wg.Peer{
		PublicKey: public[0], Endpoint: netip.MustParseAddrPort(fmt.Sprint(l.outer("a"), "1:", tunnelPort)), Keepalive: 20 * time.Second,
		AllowedIPs: []netip.Prefix{parsePrefix("0.0.0.0/0")}, // b may try what it wants
	}
	l.client = l.tunnel("b/gateway", wg.Config{MTU: names.DefaultMTU, PrivateKey: private[1], Mark: names.TunnelMark, Peers: []wg.Peer{b}})
	ends := []tunnelEnd{
		l.tunnel("a/gateway", wg.Config{MTU: names.DefaultMTU, PrivateKey: private[0], Mark: names.TunnelMark, ListenPort: names.TunnelPort, Peers: []wg.Peer{a}}),
		l.client,
	}
	for _, end := range ends {
		fatal(l, soon("a handshake", func() (bool, error) {
			status, err := end.Observe()
			return len(status.Peers) == 1 && !status.Peers[0].LastHandshake.IsZero(), err
		}))
	}
}

// tunnelEnd is an end of the tunnel, and what it is told to be.
type tunnelEnd struct {
	*wg.Device
	wanted wg.Config
}

// tunnel opens one end.
func (l *lab) tunnel(at string, config wg.Config) tunnelEnd {
	var device *wg.Device
	l.spaces[at].inside(l, func() (err error) {
		if device, err = wg.Open(names.TunnelDevice, wg.Userspace, slog.New(slog.DiscardHandler)); err == nil {
			err = device.Apply(config)
		}
		return err
	})
	l.Cleanup(func() { device.Close() })
	return tunnelEnd{device, config}
}

// cluster is what each cluster knows: of the other one, and of a third one to which it has no gateway.
func (l *lab) cluster(name string) plan.Cluster {
	key := plan.PeerKey{Namespace: "liqo-tenant-rome", ClusterID: "rome"}
	seen := func(there, here string) []prefix.Pair {
		return []prefix.Pair{{Remote: parsePrefix(there), Local: parsePrefix(here)}}
	}
	object := func(kind, name string) plan.Object { return plan.Object{Kind: kind, Namespace: "demo", Name: name} }
	out := plan.Cluster{
		Pods: prefixesOf("10.200.0.0/16"), Services: prefixesOf("10.96.0.0/12"), External: prefixesOf("10.70.0.0/16"),
		Peers: []plan.Peer{
			{Of: object("Configuration", "rome"), Key: key, Pods: seen("10.200.0.0/16", l.seen(name)), External: seen("10.70.0.0/16", "10.68.0.0/16")},
			{Of: object("Configuration", "oslo"), Key: plan.PeerKey{Namespace: "liqo-tenant-oslo", ClusterID: "oslo"}, Pods: seen("10.200.0.0/16", "10.69.0.0/16"), External: seen("10.70.0.0/16", "10.64.0.0/16")},
		},
		Tunnels: []plan.Tunnel{{Of: object("GatewayServer", "rome"), Peer: key, Active: l.gatewayOf(name), MTU: l.mtu}},
		Aliases: []plan.TranslatedIP{
			{Of: object("IP", "printer"), Alias: addr("10.70.0.21"), Address: addr(world), Masquerade: true},
			{Of: object("IP", "node-exporter"), Alias: addr("10.70.0.22"), Address: addr(l.outer(name) + "2")},
			{Of: object("IP", "scanner"), Alias: addr("10.70.0.24"), Address: addr(scanner)},
			{Of: object("IP", "external-ip"), Alias: addr("10.70.0.23"), Address: addr(l.outer(name) + "1"), Masquerade: true},
		},
	}
	for _, n := range labNodes {
		out.Members = append(out.Members, plan.ClusterNode{
			Of: plan.Object{Kind: "InternalNode", Name: n.name}, External: []netip.Addr{addr(n.external)},
			Local: addr(n.bridge), Remote: addr(l.outer(name) + n.number), PodCIDRs: prefixesOf(n.pods),
		})
	}
	return out
}

func prefixesOf(s string) []netip.Prefix { return []netip.Prefix{parsePrefix(s)} }

func (l *lab) gatewayOf(cluster string) netip.Addr {
	i := slices.IndexFunc(labPods, func(p struct{ name, node, address string }) bool { return p.name == cluster+"/gateway" })
	return addr(labPods[i].address)
}

// apply makes all nodes and gateways what plans say.
func (l *lab) apply() {
	l.Helper()
	made := func(at string, state datapath.State, problems []plan.Problem) {
		if changes := l.kernels[at].mustApply(l, state); len(problems)+len(changes.Waiting) > 0 {
			l.Fatalf("%s: %v, and waiting for %v", at, problems, changes.Waiting)
		}
	}
	for _, c := range []string{"a", "b"} {
		known := l.cluster(c)
		for _, n := range labNodes {
			state, problems := plan.Node(plan.NodeInput{Cluster: known, Name: n.name, RulePriority: l.priority})
			made(c+"/"+n.name, state, problems)
		}
		if l.tracked {
			known.Firewalls = []plan.Firewall{{Of: plan.Object{Kind: "FirewallConfiguration", Name: "marks"}, Stateful: true}}
		}
		state, problems := plan.Gateway(plan.GatewayInput{
			Cluster: known, Of: known.Tunnels[0].Of, Peer: known.Tunnels[0].Peer, Address: known.Tunnels[0].Active,
			Node: "one", Server: c == "a", Passing: l.passing,
		})
		made(c+"/gateway", state, problems)
	}
}

// disconnect has the nodes of a cluster know that its gateway is gone.
func (l *lab) disconnect(cluster string) {
	l.Helper()
	known := l.cluster(cluster)
	known.Tunnels = nil
	for _, n := range labNodes {
		state, _ := plan.Node(plan.NodeInput{Cluster: known, Name: n.name, RulePriority: l.priority})
		l.kernels[cluster+"/"+n.name].mustApply(l, state)
	}
}

// serve has somebody listen wherever packets may come to, and where none may.
func (l *lab) serve() {
	echo(l.T, l.spaces["world"], addr(world))
	echo(l.T, l.spaces["world"], addr(scanner))
	for _, p := range labPods {
		echo(l.T, l.spaces[p.name], addr(p.address))
	}
	for c := range outer {
		for _, n := range labNodes {
			for _, a := range []string{l.outer(c) + n.number, n.external, n.bridge} {
				echo(l.T, l.spaces[c+"/"+n.name], addr(a))
			}
		}
	}
}

// soon looks until something is so. Nothing takes so long as to be too late unless it fails.
func soon(what string, ok func() (bool, error)) error {
	deadline, tick := time.After(patience), time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		if done, err := ok(); done || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-deadline:
			return fmt.Errorf("waiting in vain for %s", what)
		}
	}
}

// refusals are what our counters have.
func (l *lab) refusals(at string) (map[string]uint64, error) {
	all, err := l.kernels[at].Counted()
	maps.DeleteFunc(all, func(_ string, n uint64) bool { return n == 0 })
	return all, err
}

// invalid is how many packets a node or a gateway dropped because connection tracking made nothing of them.
func (l *lab) invalid(at string) uint64 { return l.kernels[at].counted(l, "invalid") }

// counted is a counter of what is not ours.
func (k *Kernel) counted(tb testing.TB, counter string) uint64 {
	tb.Helper()
	table := &kernelTable{counters: map[string]uint64{}}
	fatal(tb, k.readCounters(tableID{unix.NFPROTO_IPV4, "kubernetes"}, table))
	return table.counters[counter]
}
