// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package spec

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func testWorld(t *testing.T) World {
	t.Helper()
	w, err := NewWorld("liqo-pg", "172.29.0.0/16")
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestAddressPlan(t *testing.T) {
	w := testWorld(t)
	for name, c := range map[string]struct {
		cluster Cluster
		want    string
	}{
		"the first cluster": {
			Cluster{Name: "a", Workers: 2, Family: IPv4, World: w},
			"https://172.29.1.1:6443 pods [10.1.0.0/16] services [10.101.0.0/16] dns 10.101.0.10; a1 [172.29.1.1] [10.1.129.0/24]; a2 [172.29.1.2] [10.1.130.0/24]",
		},
		"dual stack": {
			Cluster{Name: "b", Workers: 1, Family: Dual, World: w},
			"https://172.29.2.1:6443 pods [10.2.0.0/16 fd00:1002::/56] services [10.102.0.0/16 fd00:1102::/112] dns 10.102.0.10; b1 [172.29.2.1 fd00:ac1d::2:1] [10.2.129.0/24 fd00:1002:0:81::/64]",
		},
		"a node that was moved": {
			Cluster{Name: "a", Workers: 2, Family: IPv4, Moved: []string{"a2"}, World: w},
			"https://172.29.1.1:6443 pods [10.1.0.0/16] services [10.101.0.0/16] dns 10.101.0.10; a1 [172.29.1.1] [10.1.129.0/24]; a2 [172.29.1.51] [10.1.130.0/24]",
		},
		"IPv6": {
			Cluster{Name: "z", Workers: 1, Family: IPv6, World: w},
			"https://[fd00:ac1d::1a:1]:6443 pods [fd00:101a::/56] services [fd00:111a::/112] dns fd00:111a::a; z1 [fd00:ac1d::1a:1] [fd00:101a:0:81::/64]",
		},
		"equal networks": {
			Cluster{Name: "b", Workers: 1, Family: IPv4, Overlap: true, World: w},
			"https://172.29.2.1:6443 pods [10.200.0.0/16] services [10.201.0.0/16] dns 10.201.0.10; b1 [172.29.2.1] [10.200.129.0/24]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := fmt.Sprintf("%s pods %v services %v dns %v", c.cluster.Server(), c.cluster.PodCIDRs(), c.cluster.ServiceCIDRs(), c.cluster.DNS())
			for _, n := range c.cluster.Nodes() {
				got += fmt.Sprintf("; %s %v %v", n.Name, n.Addresses, n.PodCIDRs)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// All nodes, load balancers and networks of the largest number of clusters and workers have different addresses.
func TestNoAddressOverlaps(t *testing.T) {
	w := testWorld(t)
	gateway4, gateway6 := w.Gateway()
	host4, host6 := w.HostAddresses()
	world4, world6 := w.WorldAddresses()
	singles := map[netip.Addr]string{gateway4: "gateway", gateway6: "gateway", host4: "host", host6: "host", world4: "world", world6: "world"}
	networks := map[netip.Prefix]string{}
	for i := range MaxClusters {
		c := Default(string(rune('a'+i)), w)
		c.Family, c.Workers = Dual, MaxWorkers
		for _, p := range append(c.PodCIDRs(), c.ServiceCIDRs()...) {
			for q, owner := range networks {
				if p.Overlaps(q) {
					t.Errorf("%s of %s overlaps %s of %s", p, c.Name, q, owner)
				}
			}
			networks[p] = c.Name
		}
		nodes := c.Nodes()
		for _, n := range c.Nodes() {
			c = c.Move(n.Name)
		}
		for _, n := range append(nodes, c.Nodes()...) {
			for k, a := range n.Addresses {
				if owner, used := singles[a]; used {
					t.Errorf("%s has the address %s of %s", n.Name, a, owner)
				}
				singles[a] = n.Name
				if !c.NodeCIDRs()[k].Contains(a) || !c.PodCIDRs()[k].Overlaps(n.PodCIDRs[k]) {
					t.Errorf("%s %s %s is outside of its cluster's networks", n.Name, a, n.PodCIDRs[k])
				}
			}
		}
		for _, ipv6 := range []bool{false, true} {
			first, last := c.LoadBalancerRange(ipv6)
			for a := first; a.Compare(last) <= 0; a = a.Next() {
				if owner, used := singles[a]; used {
					t.Fatalf("load balancer %s of %s belongs to %s", a, c.Name, owner)
				}
				singles[a] = c.Name
			}
		}
	}
}

func TestNewWorldValidation(t *testing.T) {
	for in, want := range map[string]string{
		"pg 10.9.0.0/16":              "",
		"pg 10.9.0.0/24":              "/16",
		"pg 10.9.1.0/16":              "/16",
		"pg fd00::/16":                "IPv4",
		"a-name-too-long 10.9.0.0/16": "at most 9",
		"PG 10.9.0.0/16":              "letters",
	} {
		name, network, _ := strings.Cut(in, " ")
		_, err := NewWorld(name, network)
		if got := fmt.Sprint(err); want == "" && err != nil || want != "" && !strings.Contains(got, want) {
			t.Errorf("%s: got %v, want %q", in, err, want)
		}
	}
}

func TestIPv6RequiresKernelSupport(t *testing.T) {
	w := testWorld(t)
	w.IPv6 = netip.Prefix{}
	c := Default("a", w)
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
	c.Family = Dual
	if err := c.Validate(); err == nil {
		t.Error("dual stack was accepted")
	}
}

func TestCNIInPods(t *testing.T) {
	c := Default("a", testWorld(t))
	for cni, want := range map[CNI]bool{Masquerade: false, Plain: false, Overlay: false, Flannel: true, KubeRouter: true, Cilium: true, CiliumAlone: true} {
		c.CNI, c.Family = cni, IPv4
		if got := cni.RunsInPods(); got != want || c.Validate() != nil {
			t.Errorf("%s runs in pods: %v, want %v; %v", cni, got, want, c.Validate())
		}
		if c.Family = Dual; (c.Validate() != nil) != want {
			t.Errorf("%s in dual stack: %v", cni, c.Validate())
		}
	}
}

func TestGOGC(t *testing.T) {
	c := Default("a", testWorld(t))
	for gogc, want := range map[int]string{c.GOGC: "GOGC=50", 0: "GOGC=50", 100: "GOGC=100"} { // clusters of earlier releases have 0
		if c.GOGC = gogc; !slices.Equal(c.Env(), []string{want}) || c.Validate() != nil {
			t.Errorf("%d is %v", gogc, c.Env())
		}
	}
	if c.GOGC = -1; c.Validate() == nil {
		t.Error("-1 is valid")
	}
}
