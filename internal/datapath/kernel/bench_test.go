// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"liqo.io/liqo/internal/datapath"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/network/plan"
)

// large is a state of 1000 hops, 1000 routes and a map of 5000 addresses.
func large() datapath.State {
	s := samples["ip"].node()
	for i := range 1000 {
		next := netip.AddrFrom4([4]byte{10, 201, byte(i / 250), byte(i % 250)})
		s.Neighbours = append(s.Neighbours, datapath.Neighbour{Device: names.FabricDevice, Next: next, MAC: datapath.MAC(next), Outer: next})
		to := netip.PrefixFrom(netip.AddrFrom4([4]byte{11, byte(i / 250), byte(i % 250), 0}), 24)
		s.Routes = append(s.Routes, datapath.Route{Table: 6091, To: to, Via: next, Device: names.FabricDevice, OnLink: true, MTU: 1340})
	}
	for i := range 5000 {
		alias := netip.AddrFrom4([4]byte{12, 0, byte(i / 250), byte(i % 250)})
		s.Tables[0].Sets[0].Elements = append(s.Tables[0].Sets[0].Elements, datapath.Element{
			Key: []datapath.Value{datapath.Addr(alias)}, Value: []datapath.Value{datapath.Addr(alias.Next())},
		})
	}
	return s
}

func BenchmarkApply(b *testing.B) {
	k := newTestNamespace(b).open(b)
	one, other := large(), large()
	other.Routes[500].MTU = 1300
	b.Run("everything", func(b *testing.B) {
		for b.Loop() {
			k.mustApply(b, one)
			b.StopTimer()
			k.mustApply(b, datapath.State{})
			b.StartTimer()
		}
	})
	k.mustApply(b, one)
	b.Run("nothing", func(b *testing.B) {
		for b.Loop() {
			if c := k.mustApply(b, one); len(c.Writes) > 0 {
				b.Fatal(c.Writes)
			}
		}
	})
	b.Run("a route", func(b *testing.B) {
		for b.Loop() {
			one, other = other, one
			if c := k.mustApply(b, one); len(c.Writes) != 1 {
				b.Fatal(c.Writes)
			}
		}
	})
	more := large()
	more.Tables[0].Sets[0].Elements = more.Tables[0].Sets[0].Elements[:5000]
	k.mustApply(b, one)
	b.Run("an element", func(b *testing.B) {
		more.Routes = one.Routes
		want := []datapath.State{more, one}
		for i := 0; b.Loop(); i++ {
			if c := k.mustApply(b, want[i%2]); len(c.Writes) != 1 {
				b.Fatal(c.Writes)
			}
		}
	})
}

// BenchmarkIPs plans and applies 5000 IPs of hosts outside of the cluster, without and with masquerade, of pods, and of pods of another peer; then one
// more, and one less, by turns.
func BenchmarkIPs(b *testing.B) {
	clusterWith := func(ips int) plan.Cluster {
		c := (&lab{}).cluster("a")
		for i := range ips {
			kind, high, low := i%4, byte(i/1000), byte(i/4%250)
			address := netip.AddrFrom4([][4]byte{{198, 18, high, low}, {198, 19, high, low}, {10, 200, 100 + high, low}, {10, 69, high, low}}[kind])
			c.Aliases = append(c.Aliases, plan.TranslatedIP{
				Of: plan.Object{Kind: "IP", Namespace: "demo", Name: address.String()}, Address: address, Masquerade: kind == 1,
				Alias: netip.AddrFrom4([4]byte{10, 70, 100 + high + 10*byte(kind), low}),
			})
		}
		return c
	}
	clusters := []plan.Cluster{clusterWith(5000), clusterWith(5001)}
	for name, planOf := range map[string]func(plan.Cluster) (datapath.State, []plan.Problem){
		"node": func(c plan.Cluster) (datapath.State, []plan.Problem) {
			return plan.Node(plan.NodeInput{Cluster: c, Name: labNodes[1].name})
		},
		"gateway": func(c plan.Cluster) (datapath.State, []plan.Problem) {
			return plan.Gateway(plan.GatewayInput{Cluster: c, Of: c.Tunnels[0].Of, Peer: c.Tunnels[0].Peer, Address: c.Tunnels[0].Active, Node: "one", Server: true})
		},
	} {
		s := newTestNamespace(b)
		s.device(b, names.TunnelDevice)
		k := s.open(b)
		var planning, both time.Duration // of CPU
		apply := func(b *testing.B, c plan.Cluster) Changes {
			start := processorTime(b)
			state, problems := planOf(c)
			planning += processorTime(b) - start
			if len(problems) > 0 {
				b.Fatal(problems)
			}
			changes := k.mustApply(b, state)
			both += processorTime(b) - start
			return changes
		}
		run := func(what string, once func(b *testing.B)) {
			b.Run(name+"/"+what, func(b *testing.B) {
				planning, both = 0, 0
				for b.Loop() {
					once(b)
				}
				b.ReportMetric(float64(planning.Nanoseconds())/float64(b.N), "plan-cpu-ns/op")
				b.ReportMetric(float64(both.Nanoseconds())/float64(b.N), "cpu-ns/op")
			})
		}
		run("all", func(b *testing.B) {
			apply(b, clusters[0])
			b.StopTimer()
			k.mustApply(b, datapath.State{})
			b.StartTimer()
		})
		apply(b, clusters[0])
		is := 0
		run("one more", func(b *testing.B) {
			is = 1 - is
			if c := apply(b, clusters[is]); len(c.Writes) == 0 || len(c.Writes) > 4 {
				b.Fatal(c.Writes)
			}
		})
	}
}

// processorTime returns the CPU time of this process, with what the kernel does for it: other work of the machine changes it little.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
