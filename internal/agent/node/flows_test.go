// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	ctrl "sigs.k8s.io/controller-runtime"

	"liqo.io/liqo/internal/datapath"
	"liqo.io/liqo/internal/datapath/kernel"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/testkit"
)

// mortal is killed before one of its calls.
type mortal struct {
	Host
	before string
}

type killed struct{}

func (m mortal) reach(call string) {
	if call == m.before {
		panic(killed{})
	}
}

func (m mortal) Apply(ctx context.Context, s datapath.State) (kernel.Changes, error) {
	m.reach("Apply")
	return m.Host.Apply(ctx, s)
}

func (m mortal) Forget(p ...netip.Prefix) (int, error) {
	m.reach("Forget")
	return m.Host.Forget(p...)
}

func (m mortal) Settle() error {
	m.reach("Settle")
	return m.Host.Settle()
}

// process is one that runs once, and whether it came to its end.
func (w *testNode) process(t *testing.T, k Host) (finished bool) {
	t.Helper()
	var n *nodeAgent
	defer testkit.Manager(t, w.cluster.Config, kube.ManagerOptions{}, func(mgr ctrl.Manager) error {
		n = newNode(mgr, k, Options{Node: w.node, LiqoNamespace: w.home})
		n.client = w // nothing is watched
		return nil
	})()
	defer func() {
		if r := recover(); r != nil && r != any(killed{}) {
			panic(r)
		}
	}()
	if _, err := n.runOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	return true
}

// flow begins one from a pod to the peer, as it is tracked where nobody translates it.
func (w *testNode) flow(t *testing.T) {
	t.Helper()
	pod, peer := net.IPv4(10, 200, 1, 5).To4(), net.IPv4(10, 71, 0, 5).To4()
	err := w.space.ConntrackCreate(netlink.ConntrackTable, unix.AF_INET, &netlink.ConntrackFlow{
		FamilyType: unix.AF_INET, TimeOut: 600,
		Forward: netlink.IPTuple{SrcIP: pod, DstIP: peer, SrcPort: 5000, DstPort: 80, Protocol: unix.IPPROTO_UDP},
		Reverse: netlink.IPTuple{SrcIP: peer, DstIP: pod, SrcPort: 80, DstPort: 5000, Protocol: unix.IPPROTO_UDP},
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (w *testNode) flows(t *testing.T) int {
	t.Helper()
	all, err := w.space.ConntrackTableList(netlink.ConntrackTable, unix.AF_INET)
	if err != nil {
		t.Fatal(err)
	}
	return len(slices.DeleteFunc(all, func(f *netlink.ConntrackFlow) bool { return !f.Forward.DstIP.Equal(net.IPv4(10, 71, 0, 5)) }))
}

func TestFlowsAfterRestart(t *testing.T) {
	w := newTestNode(t, 0)
	w.waitForState(t, toPeer, true)
	w.stop()
	for _, before := range []string{"Apply", "Forget", "Settle"} {
		t.Run(before, func(t *testing.T) {
			if _, err := w.kernel.Apply(t.Context(), datapath.State{}); err != nil {
				t.Fatal(err)
			}
			w.flow(t)
			if w.process(t, mortal{w.kernel, before}) || (w.flows(t) == 1) == (before == "Settle") {
				t.Errorf("it was not killed before %s: %d flows are left", before, w.flows(t))
			}
			if !w.process(t, w.open(t)) || w.flows(t) != 0 {
				t.Errorf("%d flows are left", w.flows(t))
			}
			w.waitForState(t, toPeer, true)
			w.flow(t)
			if !w.process(t, w.open(t)) || w.flows(t) != 1 {
				t.Errorf("nothing was to be forgotten, and %d flows are left", w.flows(t))
			}
		})
	}
}
