// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ipam

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

const limit = 3 * time.Minute

var usualPools = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("192.168.0.0/16"), netip.MustParsePrefix("172.16.0.0/12")}

// testEnv is a cluster with nothing granted, and the controllers at work on it.
type testEnv struct {
	*testing.T
	c      *testkit.ControlPlane
	where  string
	seen   client.Reader // what the controllers have seen
	stop   func()
	writes *testkit.Writes // of the controllers
}

// newTestEnv creates objs before it starts the controllers. Remaining objects are deleted by force.
func newTestEnv(t *testing.T, pools []netip.Prefix, objs ...client.Object) *testEnv {
	t.Helper()
	s := &testEnv{T: t, c: testkit.Cluster(t)}
	s.where = testkit.Namespace(t, s.c, "ipam", nil)
	for _, obj := range objs {
		s.create(obj)
	}
	s.start(pools)
	t.Cleanup(func() {
		s.stop()
		deleteAll(t, s.c.Client)
	})
	return s
}

func (s *testEnv) start(pools []netip.Prefix) {
	s.Helper()
	var cfg *rest.Config
	cfg, s.writes = testkit.RecordWrites(s.c.Config)
	s.stop = testkit.Manager(s.T, cfg, kube.ManagerOptions{Name: "ipam"}, func(mgr ctrl.Manager) error {
		s.seen = mgr.GetCache()
		return Setup(mgr, Options{LiqoNamespace: s.where, Pools: pools})
	})
}

// deleteAll deletes every Network, IP and InternalNode.
func deleteAll(t *testing.T, c client.Client) {
	t.Helper()
	ctx := context.Background() // that of the test may have ended
	var networks ipamv1alpha1.NetworkList
	var ips ipamv1alpha1.IPList
	var nodes networkingv1beta1.InternalNodeList
	if err := errors.Join(c.List(ctx, &networks), c.List(ctx, &ips), c.List(ctx, &nodes)); err != nil {
		t.Fatal(err)
	}
	var objs []client.Object
	for i := range nodes.Items {
		objs = append(objs, &nodes.Items[i])
	}
	for i := range networks.Items {
		objs = append(objs, &networks.Items[i])
	}
	for i := range ips.Items {
		objs = append(objs, &ips.Items[i])
	}
	for _, obj := range objs {
		held := obj.DeepCopyObject().(client.Object)
		obj.SetFinalizers(nil)
		if err := errors.Join(c.Patch(ctx, obj, client.MergeFrom(held)), c.Delete(ctx, obj)); client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
	}
}

func (s *testEnv) create(obj client.Object) {
	s.Helper()
	obj.SetNamespace(s.where)
	testkit.Create(s.T, s.c.Client, obj)
}

func newNetwork(name, cidr, kind string, labels ...string) *ipamv1alpha1.Network {
	n := &ipamv1alpha1.Network{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}},
		Spec:       ipamv1alpha1.NetworkSpec{CIDR: networkingv1beta1.CIDR(cidr)},
	}
	if kind != "" {
		n.Labels[names.NetworkType] = kind
	}
	for _, l := range labels {
		n.Labels[l] = "true"
	}
	return n
}

// installed are the Networks that the chart makes; the last one keeps its first address for the unknown source.
func installed() []client.Object {
	local := []string{names.NetworkNotRemapped, names.NetworkShared}
	external := newNetwork("external-cidr", "10.70.0.0/16", names.NetworkTypeExternal)
	external.Spec.PreAllocated = 1
	out := []client.Object{
		newNetwork("pod-cidr-10-200-0-0-16", "10.200.0.0/16", names.NetworkTypePod, local...),
		newNetwork("pod-cidr-10-201-0-0-16", "10.201.0.0/16", names.NetworkTypePod, local...),
		newNetwork("service-cidr", "10.100.0.0/16", names.NetworkTypeService, local...),
		newNetwork("reserved-10-0-0-0-16", "10.0.0.0/16", names.NetworkTypeReserved, local...),
		external,
	}
	for _, obj := range out {
		obj.SetAnnotations(map[string]string{names.Preinstalled: "true"})
	}
	return out
}

// nodeAt makes a node with an address.
func nodeAt(t *testing.T, address string) *corev1.Node {
	t.Helper()
	c := testkit.Cluster(t)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "node-"}}
	testkit.Create(t, c.Client, node)
	t.Cleanup(func() { _ = c.Client.Delete(context.Background(), node) })
	testkit.UpdateStatus(t, c.Client, node, func(n *corev1.Node) {
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}
	})
	return node
}

// allocated waits until an object has what it is to have.
func (s *testEnv) allocated(name, want string, obj client.Object, have func() (string, []metav1.Condition)) {
	s.Helper()
	testkit.Eventually(s.T, limit, func() error {
		if err := s.c.Client.Get(s.Context(), client.ObjectKey{Namespace: s.where, Name: name}, obj); err != nil {
			return err
		}
		got, conditions := have()
		if got != want || !apimeta.IsStatusConditionTrue(conditions, ipamv1alpha1.ConditionAllocated) {
			return fmt.Errorf("%s has %q, want %q; conditions %v", name, got, want, conditions)
		}
		return nil
	})
}

func (s *testEnv) network(name, want string) {
	s.Helper()
	n := &ipamv1alpha1.Network{}
	s.allocated(name, want, n, func() (string, []metav1.Condition) { return string(n.Status.CIDR), n.Status.Conditions })
}

func (s *testEnv) ip(name, want string) {
	s.Helper()
	ip := &ipamv1alpha1.IP{}
	s.allocated(name, want, ip, func() (string, []metav1.Condition) { return string(ip.Status.IP), ip.Status.Conditions })
}

// refused waits for the condition that says why an object has nothing.
func (s *testEnv) refused(obj client.Object, name, reason, text string, conditions func() []metav1.Condition) {
	s.Helper()
	testkit.Eventually(s.T, limit, func() error {
		if err := s.c.Client.Get(s.Context(), client.ObjectKey{Namespace: s.where, Name: name}, obj); err != nil {
			return err
		}
		c := apimeta.FindStatusCondition(conditions(), ipamv1alpha1.ConditionAllocated)
		if c == nil || c.Status != metav1.ConditionFalse || c.Reason != reason || !strings.Contains(c.Message, text) {
			return fmt.Errorf("the condition is %v, want %s with %q", c, reason, text)
		}
		return nil
	})
}

func (s *testEnv) refusedNetwork(name, reason, text string) {
	s.Helper()
	n := &ipamv1alpha1.Network{}
	s.refused(n, name, reason, text, func() []metav1.Condition { return n.Status.Conditions })
	testkit.WantEvent(s.T, s.c, n, reason, text)
}

// What an installation asks for it gets, in whatever order it is looked at; each peer gets what it asks for, or another prefix that is
// as long.
func TestInstallationNetworksFirst(t *testing.T) {
	peers := []client.Object{
		newNetwork("milan-pod", "10.200.0.0/16", ""),
		newNetwork("milan-external", "10.70.0.0/16", ""),
		newNetwork("rome-pod", "10.50.0.0/16", ""),
	}
	s := newTestEnv(t, usualPools, append(peers, installed()...)...)
	s.network("pod-cidr-10-200-0-0-16", "10.200.0.0/16")
	s.network("pod-cidr-10-201-0-0-16", "10.201.0.0/16")
	s.network("service-cidr", "10.100.0.0/16")
	s.network("reserved-10-0-0-0-16", "10.0.0.0/16")
	s.network("external-cidr", "10.70.0.0/16")
	s.network("rome-pod", "10.50.0.0/16")
	for _, name := range []string{"milan-pod", "milan-external"} {
		n := &ipamv1alpha1.Network{}
		testkit.Eventually(t, limit, func() error {
			if err := s.c.Client.Get(t.Context(), client.ObjectKey{Namespace: s.where, Name: name}, n); err != nil {
				return err
			}
			if p := parsePrefix(string(n.Status.CIDR)); p.Bits() != 16 || n.Status.CIDR == n.Spec.CIDR {
				return fmt.Errorf("%s has %q", name, n.Status.CIDR)
			}
			return nil
		})
	}
}

func TestConflictMessage(t *testing.T) {
	s := newTestEnv(t, usualPools, installed()...)
	s.network("external-cidr", "10.70.0.0/16")
	s.create(newNetwork("more", "10.70.3.0/24", "", names.NetworkNotRemapped))
	s.refusedNetwork("more", reasonConflict, "10.70.3.0/24 overlaps 10.70.0.0/16 of Network "+s.where+"/external-cidr")
	s.create(newNetwork("elsewhere", "100.64.0.0/24", "", names.NetworkNotRemapped))
	s.refusedNetwork("elsewhere", reasonOutOfPools, "100.64.0.0/24 is not in 10.0.0.0/8, 192.168.0.0/16, 172.16.0.0/12")
}

// What is full is told, and goes on by itself when something is given back.
func TestExhaustedPoolRetried(t *testing.T) {
	s := newTestEnv(t, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/29")},
		newNetwork("first", "10.0.0.0/30", ""), newNetwork("second", "10.0.0.4/30", names.NetworkTypeExternal))
	s.network("first", "10.0.0.0/30")
	s.network("second", "10.0.0.4/30")
	s.create(newNetwork("third", "10.0.0.0/30", ""))
	s.refusedNetwork("third", reasonExhausted, "no prefix of length 30 is free in 10.0.0.0/29")
	for i := range 4 {
		s.create(&ipamv1alpha1.IP{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("host-", i)}, Spec: ipamv1alpha1.IPSpec{IP: "192.0.2.1"}})
		s.ip(fmt.Sprint("host-", i), fmt.Sprint("10.0.0.", 4+i))
	}
	s.create(&ipamv1alpha1.IP{ObjectMeta: metav1.ObjectMeta{Name: "host-4"}, Spec: ipamv1alpha1.IPSpec{IP: "192.0.2.1"}})
	ip := &ipamv1alpha1.IP{}
	s.refused(ip, "host-4", reasonExhausted, "no address is free in 10.0.0.4/30 of Network "+s.where+"/second", func() []metav1.Condition { return ip.Status.Conditions })

	for name, obj := range map[string]client.Object{"first": &ipamv1alpha1.Network{}, "host-2": &ipamv1alpha1.IP{}} {
		obj.SetNamespace(s.where)
		obj.SetName(name)
		if err := s.c.Client.Delete(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
	s.network("third", "10.0.0.0/30")
	s.ip("host-4", "10.0.0.6")
}

// Whatever was in the way, once it is gone the refused go on by themselves.
func TestRejectedRetried(t *testing.T) {
	node := nodeAt(t, "10.50.0.7")
	s := newTestEnv(t, usualPools,
		&ipamv1alpha1.IP{ObjectMeta: metav1.ObjectMeta{Name: "early"}, Spec: ipamv1alpha1.IPSpec{IP: "192.0.2.1"}},
		newNetwork("beside-node", "10.50.0.0/24", "", names.NetworkNotRemapped),
		newNetwork("own", "10.60.0.0/24", "", names.NetworkNotRemapped))
	ip := &ipamv1alpha1.IP{}
	conditions := func() []metav1.Condition { return ip.Status.Conditions }
	s.refused(ip, "early", reasonNoNetwork, "the external CIDR is missing", conditions)
	s.create(newNetwork("external-cidr", "10.70.0.0/16", names.NetworkTypeExternal))
	s.ip("early", "10.70.0.0")

	second := newNetwork("second", "10.71.0.0/16", names.NetworkTypeExternal)
	s.create(second)
	s.network("second", "10.71.0.0/16")
	s.create(&ipamv1alpha1.IP{ObjectMeta: metav1.ObjectMeta{Name: "torn"}, Spec: ipamv1alpha1.IPSpec{IP: "192.0.2.1"}})
	s.refused(ip, "torn", reasonAmbiguous, "more than one Network is the external CIDR", conditions)
	if err := s.c.Client.Delete(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	s.ip("torn", "10.70.0.1")

	s.refusedNetwork("beside-node", reasonConflict, "10.50.0.0/24 overlaps 10.50.0.7/32 of Node "+node.Name)
	if err := s.c.Client.Delete(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	s.network("beside-node", "10.50.0.0/24")

	s.network("own", "10.60.0.0/24")
	s.create(newNetwork("shared", "10.60.0.0/16", "", names.NetworkNotRemapped, names.NetworkShared))
	s.refusedNetwork("shared", reasonConflict, "10.60.0.0/16 overlaps 10.60.0.0/24 of Network "+s.where+"/own")
	testkit.Update(t, s.c.Client, &ipamv1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: s.where, Name: "own"}}, func(n *ipamv1alpha1.Network) {
		n.Labels[names.NetworkShared] = "true"
	})
	s.network("shared", "10.60.0.0/16")
}

// The API server takes prefixes that are none. Nobody else suffers from one.
func TestInvalidPrefix(t *testing.T) {
	local := []string{names.NetworkNotRemapped, names.NetworkShared}
	s := newTestEnv(t, usualPools, newNetwork("zeros", "010.42.0.0/16", names.NetworkTypePod, local...), newNetwork("mapped", "::ffff:10.43.0.0/112", names.NetworkTypePod, local...))
	s.refusedNetwork("zeros", reasonInvalidCIDR, `"010.42.0.0/16" is not written as a prefix is`)
	s.refusedNetwork("mapped", reasonInvalidCIDR, `"::ffff:10.43.0.0/112" is not written as a prefix is`)
	s.create(newNetwork("rome-pod", "10.50.0.0/16", ""))
	s.network("rome-pod", "10.50.0.0/16")
}

// An address is of the Network that the IP names, else of the external CIDR, whose first address is kept. A process that starts
// anew knows what was granted.
func TestAllocationsPersist(t *testing.T) {
	more := newNetwork("more", "10.9.0.0/24", "")
	s := newTestEnv(t, usualPools, append(installed(), more)...)
	s.create(&ipamv1alpha1.IP{ObjectMeta: metav1.ObjectMeta{Name: "outside"}, Spec: ipamv1alpha1.IPSpec{IP: "192.0.2.1"}})
	s.create(&ipamv1alpha1.IP{ObjectMeta: metav1.ObjectMeta{Name: "other"}, Spec: ipamv1alpha1.IPSpec{
		IP: "192.0.2.2", NetworkRef: &corev1.ObjectReference{Namespace: s.where, Name: "more"},
	}})
	s.ip("outside", "10.70.0.1")
	s.ip("other", "10.9.0.0")
	labelled := &ipamv1alpha1.IP{}
	if err := s.c.Client.Get(t.Context(), client.ObjectKey{Namespace: s.where, Name: "other"}, labelled); err != nil {
		t.Fatal(err)
	}
	if labelled.Labels[names.NetworkNamespace] != s.where || labelled.Labels[names.NetworkName] != "more" {
		t.Errorf("labels = %v", labelled.Labels)
	}

	s.stop()
	s.start(usualPools)
	s.create(&ipamv1alpha1.IP{ObjectMeta: metav1.ObjectMeta{Name: "later"}, Spec: ipamv1alpha1.IPSpec{IP: "192.0.2.3"}})
	s.ip("later", "10.70.0.2")
	s.ip("outside", "10.70.0.1")
}

// A Network that IPs have addresses of stays until they are gone.
func TestNetworkAwaitsAddresses(t *testing.T) {
	s := newTestEnv(t, usualPools, append(installed(), newNetwork("more", "10.9.0.0/24", ""))...)
	ip := &ipamv1alpha1.IP{ObjectMeta: metav1.ObjectMeta{Name: "other"}, Spec: ipamv1alpha1.IPSpec{
		IP: "192.0.2.2", NetworkRef: &corev1.ObjectReference{Namespace: s.where, Name: "more"},
	}}
	s.create(ip)
	s.ip("other", "10.9.0.0")
	n := &ipamv1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: s.where, Name: "more"}}
	if err := s.c.Client.Delete(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	s.create(newNetwork("rival", "10.9.0.0/24", "", names.NetworkNotRemapped))
	s.refusedNetwork("rival", reasonConflict, "10.9.0.0/24 overlaps 10.9.0.0/24 of Network "+s.where+"/more")
	if err := s.c.Client.Delete(t.Context(), ip); err != nil {
		t.Fatal(err)
	}
	s.network("rival", "10.9.0.0/24")
	if err := s.c.Client.Get(t.Context(), client.ObjectKeyFromObject(n), n); !apierrors.IsNotFound(err) {
		t.Errorf("reading the Network = %v, want that it is gone", err)
	}
}

// No peer is shown under the address of a node. Pods may have addresses of the same prefix.
func TestNodeAddresses(t *testing.T) {
	nodeAt(t, "10.50.0.7")
	s := newTestEnv(t, []netip.Prefix{netip.MustParsePrefix("10.50.0.0/23")}, newNetwork("milan-pod", "10.50.0.0/24", ""))
	s.network("milan-pod", "10.50.1.0/24")
	s.create(newNetwork("pod-cidr", "10.50.0.0/24", names.NetworkTypePod, names.NetworkNotRemapped, names.NetworkShared))
	s.network("pod-cidr", "10.50.0.0/24")
}

// Each physical node has an address from the end of the external CIDR, for as long as it lives.
func TestNodeIPs(t *testing.T) {
	s := newTestEnv(t, usualPools)
	first, second, virtual := nodeAt(t, "172.29.1.1"), nodeAt(t, "172.29.1.2"), nodeAt(t, "172.29.1.3")
	testkit.Update(t, s.c.Client, virtual, func(n *corev1.Node) { n.Labels = map[string]string{names.NodeType: names.NodeTypeVirtualNode} })
	for _, obj := range installed() {
		s.create(obj)
	}
	one, two := s.node(first, "10.70.255."), s.node(second, "10.70.255.")
	if one == two {
		t.Errorf("both nodes have %s", one)
	}

	// It keeps its address while the processes come and go.
	s.stop()
	s.start(usualPools)
	third := nodeAt(t, "172.29.1.4")
	if got := s.node(third, "10.70.255."); got == one || got == two {
		t.Errorf("the third node has %s, as another one", got)
	}
	if got := s.node(first, "10.70.255."); got != one {
		t.Errorf("the node had %s and has %s", one, got)
	}
	testkit.Eventually(t, limit, func() error { // it became one when it may have had an InternalNode
		if err := s.c.Client.Get(t.Context(), client.ObjectKeyFromObject(virtual), &networkingv1beta1.InternalNode{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the virtual node has an InternalNode (%v)", err)
		}
		return nil
	})
	// IPs do not get what is kept for nodes.
	ip := &ipamv1alpha1.IP{ObjectMeta: metav1.ObjectMeta{Name: "one"}, Spec: ipamv1alpha1.IPSpec{IP: "192.0.2.1"}}
	s.create(ip)
	s.ip("one", "10.70.0.1")

	// What somebody deletes, or moves out of the external CIDR, is made anew.
	if err := s.c.Client.Delete(t.Context(), &networkingv1beta1.InternalNode{ObjectMeta: metav1.ObjectMeta{Name: first.Name}}); err != nil {
		t.Fatal(err)
	}
	s.node(first, one)
	testkit.Update(t, s.c.Client, &networkingv1beta1.InternalNode{ObjectMeta: metav1.ObjectMeta{Name: second.Name}}, func(n *networkingv1beta1.InternalNode) {
		n.Spec.Interface.Node.IP = "10.99.0.1"
	})
	s.node(second, "10.70.255.")

	// They go with the external CIDR.
	if err := s.c.Client.Delete(t.Context(), &ipamv1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: s.where, Name: "external-cidr"}}); err != nil {
		t.Fatal(err)
	}
	noInternalNodes := func() error {
		var list networkingv1beta1.InternalNodeList
		if err := s.c.Client.List(t.Context(), &list); err != nil || len(list.Items) > 0 {
			return fmt.Errorf("%d InternalNodes are left (%v)", len(list.Items), err)
		}
		return nil
	}
	testkit.Eventually(t, limit, noInternalNodes)
	s.create(&networkingv1beta1.InternalNode{ObjectMeta: metav1.ObjectMeta{Name: first.Name}}) // by a write that the cache showed later
	testkit.Eventually(t, limit, noInternalNodes)
}

func TestNodeWithoutAddress(t *testing.T) {
	nodes := []*corev1.Node{nodeAt(t, "172.29.1.1"), nodeAt(t, "172.29.1.2"), nodeAt(t, "172.29.1.3"), nodeAt(t, "172.29.1.4")}
	external := newNetwork("external-cidr", "10.70.0.0/30", names.NetworkTypeExternal)
	external.Spec.PreAllocated = 1
	s := newTestEnv(t, usualPools, external)
	var with, without []*networkingv1beta1.InternalNode
	testkit.Eventually(t, limit, func() error {
		with, without = nil, nil
		for _, node := range nodes {
			n := &networkingv1beta1.InternalNode{}
			if err := s.c.Client.Get(t.Context(), client.ObjectKeyFromObject(node), n); err != nil {
				return err
			}
			if n.Spec.Interface.Node.IP == "" {
				without = append(without, n)
			} else {
				with = append(with, n)
			}
		}
		if len(with) != 3 {
			return fmt.Errorf("%d nodes have an address, want 3", len(with))
		}
		return nil
	})
	taken := "no address is free in 10.70.0.0/30 of Network " + s.where + "/external-cidr"
	s.refused(without[0], without[0].Name, reasonExhausted, taken, func() []metav1.Condition { return without[0].Status.Conditions })
	testkit.WantEvent(t, s.c, without[0], reasonExhausted, taken)

	gone := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: with[0].Name}}
	if err := s.c.Client.Delete(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, limit, func() error { // who still knows the node makes its InternalNode anew
		if err := s.seen.Get(t.Context(), client.ObjectKeyFromObject(gone), gone); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the controllers still know the node (%v)", err)
		}
		return nil
	})
	if err := s.c.Client.Delete(t.Context(), with[0]); err != nil {
		t.Fatal(err)
	}
	s.node(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: without[0].Name}}, string(with[0].Spec.Interface.Node.IP))
}

// node waits until a node has an address that begins so, and returns it.
func (s *testEnv) node(node *corev1.Node, begins string) string {
	s.Helper()
	n := &networkingv1beta1.InternalNode{}
	testkit.Eventually(s.T, limit, func() error {
		if err := s.c.Client.Get(s.Context(), client.ObjectKeyFromObject(node), n); err != nil {
			return err
		}
		if i := n.Spec.Interface; !strings.HasPrefix(string(i.Node.IP), begins) || i.Gateway.Name != names.FabricDevice {
			return fmt.Errorf("the InternalNode has %+v", i)
		}
		if !apimeta.IsStatusConditionTrue(n.Status.Conditions, ipamv1alpha1.ConditionAllocated) {
			return fmt.Errorf("its conditions are %v", n.Status.Conditions)
		}
		return nil
	})
	return string(n.Spec.Interface.Node.IP)
}

// IPs follow the external CIDR without hands, keep their host bits, and their addresses while it stays.
func TestExternalCIDRReplaced(t *testing.T) {
	s := newTestEnv(t, usualPools, installed()...)
	s.network("external-cidr", "10.70.0.0/16")
	for _, ip := range []struct{ name, address string }{{"one", "10.70.0.1"}, {"two", "10.70.0.2"}} {
		s.create(&ipamv1alpha1.IP{ObjectMeta: metav1.ObjectMeta{Name: ip.name}, Spec: ipamv1alpha1.IPSpec{IP: "192.0.2.7"}})
		s.ip(ip.name, ip.address)
	}
	old := &ipamv1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: s.where, Name: "external-cidr", Annotations: map[string]string{names.Preinstalled: "true"}}}
	if err := s.c.Client.Delete(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	s.create(newNetwork("of-an-observer", "10.90.0.0/16", "")) // is granted after the deletion was seen
	s.network("of-an-observer", "10.90.0.0/16")
	s.ip("one", "10.70.0.1")
	// One made meanwhile does not take the host bits of those that are there.
	s.create(&ipamv1alpha1.IP{ObjectMeta: metav1.ObjectMeta{Name: "three"}, Spec: ipamv1alpha1.IPSpec{IP: "192.0.2.8"}})
	external := newNetwork("external-cidr", "10.99.0.0/16", names.NetworkTypeExternal)
	external.Annotations, external.Spec.PreAllocated = old.Annotations, 1
	s.create(external)
	s.network("external-cidr", "10.99.0.0/16")
	movedTo := func(name string, ip networkingv1beta1.IP, cidr networkingv1beta1.CIDR, previous ...networkingv1beta1.IP) {
		t.Helper()
		testkit.Eventually(t, limit, func() error {
			got := &ipamv1alpha1.IP{}
			if err := s.c.Client.Get(t.Context(), client.ObjectKey{Namespace: s.where, Name: name}, got); err != nil {
				return err
			}
			if got.Status.IP != ip || got.Status.CIDR != cidr || !slices.Equal(got.Status.PreviousIPs, previous) || !apimeta.IsStatusConditionTrue(got.Status.Conditions, ipamv1alpha1.ConditionAllocated) {
				return fmt.Errorf("%s has the status %+v", name, got.Status)
			}
			return nil
		})
	}
	movedTo("one", "10.99.0.1", "10.99.0.0/16", "10.70.0.1")
	movedTo("two", "10.99.0.2", "10.99.0.0/16", "10.70.0.2")
	movedTo("three", "10.99.0.3", "10.99.0.0/16")

	// A range that contains the present one takes nothing from another Network, also if no other may be granted.
	if err := s.c.Client.Delete(t.Context(), external); err != nil {
		t.Fatal(err)
	}
	larger := newNetwork("external-cidr", "10.98.0.0/15", names.NetworkTypeExternal, names.NetworkNotRemapped)
	larger.Spec.PreAllocated = 1
	s.create(larger)
	s.network("external-cidr", "10.98.0.0/15")
	movedTo("one", "10.99.0.1", "10.99.0.0/16", "10.70.0.1")
	movedTo("three", "10.99.0.3", "10.99.0.0/16")
}

// A Network that takes the place of another gets its prefix, as soon as that one is gone.
func TestPreferredCIDR(t *testing.T) {
	s := newTestEnv(t, usualPools, installed()...)
	s.create(newNetwork("old", "10.9.0.0/16", ""))
	s.network("old", "10.9.0.0/16")
	next := newNetwork("next", "10.99.0.0/16", "")
	next.Annotations = map[string]string{names.PreferredCIDR: "10.9.0.0/16"}
	s.create(next)
	s.create(newNetwork("of-an-observer", "10.90.0.0/16", "")) // is granted after the new Network was seen
	s.network("of-an-observer", "10.90.0.0/16")
	if err := s.c.Client.Delete(t.Context(), &ipamv1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: s.where, Name: "old"}}); err != nil {
		t.Fatal(err)
	}
	s.network("next", "10.9.0.0/16")
}

// The newest previous addresses are kept, each once.
func TestWithPrevious(t *testing.T) {
	var got []networkingv1beta1.IP
	for _, ip := range []networkingv1beta1.IP{"10.1.0.1", "10.2.0.1", "10.1.0.1", "10.3.0.1", "10.4.0.1"} {
		got = withPrevious(ip, got)
	}
	if want := []networkingv1beta1.IP{"10.4.0.1", "10.3.0.1", "10.1.0.1"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
