// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/api/networking/v1beta1/firewall"
	"liqo.io/liqo/internal/datapath"
	"liqo.io/liqo/internal/datapath/kernel"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// patience with what the agent is to do.
const patience = 3 * time.Minute

// testNode is a node with its agent, one peer, and the gateway to it.
type testNode struct {
	cluster *testkit.ControlPlane
	client.Client
	home         string
	node         string
	space        *testkit.Space
	gatewaySpace *testkit.Space // of the gateway
	kernel       *kernel.Kernel
	peer         *networkingv1beta1.Configuration
	member       *networkingv1beta1.InternalNode
	gate         *networkingv1beta1.GatewayServer
	stop         func()
}

// foreign is a route of somebody else on the node.
const foreign = "198.51.100.0/24"

// newTestNode has the agent probe peers as often as that, if at all.
func newTestNode(t *testing.T, ping time.Duration) *testNode {
	t.Helper()
	w := &testNode{cluster: testkit.Cluster(t), node: testkit.UniqueID(), space: testkit.NewSpace(t, "lqag"), gatewaySpace: testkit.NewSpace(t, "lqag")}
	w.Client = w.cluster.Client
	w.home = testkit.Namespace(t, w.cluster, "home", nil)
	if err := w.space.Inside(forwards); err != nil {
		t.Fatal(err)
	}
	testkit.Cable(t, w.space, "10.200.1.1/24", w.gatewaySpace, "10.200.1.9/24")
	w.space.Route(t, foreign, "eth0")
	w.objects(t)
	w.kernel = w.open(t)
	w.stop = testkit.Manager(t, w.cluster.Config, kube.ManagerOptions{}, func(mgr ctrl.Manager) error {
		n := newNode(mgr, w.kernel, Options{Node: w.node, LiqoNamespace: w.home, PingInterval: ping, PingLossThreshold: 5})
		n.prober.listen = func() (conn io.ReadWriteCloser, err error) {
			err = w.space.Inside(func() error {
				conn, err = listenRaw()
				return err
			})
			return conn, err
		}
		return n.setupController(mgr)
	})
	return w
}

// forwards makes a network namespace one of a node, with strict reverse paths.
func forwards() error {
	var errs []error
	for _, name := range []string{"ip_forward", "conf/all/rp_filter", "conf/default/rp_filter"} {
		errs = append(errs, os.WriteFile("/proc/sys/net/ipv4/"+name, []byte("1"), 0o644))
	}
	return errors.Join(errs...)
}

func (w *testNode) open(t *testing.T) *kernel.Kernel { return open(t, w.space) }

func open(t *testing.T, s *testkit.Space) *kernel.Kernel {
	t.Helper()
	k, err := kernel.Open(kernel.Options{Namespace: s.Path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k.Close() })
	return k
}

func (w *testNode) objects(t *testing.T) {
	t.Helper()
	for kind, cidr := range map[string]string{names.NetworkTypePod: "10.200.0.0/16", names.NetworkTypeExternal: "10.70.0.0/16"} {
		n := &ipamv1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: w.home, Name: kind, Labels: map[string]string{names.NetworkType: kind}}}
		n.Spec.CIDR = networkingv1beta1.CIDR(cidr)
		testkit.Create(t, w, n)
		testkit.UpdateStatus(t, w, n, func(n *ipamv1alpha1.Network) { n.Status.CIDR = networkingv1beta1.CIDR(cidr) })
	}
	self := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: w.node}}
	self.Spec.PodCIDR, self.Spec.PodCIDRs = "10.200.1.0/24", []string{"10.200.1.0/24"}
	w.member = &networkingv1beta1.InternalNode{ObjectMeta: metav1.ObjectMeta{Name: w.node}}
	w.member.Spec.Interface.Node.IP, w.member.Spec.Interface.Gateway.Name = "10.70.0.11", names.FabricDevice
	w.createTemporary(t, self, w.member)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.home, Name: "elsewhere"}}
	pod.Spec = corev1.PodSpec{NodeName: w.node, Containers: []corev1.Container{{Name: "c", Image: "i"}}}
	testkit.Create(t, w, pod)
	testkit.UpdateStatus(t, w, pod, func(p *corev1.Pod) {
		p.Status.PodIP, p.Status.PodIPs = "10.200.9.5", []corev1.PodIP{{IP: "10.200.9.5"}}
	})
	tenant := testkit.Namespace(t, w.cluster, "tenant", nil)
	of := metav1.ObjectMeta{Namespace: tenant, Name: "rome", Labels: map[string]string{names.RemoteClusterID: "rome"}}
	w.gate = &networkingv1beta1.GatewayServer{ObjectMeta: of}
	w.peer = &networkingv1beta1.Configuration{ObjectMeta: of}
	w.peer.Spec.Remote.CIDR = networkingv1beta1.ClusterConfigCIDR{Pod: cidrs("10.200.0.0/16"), External: cidrs("10.70.0.0/16")}
	w.createTemporary(t, w.gate, w.peer)
	testkit.UpdateStatus(t, w, w.gate, func(g *networkingv1beta1.GatewayServer) {
		g.Status.InternalEndpoint = &networkingv1beta1.InternalGatewayEndpoint{IP: new(networkingv1beta1.IP("10.200.1.9")), Node: &w.node}
	})
	testkit.UpdateStatus(t, w, w.peer, func(c *networkingv1beta1.Configuration) {
		here := networkingv1beta1.ClusterConfigCIDR{Pod: cidrs("10.71.0.0/16"), External: cidrs("10.68.0.0/16")}
		c.Status.Remote = &networkingv1beta1.ClusterConfig{CIDR: here}
		c.Status.Conditions = []metav1.Condition{{
			Type: networkingv1beta1.ConditionNetworkCIDRsConfigured, Status: metav1.ConditionTrue, Reason: "Test",
			ObservedGeneration: c.Generation, LastTransitionTime: metav1.Now(),
		}}
	})
}

// createTemporary makes objects that nodes of other tests would see, too.
func (w *testNode) createTemporary(t *testing.T, objs ...client.Object) {
	t.Helper()
	testkit.Create(t, w, objs...)
	t.Cleanup(func() {
		for _, obj := range objs {
			if err := client.IgnoreNotFound(w.Delete(context.Background(), obj)); err != nil {
				t.Error(err)
			}
		}
	})
}

func cidrs(of ...networkingv1beta1.CIDR) []networkingv1beta1.CIDR { return of }

// waitForState waits until the state of the namespace contains a line, or does not.
func (w *testNode) waitForState(t *testing.T, line string, want bool) {
	t.Helper()
	testkit.Eventually(t, patience, func() error {
		state, err := w.kernel.Observe()
		if err != nil {
			return err
		}
		if strings.Contains(state.String(), line) != want {
			return fmt.Errorf("%q is in it (want %t): %s", line, want, state)
		}
		return nil
	})
}

func (w *testNode) hasForeign(t *testing.T) {
	t.Helper()
	routes, err := w.space.RouteList(nil, netlink.FAMILY_V4)
	if err != nil {
		t.Fatal(err)
	}
	_, want, err := net.ParseCIDR(foreign)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(routes, func(r netlink.Route) bool { return r.Dst != nil && r.Dst.String() == want.String() }) {
		t.Errorf("the route of somebody else is gone: %v", routes)
	}
}

const toPeer = "route 10.71.0.0/16 via 10.200.1.9 dev liqo.fabric onlink src 10.70.0.11 mtu 1340 table 6091\n"

func TestNodeReconcile(t *testing.T) {
	w := newTestNode(t, 0)
	w.waitForState(t, toPeer, true)
	w.tellsGateways(t)
	w.followsLease(t)
	w.repairs(t)
	w.hasForeign(t)
	w.firewall(t)
	t.Log("less passes the tunnel, and then more than anybody counts on")
	gateway := &networkingv1beta1.GatewayServer{ObjectMeta: metav1.ObjectMeta{Namespace: w.peer.Namespace, Name: w.peer.Name}}
	for _, mtu := range []int{1232, 1440} {
		testkit.UpdateStatus(t, w, gateway, func(g *networkingv1beta1.GatewayServer) { g.Status.MTU = mtu })
		w.waitForState(t, strings.Replace(toPeer, "1340", fmt.Sprint(mtu), 1), true)
	}
	if err := w.Delete(t.Context(), w.peer); err != nil {
		t.Fatal(err)
	}
	w.waitForState(t, "10.71.0.0/16", false)
	w.hasForeign(t)
}

// followsLease has the other replica of the gateway take the Lease, and a stranger.
func (w *testNode) followsLease(t *testing.T) {
	t.Helper()
	testkit.UpdateStatus(t, w, w.gate, func(g *networkingv1beta1.GatewayServer) {
		g.Status.Replicas = []networkingv1beta1.GatewayReplica{{Name: "gw-1", IP: "10.200.1.9", Node: w.node}, {Name: "gw-2", IP: "10.200.2.9", Node: "worker-2"}}
	})
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Namespace: w.gate.Namespace, Name: names.Gateway(w.gate.Name), Labels: map[string]string{names.NetworkingComponent: names.ComponentGateway},
	}}
	lease.Spec.HolderIdentity = new("gw-2")
	testkit.Create(t, w, lease)
	w.waitForState(t, strings.Replace(toPeer, "10.200.1.9", "10.200.2.9", 1), true)
	testkit.Update(t, w, lease, func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = new("a stranger") })
	w.waitForState(t, toPeer, true)
	if err := w.Delete(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	testkit.UpdateStatus(t, w, w.gate, func(g *networkingv1beta1.GatewayServer) { g.Status.Replicas = nil })
	w.waitForState(t, "10.200.2.9", false)
}

// tellsGateways expects the InternalNode to say how the node is reached.
func (w *testNode) tellsGateways(t *testing.T) {
	t.Helper()
	want := networkingv1beta1.InternalNodeStatus{
		NodeIP:   networkingv1beta1.InternalNodeStatusNodeIP{Local: new(networkingv1beta1.IP("10.200.1.1"))},
		PodCIDRs: cidrs("10.200.1.0/24", "10.200.9.5/32"),
	}
	testkit.Eventually(t, patience, func() error {
		if err := w.Get(t.Context(), client.ObjectKeyFromObject(w.member), w.member); err != nil {
			return err
		}
		if diff := cmp.Diff(want, w.member.Status); diff != "" {
			return errors.New(diff)
		}
		return nil
	})
}

// repairs takes what is ours away, as others may. Nobody looks for that by the clock: the kernel tells.
func (w *testNode) repairs(t *testing.T) {
	t.Helper()
	before, err := w.kernel.Observe()
	if err != nil {
		t.Fatal(err)
	}
	other := w.open(t)
	flush := func(family int) error {
		all, err := w.space.NeighList(w.space.Link(t, names.FabricDevice).Attrs().Index, family)
		if err == nil && len(all) == 0 {
			err = errors.New("there is none")
		}
		for _, one := range all {
			err = errors.Join(err, w.space.NeighDel(&one))
		}
		return err
	}
	for _, tc := range []struct {
		what string
		undo func() error
	}{
		{"everything", func() error {
			_, err := other.Apply(t.Context(), datapath.State{})
			return err
		}},
		{"the fabric's device", func() error { return w.space.LinkDel(w.space.Link(t, names.FabricDevice)) }},
		{"neighbours", func() error { return flush(unix.AF_INET) }},
		{"the fabric's FDB", func() error { return flush(unix.AF_BRIDGE) }},
	} {
		t.Logf("%s: gone", tc.what)
		if err := tc.undo(); err != nil {
			t.Fatal(err)
		}
		testkit.Eventually(t, patience, func() error {
			state, err := w.kernel.Observe()
			if err != nil {
				return err
			}
			if diff := cmp.Diff(before.String(), state.String()); diff != "" {
				return errors.New(diff)
			}
			return nil
		})
	}
}

// firewall has a user ask for what cannot be, and then for what can.
func (w *testNode) firewall(t *testing.T) {
	t.Helper()
	rule := firewall.FilterRule{Name: new("nobody"), Action: firewall.ActionDrop, Match: []firewall.Match{{
		Op: firewall.MatchOperationEq, IP: &firewall.MatchIP{Value: "192.0.2.9-192.0.2.1", Position: firewall.MatchPositionSrc},
	}}}
	f := &networkingv1beta1.FirewallConfiguration{ObjectMeta: metav1.ObjectMeta{
		Namespace: w.home, Name: "lab", Labels: map[string]string{names.FirewallCategory: names.TargetFabric, names.FirewallSubcategory: names.TargetAllNodes},
	}}
	f.Spec.Table = firewall.Table{Name: new("lab"), Family: new(firewall.TableFamilyIPv4), Chains: []firewall.Chain{{
		Name: new("pass"), Type: firewall.ChainTypeFilter, Policy: new(firewall.ChainPolicyAccept), Hook: new(firewall.ChainHookForward),
		Priority: new(firewall.ChainPriorityFilter), Rules: firewall.RulesSet{FilterRules: []firewall.FilterRule{rule}},
	}}}
	testkit.Create(t, w, f)
	testkit.WantEvent(t, w.cluster, f, "NotApplied", "192.0.2.9-192.0.2.1")
	w.applied(t, f, metav1.ConditionFalse)
	testkit.Update(t, w, f, func(f *networkingv1beta1.FirewallConfiguration) {
		f.Spec.Table.Chains[0].Rules.FilterRules[0].Match[0].IP.Value = "192.0.2.1-192.0.2.9"
	})
	w.applied(t, f, metav1.ConditionTrue)
	w.waitForState(t, "192.0.2.1-192.0.2.9", true)
	t.Log("what the node said is taken away")
	testkit.UpdateStatus(t, w, f, func(f *networkingv1beta1.FirewallConfiguration) { f.Status.Conditions = nil })
	w.applied(t, f, metav1.ConditionTrue)
	if err := w.Delete(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	w.waitForState(t, "192.0.2.1-192.0.2.9", false)
}

// applied expects this node to say of a firewall whether all of it is done.
func (w *testNode) applied(t *testing.T, f *networkingv1beta1.FirewallConfiguration, want metav1.ConditionStatus) {
	t.Helper()
	testkit.Eventually(t, patience, func() error {
		if err := w.Get(t.Context(), client.ObjectKeyFromObject(f), f); err != nil {
			return err
		}
		c := f.Status.Conditions
		if len(c) != 1 || c[0].Host != w.node || c[0].Type != networkingv1beta1.HostConditionApplied || c[0].Status != want {
			return fmt.Errorf("the conditions are %+v, want one that is %s", c, want)
		}
		return nil
	})
}
