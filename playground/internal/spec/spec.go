// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package spec describes a playground cluster: what the user chose and every name and address that follows from it.
package spec

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"time"
)

// Versions of what runs in a cluster.
const (
	Kubernetes = "v1.35.4"
	CoreDNS    = "v1.12.4"
	Kwok       = "v0.8.0"
)

// Family says which IP families a cluster speaks.
type Family string

// CNI says what happens to packets of pods.
type CNI string

const (
	IPv4 Family = "ipv4"
	IPv6 Family = "ipv6"
	Dual Family = "dual"

	// Masquerade hides pods behind their node as soon as they leave the pod network, node addresses included.
	Masquerade CNI = "masquerade"
	// Plain hides pods from what is not of their cluster only: nodes of the cluster see pod addresses.
	Plain CNI = "plain"
	// Overlay is Masquerade with a VXLAN between the nodes, so the node network never sees a pod address.
	Overlay CNI = "overlay"
)

// MaxClusters, MaxWorkers and MaxSimulated are what the address plan has room for.
const (
	MaxClusters  = 26
	MaxWorkers   = 49
	MaxSimulated = 100
)

// Cluster is what the user chose. Everything else is derived, so that it can be rendered without looking at the machine.
type Cluster struct {
	Name            string        `json:"name"`
	Workers         int           `json:"workers"`
	Overlap         bool          `json:"podCIDROverlap"`
	Family          Family        `json:"ipFamily"`
	CNI             CNI           `json:"cni"`
	SigningDuration time.Duration `json:"clusterSigningDuration"`
	Audit           bool          `json:"audit"`
	LoadBalancer    bool          `json:"loadBalancer"`
	ClientQPS       int           `json:"clientQPS"`
	APIServerArgs   []string      `json:"apiServerArgs,omitempty"`
	GOGC            int           `json:"gogc,omitempty"`
	SimulatedNodes  int           `json:"simulatedNodes,omitempty"`
	Moved           []string      `json:"moved,omitempty"` // nodes that have their other address
	World           World         `json:"world"`
}

// Node is one machine of a cluster.
type Node struct {
	Name      string
	Addresses []netip.Addr   // primary family first
	PodCIDRs  []netip.Prefix // same order
}

// Default is a cluster as `up` without flags makes it.
func Default(name string, w World) Cluster {
	return Cluster{
		Name: name, Workers: 1, Family: IPv4, CNI: Masquerade, LoadBalancer: true,
		SigningDuration: 365 * 24 * time.Hour, ClientQPS: 1000, GOGC: 50, World: w,
	}
}

// Validate says what is wrong in the user's words.
func (c Cluster) Validate() error {
	switch {
	case len(c.Name) != 1 || c.Name < "a" || c.Name > "z":
		return fmt.Errorf("a cluster is named by one letter, a to z: %q", c.Name)
	case c.Workers < 1 || c.Workers > MaxWorkers:
		return fmt.Errorf("--workers is 1 to %d: %d", MaxWorkers, c.Workers)
	case c.SimulatedNodes < 0 || c.SimulatedNodes > MaxSimulated:
		return fmt.Errorf("--simulated-nodes is 0 to %d: %d", MaxSimulated, c.SimulatedNodes)
	case !slices.Contains([]Family{IPv4, IPv6, Dual}, c.Family):
		return fmt.Errorf("--ip-family is ipv4, ipv6 or dual: %q", c.Family)
	case c.HasIPv6() && !c.World.HasIPv6():
		return fmt.Errorf("--ip-family %s: this kernel has no IPv6", c.Family)
	case !slices.Contains([]CNI{Masquerade, Plain, Overlay}, c.CNI):
		return fmt.Errorf("--cni is masquerade, plain or overlay: %q", c.CNI)
	case c.GOGC < 0 || c.GOGC > 1000:
		return fmt.Errorf("--gogc is 1 to 1000, or 0 for the default: %d", c.GOGC)
	case c.SigningDuration < time.Minute:
		return fmt.Errorf("--cluster-signing-duration is at least a minute: %s", c.SigningDuration)
	}
	return nil
}

// Env is the environment of the cluster's own programs: how much garbage they leave before they collect it. Little is little memory, and
// takes a large part of their CPU time while much happens.
func (c Cluster) Env() []string {
	return []string{"GOGC=" + strconv.Itoa(cmp.Or(c.GOGC, Default("", c.World).GOGC))}
}

// Index is 1 for a, 2 for b, …: it appears in every address of the cluster.
func (c Cluster) Index() int { return int(cmp.Or(c.Name, "a")[0]-'a') + 1 }

// HasIPv6 says whether pods have addresses of IPv6, alone or too.
func (c Cluster) HasIPv6() bool { return c.Family != IPv4 }

// PodCIDRs are the cluster's pod networks, IPv4 first.
func (c Cluster) PodCIDRs() []netip.Prefix { return c.podNet().of(c.Family) }

// ServiceCIDRs are the cluster's Service networks, IPv4 first.
func (c Cluster) ServiceCIDRs() []netip.Prefix {
	if c.Overlap {
		return pair{v4net(10, 201), v6net(0x11c8, 112)}.of(c.Family)
	}
	return pair{v4net(10, 100+c.Index()), v6net(0x1100+c.Index(), 112)}.of(c.Family)
}

func (c Cluster) podNet() pair {
	if c.Overlap {
		return pair{v4net(10, 200), v6net(0x10c8, 56)}
	}
	return pair{v4net(10, c.Index()), v6net(0x1000+c.Index(), 56)}
}

// KubernetesService is the address of the Service named kubernetes: the first of the first Service network.
func (c Cluster) KubernetesService() netip.Addr { return nth(c.ServiceCIDRs()[0], 1) }

// DNS is the address of the cluster's name server.
func (c Cluster) DNS() netip.Addr { return nth(c.ServiceCIDRs()[0], 10) }

// Nodes lists the cluster's nodes; the first one also runs the control plane.
func (c Cluster) Nodes() []Node {
	nodes := make([]Node, c.Workers)
	for i := range nodes {
		nodes[i] = c.node(i + 1)
	}
	return nodes
}

// Move is the cluster after a node got its other address, or its first one again.
func (c Cluster) Move(node string) Cluster {
	moved := slices.DeleteFunc(slices.Clone(c.Moved), func(n string) bool { return n == node })
	if len(moved) == len(c.Moved) {
		moved = append(moved, node)
	}
	c.Moved = moved
	return c
}

// Simulated names the nodes that nobody runs. They get pod networks from the controller-manager, out of the other half.
func (c Cluster) Simulated() []string {
	names := make([]string, c.SimulatedNodes)
	for i := range names {
		names[i] = fmt.Sprintf("%s-simulated-%d", c.Name, i+1)
	}
	return names
}

// ControlPlane is the node that runs the control plane.
func (c Cluster) ControlPlane() Node { return c.node(1) }

// Server is the URL of the API server, for the host and for every node and pod of every cluster.
func (c Cluster) Server() string {
	return "https://" + netip.AddrPortFrom(c.ControlPlane().Addresses[0], 6443).String()
}

// NodeCIDRs are the parts of the world network that belong to this cluster: its nodes and its load balancers.
func (c Cluster) NodeCIDRs() []netip.Prefix {
	return pair{
		netip.PrefixFrom(c.World.nodeIPv4(c.Index(), 0), 24),
		netip.PrefixFrom(c.World.nodeIPv6(c.Index(), 0), 112),
	}.of(c.Family)
}

// LoadBalancerRange returns the addresses that Services of type LoadBalancer get in a family.
func (c Cluster) LoadBalancerRange(ipv6 bool) (first, last netip.Addr) {
	if ipv6 {
		return c.World.nodeIPv6(c.Index(), 0x100), c.World.nodeIPv6(c.Index(), 0x1ff)
	}
	return c.World.nodeIPv4(c.Index(), 100), c.World.nodeIPv4(c.Index(), 249)
}

// The pod networks of nodes start in the middle of the cluster's, out of the way of what the controller-manager
// gives to nodes that come later, virtual ones for instance.
func (c Cluster) node(j int) Node {
	n := Node{Name: fmt.Sprintf("%s%d", c.Name, j)}
	at := j
	if slices.Contains(c.Moved, n.Name) {
		at += MaxWorkers
	}
	for _, p := range c.PodCIDRs() {
		b := p.Addr().AsSlice()
		if p.Addr().Is4() {
			n.Addresses = append(n.Addresses, c.World.nodeIPv4(c.Index(), at))
			b[2] = byte(128 + j)
			n.PodCIDRs = append(n.PodCIDRs, netip.PrefixFrom(addr(b), 24))
			continue
		}
		n.Addresses = append(n.Addresses, c.World.nodeIPv6(c.Index(), at))
		b[7] = byte(128 + j)
		n.PodCIDRs = append(n.PodCIDRs, netip.PrefixFrom(addr(b), 64))
	}
	return n
}

type pair struct{ v4, v6 netip.Prefix }

func (p pair) of(f Family) []netip.Prefix {
	switch f {
	case IPv4:
		return []netip.Prefix{p.v4}
	case IPv6:
		return []netip.Prefix{p.v6}
	default:
		return []netip.Prefix{p.v4, p.v6}
	}
}

func v4net(a, b int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{byte(a), byte(b)}), 16)
}

// v6net is fd00:<group>::/bits, from the unique local range.
func v6net(group, bits int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom16([16]byte{0xfd, 0, byte(group >> 8), byte(group)}), bits)
}

// nth is an address of a network whose last byte is free.
func nth(p netip.Prefix, n byte) netip.Addr {
	b := p.Addr().AsSlice()
	b[len(b)-1] = n
	return addr(b)
}

func addr(b []byte) netip.Addr {
	a, _ := netip.AddrFromSlice(b)
	return a
}
