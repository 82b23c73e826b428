// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"liqo.io/liqo/internal/datapath"
)

// sites are clusters with tunnels between them. All have the same networks; addresses of the fabric differ by cluster here, so that
// one world has them all.
type sites struct {
	*simulatedNetwork
	at map[string]*namespace // by "cluster/host"
}

// build makes the namespaces of a cluster, whose gateways run on its first node.
func (s *sites) build(name string, c Cluster, servers bool) {
	first := c.Members[0].Of.Name
	gateways := map[PeerKey]*namespace{}
	for _, t := range c.Tunnels {
		n := &namespace{name: name + "/to-" + t.Peer.ClusterID, local: []netip.Addr{t.Active}}
		n.state, _ = Gateway(GatewayInput{Cluster: c, Of: t.Of, Peer: t.Peer, Address: t.Active, Node: first, Server: servers})
		n.speaks = func(*namespace) netip.Addr { return t.Active }
		gateways[t.Peer] = n
		s.at[n.name], s.outer[t.Active] = n, n
	}
	for _, m := range c.Members {
		n := &namespace{name: name + "/" + m.Of.Name, local: []netip.Addr{m.Remote, m.Local}}
		n.state, _ = Node(NodeInput{Cluster: c, Name: m.Of.Name})
		n.speaks = func(*namespace) netip.Addr {
			if m.Of.Name == first {
				return m.Local
			}
			return m.Remote
		}
		s.at[n.name], s.outer[m.Local], s.outer[m.Remote] = n, n, n
	}
}

func (s *sites) join(a, b string) {
	if s.at[a] != nil && s.at[b] != nil {
		s.at[a].tunnel, s.at[b].tunnel = s.at[b], s.at[a]
	}
}

// pair is milan and rome, equal in all but where their gateways and nodes are, for a world to tell them apart.
func pair(milans func(*Cluster)) *sites {
	s := &sites{&simulatedNetwork{outer: map[netip.Addr]*namespace{}}, map[string]*namespace{}}
	m := milan()
	if milans != nil {
		milans(&m)
	}
	s.build("milan", m, true)
	s.addRome("10.70.0.0/16")
	return s
}

// addRome builds rome, which knows that external CIDR of milan.
func (s *sites) addRome(external string) {
	r := milan()
	r.Peers = []Peer{peer("milan", pairs("10.200.0.0/16 10.71.0.0/16"), pairs(external+" 10.68.0.0/16"))}
	r.Tunnels = []Tunnel{tunnel("milan", "10.200.1.77")}
	r.Members = []ClusterNode{member("worker-1", "10.70.0.11", "10.200.1.254", "172.29.9.1", "10.200.1.0/24", "10.200.2.0/24")}
	s.build("rome", r, false)
	s.join("milan/to-rome", "rome/to-milan")
}

// dual is milan and rome with a second family, over fabrics of IPv4.
func dual() *sites {
	second := func(c *Cluster, peers string) {
		c.Pods, c.External = append(c.Pods, nets("fd00:200::/56")...), append(c.External, nets("fd00:70::/64")...)
		c.Peers[0].Pods = append(c.Peers[0].Pods, pairs("fd00:200::/56 "+peers+":71::/56")...)
		c.Peers[0].External = append(c.Peers[0].External, pairs("fd00:70::/64 "+peers+":68::/64")...)
	}
	s := &sites{&simulatedNetwork{outer: map[netip.Addr]*namespace{}}, map[string]*namespace{}}
	m := milan()
	second(&m, "fd00")
	m.Members[1].PodCIDRs = append(m.Members[1].PodCIDRs, nets("fd00:200:0:2::/64")...)
	s.build("milan", m, true)
	r := milan()
	r.Peers = []Peer{peer("milan", pairs("10.200.0.0/16 10.71.0.0/16"), pairs("10.70.0.0/16 10.68.0.0/16"))}
	r.Tunnels = []Tunnel{tunnel("milan", "10.200.1.77")}
	r.Members = []ClusterNode{member("worker-1", "10.70.0.11", "10.200.1.254", "172.29.9.1", "10.200.1.0/24", "fd00:200:0:1::/64")}
	second(&r, "fd01")
	s.build("rome", r, false)
	s.join("milan/to-rome", "rome/to-milan")
	return s
}

// star is the hub milan with rome and oslo, whose networks are the same once more.
func star(aliases ...TranslatedIP) *sites {
	s := pair(func(c *Cluster) {
		*c = hub()
		c.Aliases = aliases
	})
	o := milan()
	o.Peers = []Peer{peer("milan", pairs("10.200.0.0/16 10.71.0.0/16"), pairs("10.70.0.0/16 10.68.0.0/16"))}
	o.Tunnels = []Tunnel{tunnel("milan", "10.200.1.78")}
	o.Members = []ClusterNode{member("worker-1", "10.70.0.11", "10.200.1.253", "172.29.8.1", "10.200.1.0/24", "10.200.2.0/24")}
	s.build("oslo", o, false)
	s.join("milan/to-oslo", "oslo/to-milan")
	return s
}

// renumberedStar is star after the hub got another external CIDR, which rome knows and oslo does not.
func renumberedStar(aliases ...TranslatedIP) *sites {
	s := star()
	c := hub()
	c.Aliases = aliases
	s.build("milan", withNewExternal(c), true)
	s.addRome("10.75.0.0/16")
	s.join("milan/to-oslo", "oslo/to-milan")
	return s
}

// restrictedPair is star with restrictions for the pods of milan/worker-1, without those of the names.
func restrictedPair(without ...string) *sites {
	c := withHosts(hub())
	c.Members[1].PodCIDRs = append(c.Members[1].PodCIDRs, nets("10.200.1.77/32")...)
	s := star()
	access := restricted()
	access.Pods = slices.DeleteFunc(access.Pods, func(p LocalPod) bool { return slices.Contains(without, p.Of.Name) })
	s.at["milan/worker-1"].state, _ = Node(NodeInput{Cluster: c, Name: "worker-1", Access: access})
	return s
}

// step is one packet of a walk.
type step struct {
	// from is a namespace, in how the packet gets there: "cni0" from pods, "eth0" from elsewhere, "" from a process there. "tunnel" puts it
	// into the tunnel from there, as it is; "forged" sends it there over the fabric, from whatever address.
	from, in string
	p        packet
	to, ends string // the addresses that it ends with, and how
	why      string
}

// send returns how a packet ends.
func (s *sites) send(one step, p *packet) string {
	n := s.at[one.from]
	outer, forged := strings.CutPrefix(one.in, "forged ")
	switch {
	case forged:
		if reason := s.carry(n, addr(outer), n.local[0], p); reason != "" {
			return reason
		}
		return s.travel(n, "liqo.fabric", p)
	case one.in == "tunnel":
		return s.travel(n.tunnel, "liqo-tunnel", p)
	}
	return s.travel(n, one.in, p)
}

func tcp(src, dst string) packet {
	return packet{src: addr(src), dst: addr(dst), protocol: datapath.TCP, port: 80}
}

func udp(src, dst string, port uint16) packet {
	return packet{src: addr(src), dst: addr(dst), protocol: datapath.UDP, port: port}
}

// ping is an echo that is asked for.
func ping(src, dst string) packet {
	return packet{src: addr(src), dst: addr(dst), protocol: datapath.ICMP, icmp: 8}
}

// tooBig is an error about a packet.
func tooBig(src, dst, qsrc, qdst string) packet {
	return packet{src: addr(src), dst: addr(dst), protocol: datapath.ICMP, icmp: 3, qsrc: addr(qsrc), qdst: addr(qdst)}
}

// The cases that the network was designed by: where each packet goes, and with which addresses.
func TestPacketPaths(t *testing.T) {
	aliases := withAliases(milan()).Aliases[:3]
	var text strings.Builder
	for _, tc := range []struct {
		name  string
		world *sites
		steps []step
	}{
		{"pod to pod, all networks equal, gateway on the same node", pair(nil), []step{
			{"milan/worker-1", "cni0", tcp("10.200.1.5", "10.71.1.5"), "10.71.1.5 > 10.200.1.5", "leaves", ""},
			{"rome/worker-1", "cni0", tcp("10.200.1.5", "10.71.1.5"), "10.71.1.5 > 10.200.1.5", "leaves", ""},
		}},
		{"pod to pod, gateway on another node", pair(nil), []step{
			{"milan/worker-2", "cni0", tcp("10.200.2.7", "10.71.1.5"), "10.71.2.7 > 10.200.1.5", "leaves", ""},
			{"rome/worker-1", "cni0", tcp("10.200.1.5", "10.71.2.7"), "10.71.1.5 > 10.200.2.7", "leaves", ""},
		}},
		{"a remote pod has the address of the gateway here", pair(nil), []step{
			{"milan/worker-1", "cni0", tcp("10.200.1.5", "10.71.1.9"), "10.71.1.5 > 10.200.1.9", "leaves", ""},
			{"rome/worker-1", "cni0", tcp("10.200.1.9", "10.71.1.5"), "10.71.1.9 > 10.200.1.5", "leaves", ""},
		}},
		{"a process of a node, and the answer", pair(nil), []step{
			{"milan/worker-2", "", tcp("10.70.0.12", "10.71.1.5"), "10.68.0.12 > 10.200.1.5", "leaves", ""},
			{"rome/worker-1", "cni0", tcp("10.200.1.5", "10.68.0.12"), "10.71.1.5 > 10.70.0.12", "delivered", ""},
		}},
		{"a client from outside, sent on by a node, and the answer", pair(nil), []step{
			{"milan/worker-2", "eth0", tcp("172.29.1.100", "10.71.1.5"), "10.68.0.12 > 10.200.1.5", "leaves", ""},
			{"rome/worker-1", "cni0", tcp("10.200.1.5", "10.68.0.12"), "10.71.1.5 > 172.29.1.100", "leaves", ""},
		}},
		{"an alias of a host, with masquerade", pair(func(c *Cluster) { c.Aliases = aliases }), []step{
			{"rome/worker-1", "cni0", tcp("10.200.1.5", "10.68.0.21"), "172.29.1.1 > 172.29.1.100", "leaves", ""},
			{"milan/worker-1", "eth0", tcp("172.29.1.100", "172.29.1.1"), "10.68.0.21 > 10.200.1.5", "leaves", ""},
		}},
		{"an alias of a host, without masquerade", pair(func(c *Cluster) { c.Aliases = aliases }), []step{
			{"rome/worker-1", "cni0", tcp("10.200.1.5", "10.68.0.22"), "10.71.1.5 > 172.29.1.101", "leaves", ""},
			{"milan/worker-1", "eth0", tcp("172.29.1.101", "10.71.1.5"), "10.68.0.22 > 10.200.1.5", "leaves", ""},
		}},
		{"an alias of a node: by that node, both ways", pair(func(c *Cluster) { c.Aliases = aliases }), []step{
			{"rome/worker-1", "cni0", tcp("10.200.1.5", "10.68.0.23"), "10.71.1.5 > 172.29.1.2", "delivered", ""},
			{"milan/worker-2", "", tcp("172.29.1.2", "10.71.1.5"), "10.68.0.23 > 10.200.1.5", "leaves", ""},
		}},
		{"a pod here uses an alias with masquerade", pair(func(c *Cluster) { c.Aliases = aliases }), []step{
			{"milan/worker-2", "cni0", tcp("10.200.2.7", "10.70.0.21"), "172.29.1.2 > 172.29.1.100", "leaves", ""},
			{"milan/worker-2", "eth0", tcp("172.29.1.100", "172.29.1.2"), "10.70.0.21 > 10.200.2.7", "leaves", ""},
		}},
		{"an alias of a pod, and the pod's own address", pair(func(c *Cluster) { c.Aliases = []TranslatedIP{alias("p", "10.70.0.26", "10.200.2.7", false)} }), []step{
			{"rome/worker-1", "cni0", tcp("10.200.1.5", "10.68.0.26"), "10.71.1.5 > 10.200.2.7", "leaves", ""},
			{"milan/worker-2", "cni0", tcp("10.200.2.7", "10.71.1.5"), "10.68.0.26 > 10.200.1.5", "leaves", ""},
			{"rome/worker-1", "cni0", tcp("10.200.1.6", "10.71.2.7"), "10.71.1.6 > 10.200.2.7", "leaves", ""},
			{"milan/worker-2", "cni0", tcp("10.200.2.7", "10.71.1.6"), "10.71.2.7 > 10.200.1.6", "leaves", ""},
		}},
		{"an alias of a cluster IP", pair(func(c *Cluster) { *c = withAPIServer(*c) }), []step{
			{"rome/worker-1", "cni0", packet{src: addr("10.200.1.5"), dst: addr("10.68.0.25"), protocol: datapath.TCP, port: 443}, "172.29.1.1 > 172.29.1.2", "leaves", ""},
			{"milan/worker-1", "eth0", packet{src: addr("172.29.1.2"), dst: addr("172.29.1.1"), protocol: datapath.TCP}, "10.68.0.25 > 10.200.1.5", "leaves", ""},
			{"rome/worker-1", "cni0", packet{src: addr("10.200.1.6"), dst: addr("10.68.0.25"), protocol: datapath.TCP, port: 22}, "10.71.1.6 > 10.96.0.1", CounterFreshElsewhere, "a port that is none of the Service's"},
			{"rome/worker-1", "cni0", udp("10.200.1.6", "10.68.0.25", 443), "10.71.1.6 > 10.96.0.1", CounterFreshElsewhere, ""},
		}},
		{"an alias of a cluster IP before the peer knows the new external CIDR", pair(func(c *Cluster) { *c = withNewExternal(withAPIServer(*c)) }), []step{
			{"rome/worker-1", "cni0", packet{src: addr("10.200.1.5"), dst: addr("10.68.0.25"), protocol: datapath.TCP, port: 443}, "172.29.1.1 > 172.29.1.2", "leaves", ""},
			{"milan/worker-1", "eth0", packet{src: addr("172.29.1.2"), dst: addr("172.29.1.1"), protocol: datapath.TCP}, "10.68.0.25 > 10.200.1.5", "leaves", ""},
			{"rome/to-milan", "tunnel", packet{src: addr("10.200.1.6"), dst: addr("10.75.0.25"), protocol: datapath.TCP, port: 443}, "172.29.1.1 > 172.29.1.2", "leaves", "a peer that knows it"},
			{"rome/to-milan", "tunnel", tcp("10.200.1.7", "10.96.0.1"), "10.71.1.7 > 10.96.0.1", CounterPeerDestination, "the address itself"},
			{"rome/to-milan", "tunnel", tcp("10.200.1.7", "10.70.0.26"), "10.71.1.7 > 10.70.0.26", CounterPeerDestination, "an address that no IP had"},
			{"milan/to-rome", "forged 10.200.1.1", tcp("10.70.0.25", "10.71.1.5"), "10.70.0.25 > 10.71.1.5", CounterFabricSource, "a node poses as the previous address"},
		}},
		{"an alias of a host before the peer knows the new external CIDR", pair(func(c *Cluster) { *c = withNewExternal(withAliases(*c)) }), []step{
			{"rome/worker-1", "cni0", tcp("10.200.1.5", "10.68.0.22"), "10.71.1.5 > 172.29.1.101", "leaves", ""},
			{"milan/worker-1", "eth0", tcp("172.29.1.101", "10.71.1.5"), "10.68.0.22 > 10.200.1.5", "leaves", ""},
			{"rome/worker-1", "cni0", udp("10.200.1.6", "10.68.0.22", 9), "10.71.1.6 > 172.29.1.101", "leaves", ""},
			{"milan/worker-1", "eth0", tooBig("172.29.1.101", "10.71.1.6", "10.71.1.6", "172.29.1.101"), "10.68.0.22 > 10.200.1.6 (about 10.200.1.6 > 10.68.0.22)", "leaves", ""},
		}},
		{"leaf to leaf, both have aliases in the hub", star(alias("b", "10.70.0.31", "10.71.1.5", false), alias("c", "10.70.0.32", "10.69.1.5", false)), []step{
			{"oslo/worker-1", "cni0", tcp("10.200.1.5", "10.68.0.31"), "10.68.0.32 > 10.200.1.5", "leaves", ""},
			{"rome/worker-1", "cni0", tcp("10.200.1.5", "10.68.0.32"), "10.68.0.31 > 10.200.1.5", "leaves", ""},
		}},
		{"leaf to leaf, one does not know the new external CIDR of the hub", renumberedStar(alias("b", "10.70.0.31", "10.71.1.5", false), alias("c", "10.70.0.32", "10.69.1.5", false)), []step{
			{"oslo/worker-1", "cni0", tcp("10.200.1.5", "10.68.0.31"), "10.68.0.32 > 10.200.1.5", "leaves", ""},
			{"rome/worker-1", "cni0", tcp("10.200.1.5", "10.68.0.32"), "10.68.0.31 > 10.200.1.5", "leaves", ""},
		}},
		{"leaf to leaf, who speaks has no alias", star(alias("b", "10.70.0.31", "10.71.1.5", false)), []step{
			{"oslo/worker-1", "cni0", tcp("10.200.1.5", "10.68.0.31"), "10.68.0.0 > 10.200.1.5", "leaves", ""},
			{"rome/worker-1", "cni0", tcp("10.200.1.5", "10.68.0.0"), "10.68.0.31 > 10.200.1.5", "leaves", ""},
		}},
		{"a peer asks for its own pod by the alias that it has here", star(alias("c", "10.70.0.32", "10.69.1.5", false)), []step{
			{"oslo/worker-1", "cni0", tcp("10.200.1.5", "10.68.0.32"), "10.69.1.5 > 10.70.0.32", CounterPeerDestination, ""},
		}},
		{"errors, as of the far node", pair(nil), []step{
			{"milan/worker-1", "cni0", udp("10.200.1.5", "10.71.1.5", 9), "10.71.1.5 > 10.200.1.5", "leaves", ""},
			{"rome/worker-1", "cni0", tooBig("10.200.1.5", "10.71.1.5", "10.71.1.5", "10.200.1.5"), "10.71.1.5 > 10.200.1.5 (about 10.200.1.5 > 10.71.1.5)", "leaves", ""},
		}},
		{"errors about an alias", pair(func(c *Cluster) { c.Aliases = aliases }), []step{
			{"rome/worker-1", "cni0", udp("10.200.1.5", "10.68.0.22", 9), "10.71.1.5 > 172.29.1.101", "leaves", ""},
			{"milan/worker-1", "eth0", tooBig("172.29.1.101", "10.71.1.5", "10.71.1.5", "172.29.1.101"), "10.68.0.22 > 10.200.1.5 (about 10.200.1.5 > 10.68.0.22)", "leaves", ""},
		}},
		{"errors of a gateway that gives them the address of the tunnel", pair(nil), []step{
			{"rome/to-milan", "tunnel", tooBig("169.254.18.2", "10.200.1.5", "10.200.1.5", "10.200.1.5"), "10.68.0.0 > 10.200.1.5 (about 10.200.1.5 > 10.71.1.5)", "leaves", "as another implementation does"},
		}},
		{"health: of the tunnel, and from a node to the peer's gateway", pair(nil), []step{
			{"milan/to-rome", "tunnel", udp("169.254.18.1", "169.254.18.2", 12345), "169.254.18.1 > 169.254.18.2", "delivered", ""},
			{"milan/worker-2", "liqo.probe", ping("10.200.255.254", "10.68.0.0"), "10.68.0.12 > 10.70.0.0", "delivered", "as one of its pods, but in its own name"},
			{"rome/to-milan", "", packet{src: addr("10.70.0.0"), dst: addr("10.68.0.12"), protocol: datapath.ICMP, icmp: 0}, "10.68.0.0 > 10.200.255.254", "leaves", ""},
		}},
		{"IPv6 over a fabric of IPv4", dual(), []step{
			{"milan/worker-2", "cni0", tcp("fd00:200:0:2::7", "fd00:71:0:1::5"), "fd01:71:0:2::7 > fd00:200:0:1::5", "leaves", ""},
			{"rome/worker-1", "cni0", tcp("fd00:200:0:1::5", "fd01:71:0:2::7"), "fd00:71:0:1::5 > fd00:200:0:2::7", "leaves", ""},
			{"milan/worker-2", "", tcp("fd00:29::2", "fd00:71:0:1::5"), "fd00:29::2 > fd00:71:0:1::5", CounterNoSource, "the node has no address of that family in front of peers"},
			{"milan/worker-2", "forged 10.200.1.9", tcp("fd00:72::5", "fd00:200:0:2::7"), "fd00:72::5 > fd00:200:0:2::7", CounterOuter, "the gateway speaks for its peer alone"},
		}},
		{"what a peer may not", pair(func(c *Cluster) { *c = withAliases(hub()) }), []step{
			{"rome/to-milan", "tunnel", tcp("10.200.1.5", "172.29.1.1"), "10.71.1.5 > 172.29.1.1", CounterPeerDestination, ""},
			{"rome/to-milan", "tunnel", tcp("10.200.1.5", "10.96.0.1"), "10.71.1.5 > 10.96.0.1", CounterPeerDestination, ""},
			{"rome/to-milan", "tunnel", tcp("10.200.1.5", "169.254.169.254"), "10.71.1.5 > 169.254.169.254", CounterPeerDestination, ""},
			{"rome/to-milan", "tunnel", tcp("10.200.1.5", "10.69.1.5"), "10.71.1.5 > 10.69.1.5", CounterPeerDestination, ""},
			{"rome/to-milan", "tunnel", tcp("172.29.1.1", "10.200.1.5"), "172.29.1.1 > 10.200.1.5", CounterPeerSource, ""},
			{"rome/to-milan", "tunnel", tcp("10.200.1.5", "10.200.1.1"), "10.71.1.5 > 10.200.1.1", CounterFreshLocal, ""},
			{"rome/to-milan", "tunnel", tcp("10.200.1.5", "10.70.0.12"), "10.71.1.5 > 10.70.0.12", CounterFreshLocal, ""},
			{"rome/to-milan", "tunnel", tcp("10.200.1.5", "10.70.0.0"), "10.71.1.5 > 10.70.0.0", CounterInput, ""},
			{"rome/to-milan", "tunnel", udp("10.200.1.5", "10.70.0.0", 6091), "10.71.1.5 > 10.70.0.0", CounterOuter, ""},
			{"rome/to-milan", "tunnel", ping("10.200.1.5", "10.200.1.9"), "10.71.1.5 > 10.200.1.9", CounterInput, "the gateway's pod"},
			{"rome/to-milan", "tunnel", tcp("10.200.1.5", "10.200.1.8"), "10.71.1.5 > 10.200.1.8", CounterFreshElsewhere, "the pod of the gateway to another peer"},
		}},
		{"peers reach offloaded pods only", restrictedPair(), []step{
			{"rome/worker-1", "cni0", tcp("10.200.1.5", "10.71.1.5"), "10.71.1.5 > 10.200.1.5", "leaves", "a pod for all peers"},
			{"rome/worker-1", "cni0", tcp("10.200.1.5", "10.71.1.6"), "10.71.1.5 > 10.200.1.6", "leaves", "a pod of rome's own"},
			{"oslo/worker-1", "cni0", tcp("10.200.1.5", "10.71.1.6"), "10.69.1.5 > 10.200.1.6", CounterFreshPod, "a pod of another consumer"},
			{"rome/worker-1", "cni0", tcp("10.200.1.5", "10.71.1.4"), "10.71.1.5 > 10.200.1.4", CounterFreshPod, ""},
			{"milan/worker-1", "cni0", tcp("10.200.1.4", "10.71.1.8"), "10.71.1.4 > 10.200.1.8", "leaves", "a pod that peers do not reach may speak to them"},
			{"rome/worker-1", "cni0", tcp("10.200.1.8", "10.71.1.4"), "10.71.1.8 > 10.200.1.4", "leaves", "the answer"},
			{"rome/to-milan", "tunnel", tcp("10.200.1.5", "10.200.1.99"), "10.71.1.5 > 10.200.1.99", CounterFreshPod, "a pod that the node does not know yet"},
		}},
		{"pods of consumers reach no node", restrictedPair(), []step{
			{"milan/worker-1", "cni0", tcp("10.200.1.6", "172.29.1.2"), "10.200.1.6 > 172.29.1.2", CounterConsumerPod, "another node"},
			{"milan/worker-1", "cni0", tcp("10.200.1.6", "172.29.1.1"), "10.200.1.6 > 172.29.1.1", CounterConsumerPod, "their own node"},
			{"milan/worker-1", "cni0", tcp("10.200.1.6", "10.200.2.1"), "10.200.1.6 > 10.200.2.1", CounterConsumerPod, "the address that a CNI gives to another node"},
			{"milan/worker-1", "cni0", tcp("10.200.1.6", "169.254.169.254"), "10.200.1.6 > 169.254.169.254", CounterConsumerPod, ""},
			{"milan/worker-1", "cni0", packet{src: addr("10.200.1.6"), dst: addr("10.96.0.1"), protocol: datapath.TCP, port: 443}, "10.200.1.6 > 10.96.0.1", CounterConsumerPod, "the API server"},
			{"milan/worker-1", "cni0", packet{src: addr("10.200.1.7"), dst: addr("172.29.1.2"), protocol: datapath.TCP, port: 6443}, "10.200.1.7 > 172.29.1.2", "leaves", "the API server, by a pod that has a token for it"},
			{"milan/worker-1", "cni0", packet{src: addr("10.200.1.7"), dst: addr("172.29.1.1"), protocol: datapath.TCP, port: 10250}, "10.200.1.7 > 172.29.1.1", CounterConsumerPod, "not the kubelet"},
			{"milan/worker-1", "cni0", udp("10.200.1.6", "169.254.20.10", 53), "10.200.1.6 > 169.254.20.10", "leaves", "DNS on the node"},
			{"milan/worker-1", "cni0", tcp("10.200.1.6", "10.96.0.80"), "10.200.1.6 > 10.96.0.80", "leaves", "Services"},
			{"milan/worker-1", "cni0", tcp("10.200.1.6", "10.200.2.7"), "10.200.1.6 > 10.200.2.7", "leaves", "pods"},
			{"milan/worker-1", "cni0", tcp("10.200.1.6", "203.0.113.9"), "10.200.1.6 > 203.0.113.9", "leaves", "hosts elsewhere"},
			{"milan/worker-1", "cni0", tcp("10.200.1.6", "10.71.1.5"), "10.71.1.6 > 10.200.1.5", "leaves", "its consumer"},
			{"milan/worker-1", "", tcp("172.29.1.1", "10.200.1.6"), "172.29.1.1 > 10.200.1.6", "leaves", "a probe of the kubelet"},
			{"milan/worker-1", "cni0", tcp("10.200.1.6", "172.29.1.1"), "10.200.1.6 > 172.29.1.1", "delivered", "the answer"},
			{"milan/worker-1", "cni0", tcp("10.200.1.4", "172.29.1.2"), "10.200.1.4 > 172.29.1.2", "leaves", "a pod of no consumer"},
			{"milan/worker-1", "cni0", tcp("10.200.1.99", "172.29.1.2"), "10.200.1.99 > 172.29.1.2", CounterConsumerPod, "a pod that the node does not know yet: it may be a consumer's"},
			{"milan/worker-1", "cni0", tcp("10.200.1.11", "172.29.1.2"), "10.200.1.11 > 172.29.1.2", CounterConsumerPod, "a pod whose namespace the node does not know yet"},
			{"milan/worker-1", "cni0", packet{src: addr("10.200.1.11"), dst: addr("172.29.1.2"), protocol: datapath.TCP, port: 6443}, "10.200.1.11 > 172.29.1.2", CounterConsumerPod, "whose token may be none"},
			{"rome/worker-1", "cni0", tcp("10.200.1.5", "10.71.1.11"), "10.71.1.5 > 10.200.1.11", CounterFreshPod, "which peers do not reach either"},
			{"milan/worker-1", "eth0", tcp("10.200.2.7", "172.29.1.1"), "10.200.2.7 > 172.29.1.1", "delivered", "a pod of another node"},
			{"milan/worker-1", "eth0", tcp("10.200.1.77", "172.29.1.1"), "10.200.1.77 > 172.29.1.1", "delivered", "a pod of another node, with an address of this one's share"},
		}},
		{"the containers of a pod outlive its object", restrictedPair("forced"), []step{
			{"milan/worker-1", "cni0", tcp("10.200.1.10", "172.29.1.2"), "10.200.1.10 > 172.29.1.2", CounterConsumerPod, "the consumer deleted it without a grace period"},
			{"milan/worker-1", "cni0", packet{src: addr("10.200.1.10"), dst: addr("10.96.0.1"), protocol: datapath.TCP, port: 443}, "10.200.1.10 > 10.96.0.1", CounterConsumerPod, ""},
		}},
		{"what is not from here", pair(nil), []step{
			{"milan/worker-1", "forged 10.200.1.9", tcp("10.200.2.7", "10.200.1.5"), "10.200.2.7 > 10.200.1.5", CounterOuter, "a pod poses as the gateway and as another pod"},
			{"milan/worker-1", "forged 10.200.1.66", tcp("10.71.1.5", "10.200.1.5"), "10.71.1.5 > 10.200.1.5", CounterOuter, "a pod that is no gateway"},
			{"milan/to-rome", "forged 10.200.1.66", tcp("10.200.1.5", "10.71.1.5"), "10.200.1.5 > 10.71.1.5", CounterOuter, "a pod that is no node"},
			{"milan/to-rome", "eth0", tcp("172.29.1.100", "10.71.1.5"), "172.29.1.100 > 10.71.1.5", CounterForward, "a neighbour takes the gateway for a router"},
			{"milan/to-rome", "forged 10.200.1.1", tcp("172.29.1.100", "10.71.1.5"), "172.29.1.100 > 10.71.1.5", CounterFabricSource, "a node sends what is nobody's"},
		}},
		{"what does not come by the fabric", pair(func(c *Cluster) { c.Aliases = withAliases(milan()).Aliases }), []step{
			{"milan/worker-2", "eth0", tcp("10.71.1.5", "10.200.2.7"), "10.71.1.5 > 10.200.2.7", CounterStray, "whoever is beside the nodes"},
			{"milan/worker-1", "cni0", tcp("10.71.1.5", "10.200.2.7"), "10.71.1.5 > 10.200.2.7", CounterStray, "a pod poses as one of the peer"},
			{"milan/worker-1", "cni0", tcp("10.71.1.5", "10.96.0.80"), "10.71.1.5 > 10.96.0.80", CounterStray, ""},
			{"milan/worker-2", "eth0", udp("10.68.0.0", "10.70.0.12", 7), "10.68.0.0 > 10.70.0.12", CounterStray, "an answer to a check of the way to the peer's gateway"},
			{"milan/worker-2", "eth0", tcp("10.71.1.5", "172.29.1.100"), "10.71.1.5 > 172.29.1.100", CounterStray, "the alias has a masquerade: nobody there hears of the peer"},
			{"milan/worker-2", "eth0", tcp("10.71.1.5", "172.29.1.101"), "10.71.1.5 > 172.29.1.101", "leaves", "an alias without masquerade: from the gateway's node by another one"},
			{"milan/worker-2", "lo", tcp("10.71.1.5", "172.29.1.2"), "10.71.1.5 > 172.29.1.2", "delivered", "processes of the node, one of which answers for a peer"},
			{"milan/to-rome", "eth0", udp("169.254.18.2", "169.254.18.1", 12345), "169.254.18.2 > 169.254.18.1", CounterInput, "a neighbour poses as the other end of the tunnel"},
		}},
		{"the other end of the tunnel has the address of a pod of the peer", pair(nil), []step{
			{"milan/to-rome", "", udp("10.200.1.9", "10.71.9.9", 51840), "10.200.1.9 > 10.71.9.9", "leaves", "it is dialled"},
			{"milan/worker-1", "cni0", udp("10.200.1.9", "10.71.9.9", 51840), "10.200.1.9 > 10.71.9.9", "leaves", ""},
			{"milan/worker-2", "cni0", udp("10.200.1.9", "10.71.9.9", 51840), "10.200.1.9 > 10.71.9.9", "leaves", "by any node, as answers to who came by it are"},
			{"milan/worker-2", "eth0", udp("10.71.9.9", "10.200.1.9", 51840), "10.71.9.9 > 10.200.1.9", "leaves", ""},
			{"milan/worker-2", "eth0", tcp("10.71.9.9", "10.200.1.9"), "10.71.9.9 > 10.200.1.9", CounterStray, "the tunnel has no streams"},
			{"milan/worker-2", "eth0", udp("10.71.9.9", "10.200.2.7", 51840), "10.71.9.9 > 10.200.2.7", CounterStray, "a pod has no tunnel"},
		}},
		{"what does not come by the fabric, of IPv6", dual(), []step{
			{"milan/worker-2", "eth0", udp("fd00:71:0:1::5", "fd00:200:0:2::7", 7), "fd00:71:0:1::5 > fd00:200:0:2::7", CounterStray, ""},
			{"milan/worker-2", "eth0", tcp("fd00:71:0:1::5", "fd00:200:0:2::7"), "fd00:71:0:1::5 > fd00:200:0:2::7", CounterStray, ""},
		}},
		{"no gateway", pair(func(c *Cluster) { c.Tunnels = nil }), []step{
			{"milan/worker-1", "cni0", tcp("10.200.1.5", "10.71.1.5"), "10.200.1.5 > 10.71.1.5", "unreachable", ""},
		}},
	} {
		fmt.Fprintf(&text, "%s\n", tc.name)
		for i, s := range tc.steps {
			tc.world.trace = nil
			p := s.p
			end := tc.world.send(s, &p)
			if got := p.String(); end != s.ends || got != s.to {
				t.Errorf("%s, packet %d ends as %s, %s; want %s, %s\n%s", tc.name, i+1, got, end, s.to, s.ends, tc.world.text())
			}
			if s.why != "" {
				fmt.Fprintf(&text, "  # %s\n", s.why)
			}
			text.WriteString(tc.world.text())
		}
		text.WriteString("\n")
	}
	golden(t, "packets", text.String())
}
