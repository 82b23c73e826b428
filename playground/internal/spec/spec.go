// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package spec describes a cluster of the playground: the user's choices, and the names and addresses that are derived from them.
package spec

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Family is the IP family, or families, of a cluster.
type Family string

const (
	IPv4 Family = "ipv4"
	IPv6 Family = "ipv6"
	Dual Family = "dual"
)

// Addons are what a cluster can have beyond what kubeadm installs.
var Addons = []string{"local-path-provisioner", "metrics-server"}

// MaxClusters, MaxWorkers and MaxSimulated are the limits of the address plan.
const (
	MaxClusters  = 26
	MaxWorkers   = 49
	MaxSimulated = 100
)

// Cluster has the user's choices. Names and addresses are derived from them alone, independent of the machine.
type Cluster struct {
	Name            string        `json:"name"`
	Kubernetes      string        `json:"kubernetes,omitempty"` // release, "" for the default
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
	Addons          []string      `json:"addons,omitempty"`
	Moved           []string      `json:"moved,omitempty"` // nodes with their second address
	World           World         `json:"world"`
}

// Node is one machine of a cluster.
type Node struct {
	Name      string
	Addresses []netip.Addr   // primary family first
	PodCIDRs  []netip.Prefix // same order
}

// Default returns the cluster that `up` creates without flags.
func Default(name string, w World) Cluster {
	return Cluster{
		Name: name, Workers: 1, Family: IPv4, CNI: Masquerade, LoadBalancer: true,
		SigningDuration: 365 * 24 * time.Hour, ClientQPS: 1000, GOGC: 50, Addons: Addons, World: w,
	}
}

// Validate reports invalid values by the names of their flags.
func (c Cluster) Validate() error {
	switch {
	case len(c.Name) != 1 || c.Name < "a" || c.Name > "z":
		return fmt.Errorf("invalid name of a cluster %q: must be one letter, a to z", c.Name)
	case c.Workers < 1 || c.Workers > MaxWorkers:
		return fmt.Errorf("invalid --workers %d: must be between 1 and %d", c.Workers, MaxWorkers)
	case c.SimulatedNodes < 0 || c.SimulatedNodes > MaxSimulated:
		return fmt.Errorf("invalid --simulated-nodes %d: must be between 0 and %d", c.SimulatedNodes, MaxSimulated)
	case !slices.Contains([]Family{IPv4, IPv6, Dual}, c.Family):
		return fmt.Errorf("invalid --ip-family %q: must be ipv4, ipv6 or dual", c.Family)
	case c.HasIPv6() && !c.World.HasIPv6():
		return fmt.Errorf("invalid --ip-family %q: the kernel does not support IPv6", c.Family)
	case !slices.Contains([]CNI{Masquerade, Plain, Overlay, Flannel, KubeRouter, Cilium, CiliumAlone}, c.CNI):
		return fmt.Errorf("invalid --cni %q: must be masquerade, plain, overlay, flannel, kube-router, cilium or cilium-without-kube-proxy", c.CNI)
	case c.CNI.RunsInPods() && c.Family != IPv4:
		return fmt.Errorf("invalid --cni %q: must be masquerade, plain or overlay with --ip-family %s", c.CNI, c.Family)
	case c.Kubernetes != "" && !slices.Contains(Releases, c.Kubernetes):
		return fmt.Errorf("invalid --kubernetes %q: must be one of %s", c.Kubernetes, strings.Join(Releases, ", "))
	case c.GOGC < 0 || c.GOGC > 1000:
		return fmt.Errorf("invalid --gogc %d: must be between 1 and 1000, or 0 for the default", c.GOGC)
	case slices.ContainsFunc(c.Addons, func(a string) bool { return !slices.Contains(Addons, a) }):
		return fmt.Errorf("invalid --addons %q: must be of %s", strings.Join(c.Addons, ","), strings.Join(Addons, ", "))
	case c.SigningDuration < time.Minute:
		return fmt.Errorf("invalid --cluster-signing-duration %s: must be at least 1m", c.SigningDuration)
	}
	return nil
}

// Has reports whether the cluster has an add-on. Templates of add-ons use it.
func (c Cluster) Has(addon string) bool { return slices.Contains(c.Addons, addon) }

// Env returns the environment of the cluster's programs: GOGC. A low value saves memory, and costs much CPU time under load.
func (c Cluster) Env() []string {
	return []string{"GOGC=" + strconv.Itoa(cmp.Or(c.GOGC, Default("", c.World).GOGC))}
}

// Release returns the release of Kubernetes that the cluster runs.
func (c Cluster) Release() string { return cmp.Or(c.Kubernetes, Kubernetes) }

// Index returns 1 for a, 2 for b, …; it is part of every address of the cluster.
func (c Cluster) Index() int { return int(cmp.Or(c.Name, "a")[0]-'a') + 1 }

// HasIPv6 reports whether pods have IPv6 addresses, in IPv6 or dual stack.
func (c Cluster) HasIPv6() bool { return c.Family != IPv4 }

// PodCIDRs returns the cluster's pod networks, IPv4 first.
func (c Cluster) PodCIDRs() []netip.Prefix { return c.podNetworks().forFamily(c.Family) }

// ServiceCIDRs returns the cluster's Service networks, IPv4 first.
func (c Cluster) ServiceCIDRs() []netip.Prefix {
	if c.Overlap {
		return prefixPair{v4net(10, 201), v6net(0x11c8, 112)}.forFamily(c.Family)
	}
	return prefixPair{v4net(10, 100+c.Index()), v6net(0x1100+c.Index(), 112)}.forFamily(c.Family)
}

func (c Cluster) podNetworks() prefixPair {
	if c.Overlap {
		return prefixPair{v4net(10, 200), v6net(0x10c8, 56)}
	}
	return prefixPair{v4net(10, c.Index()), v6net(0x1000+c.Index(), 56)}
}

// KubernetesService returns the address of the Service kubernetes: the first address of the first Service network.
func (c Cluster) KubernetesService() netip.Addr { return addressWithLastByte(c.ServiceCIDRs()[0], 1) }

// DNS returns the address of the cluster's name server.
func (c Cluster) DNS() netip.Addr { return addressWithLastByte(c.ServiceCIDRs()[0], 10) }

// Nodes lists the cluster's nodes; the first one also runs the control plane.
func (c Cluster) Nodes() []Node {
	nodes := make([]Node, c.Workers)
	for i := range nodes {
		nodes[i] = c.node(i + 1)
	}
	return nodes
}

// Move returns the cluster with the second address of a node, or with the first one if the node has its second address.
func (c Cluster) Move(node string) Cluster {
	moved := slices.DeleteFunc(slices.Clone(c.Moved), func(n string) bool { return n == node })
	if len(moved) == len(c.Moved) {
		moved = append(moved, node)
	}
	c.Moved = moved
	return c
}

// Simulated returns the names of the simulated nodes. The controller-manager assigns their pod networks, from the lower half of the cluster's.
func (c Cluster) Simulated() []string {
	names := make([]string, c.SimulatedNodes)
	for i := range names {
		names[i] = fmt.Sprintf("%s-simulated-%d", c.Name, i+1)
	}
	return names
}

// ControlPlane returns the node that runs the control plane.
func (c Cluster) ControlPlane() Node { return c.node(1) }

// Server returns the URL of the API server, which the machine and all nodes and pods of all clusters reach.
func (c Cluster) Server() string {
	return "https://" + netip.AddrPortFrom(c.ControlPlane().Addresses[0], 6443).String()
}

// NodeCIDRs returns the networks of the cluster's nodes and load balancers, which are parts of the world network.
func (c Cluster) NodeCIDRs() []netip.Prefix {
	return prefixPair{
		netip.PrefixFrom(c.World.nodeIPv4(c.Index(), 0), 24),
		netip.PrefixFrom(c.World.nodeIPv6(c.Index(), 0), 112),
	}.forFamily(c.Family)
}

// LoadBalancerRange returns the range of addresses for Services of type LoadBalancer in a family.
func (c Cluster) LoadBalancerRange(ipv6 bool) (first, last netip.Addr) {
	if ipv6 {
		return c.World.nodeIPv6(c.Index(), 0x100), c.World.nodeIPv6(c.Index(), 0x1ff)
	}
	return c.World.nodeIPv4(c.Index(), 100), c.World.nodeIPv4(c.Index(), 249)
}

// node returns the j-th node. Pod networks of nodes start in the middle of the cluster's pod network; the controller-manager assigns
// networks of the lower half to nodes that are created later, such as virtual nodes.
func (c Cluster) node(j int) Node {
	n := Node{Name: fmt.Sprintf("%s%d", c.Name, j)}
	index := j
	if slices.Contains(c.Moved, n.Name) {
		index += MaxWorkers
	}
	for _, p := range c.PodCIDRs() {
		b := p.Addr().AsSlice()
		if p.Addr().Is4() {
			n.Addresses = append(n.Addresses, c.World.nodeIPv4(c.Index(), index))
			b[2] = byte(128 + j)
			n.PodCIDRs = append(n.PodCIDRs, netip.PrefixFrom(addressFromSlice(b), 24))
			continue
		}
		n.Addresses = append(n.Addresses, c.World.nodeIPv6(c.Index(), index))
		b[7] = byte(128 + j)
		n.PodCIDRs = append(n.PodCIDRs, netip.PrefixFrom(addressFromSlice(b), 64))
	}
	return n
}

type prefixPair struct{ v4, v6 netip.Prefix }

func (p prefixPair) forFamily(f Family) []netip.Prefix {
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

// v6net returns fd00:<group>::/bits, a unique local network.
func v6net(group, bits int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom16([16]byte{0xfd, 0, byte(group >> 8), byte(group)}), bits)
}

// addressWithLastByte returns an address of a network whose last byte is zero.
func addressWithLastByte(p netip.Prefix, n byte) netip.Addr {
	b := p.Addr().AsSlice()
	b[len(b)-1] = n
	return addressFromSlice(b)
}

func addressFromSlice(b []byte) netip.Addr {
	a, _ := netip.AddrFromSlice(b)
	return a
}
