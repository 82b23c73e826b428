// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	netv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/ctl/ctltest"
	"liqo.io/liqo/internal/ctl/diagnose"
	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
	"liqo.io/liqo/test/faults"
)

// site is the network of one cluster.
type site struct {
	fabric   *appsv1.DaemonSet
	pod      *corev1.Pod // of the fabric
	internal *networkingv1beta1.InternalNode
	services *ipamv1alpha1.Network
}

var metricsPorts = []corev1.ContainerPort{{Name: "metrics", ContainerPort: 8082}}

// lendSite gives a cluster a node with its fabric, for the peer.
func lendSite(t *testing.T, c *testkit.ControlPlane, liqo, node, other string) *site {
	t.Helper()
	s := &site{}
	ctltest.LendWithStatus(t, c, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, ctltest.ReadyNode("192.0.2.7"))
	labels := map[string]string{names.AppPartOf: "liqo", names.AppName: "fabric"}
	s.fabric = &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: liqo, Name: "liqo-fabric", Labels: labels}, Spec: appsv1.DaemonSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "fabric", Image: "liqo"}}}},
	}}
	ctltest.LendWithStatus(t, c, s.fabric, func(d *appsv1.DaemonSet) { d.Status.DesiredNumberScheduled, d.Status.CurrentNumberScheduled = 1, 1 })
	s.pod = newPod(liqo, "liqo-fabric-x", node, labels)
	s.pod.Spec.Containers[0].Ports = metricsPorts
	ctltest.LendWithStatus(t, c, s.pod, setReady)
	s.internal = &networkingv1beta1.InternalNode{ObjectMeta: metav1.ObjectMeta{Name: node}}
	s.internal.Spec.Interface.Gateway.Name, s.internal.Spec.Interface.Node.IP = "liqo.fabric", "10.70.0.5"
	ctltest.LendWithStatus(t, c, s.internal, func(n *networkingv1beta1.InternalNode) {
		n.Status.Peers = []networkingv1beta1.InternalNodePeer{{ClusterID: other, Value: networkingv1beta1.Connected, Since: metav1.Now()}}
	})
	for kind, cidr := range map[string]networkingv1beta1.CIDR{names.NetworkTypePod: "10.200.0.0/16", names.NetworkTypeService: "10.80.0.0/16", names.NetworkTypeExternal: "10.70.0.0/16"} {
		n := &ipamv1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: liqo, Name: kind, Labels: map[string]string{names.NetworkType: kind}}, Spec: ipamv1alpha1.NetworkSpec{CIDR: cidr}}
		ctltest.LendWithStatus(t, c, n, func(n *ipamv1alpha1.Network) { n.Status.CIDR = cidr })
		if kind == names.NetworkTypeService {
			s.services = n
		}
	}
	return s
}

// road is a pair whose networks are connected: client, on a node of rome, reaches web, in milan.
type road struct {
	*pair
	back        *ctltest.Peering // of milan with rome
	here, there *site
	client      *corev1.Pod
}

func newRoad(t *testing.T) *road {
	t.Helper()
	r := &road{pair: newPair(t)}
	r.back = ctltest.LendPeering(t, r.milan, "rome")
	r.here, r.there = lendSite(t, r.rome, r.local.LiqoNamespace, "worker", "milan"), lendSite(t, r.milan, r.remote.LiqoNamespace, "worker-2", "rome")
	r.client = newPod(r.shop, "client", "worker", nil)
	ctltest.LendWithStatus(t, r.rome, r.client, withAddress("10.200.1.5"))
	testkit.UpdateStatus(t, r.rome.Client, r.pod, withAddress("10.71.2.7"))
	testkit.UpdateStatus(t, r.milan.Client, r.copy, withAddress("10.200.2.7"))
	testkit.Update(t, r.milan.Client, r.copy, func(pod *corev1.Pod) { pod.Labels = map[string]string{names.ManagedBy: names.ManagedByShadowPod} })
	testkit.Update(t, r.rome.Client, r.slice, func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Addresses = []string{"10.71.2.7"} })
	return r
}

func withAddress(ip string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		setReady(pod)
		pod.Status.PodIP, pod.Status.PodIPs = ip, []corev1.PodIP{{IP: ip}}
	}
}

func (r *road) trace(t *testing.T, from, to string, asks bool) *diagnose.Explanation {
	t.Helper()
	trace := &tracer{local: r.local, remote: r.remote, namespace: r.shop}
	if !asks {
		trace.remote = nil
	}
	e, err := trace.traceNames(t.Context(), from, to)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// textOf returns the printed hops, with the namespaces of the test as shop and shop-rome.
func (r *road) textOf(e *diagnose.Explanation) string {
	var stdout bytes.Buffer
	printChains(ui.NewPrinter(strings.NewReader(""), &stdout, &bytes.Buffer{}), e.Chains)
	text := strings.NewReplacer(r.shopOf, "shop-rome", r.shop, "shop").Replace(stdout.String())
	_, text, _ = strings.Cut(text, "-\n") // without the rule, which is as long as the names
	return text
}

func TestTraceHops(t *testing.T) {
	r := newRoad(t)
	const there = `√ milan: the gateway translates it (10.71.1.5 > 10.200.2.7)
√ milan: the fabric carries it to the node (10.71.1.5 > 10.200.2.7, worker-2 and gateway 10.200.1.77)
√ milan: peers reach the pod
√ milan: it arrives (10.71.1.5 > 10.200.2.7)

`
	const here = `√ rome: the pod sends it (10.200.1.5 > 10.71.2.7)
√ rome: the fabric carries it to the gateway (10.200.1.5 > 10.71.2.7, worker and gateway 10.200.1.77)
√ rome: the gateway translates it (10.200.1.5 > 10.200.2.7 into the tunnel)
√ rome: the tunnel carries it
`
	for name, tc := range map[string]struct {
		from, to string
		asks     bool
		want     string
	}{
		"pod":                 {"client", "web", true, here + there},
		"address":             {"client", "10.71.2.7", true, here + there},
		"other_namespace":     {"client", "web." + r.shop, true, here + there},
		"without_provider":    {"client", "web", false, here + "· milan: its hops: not asked, see --remote-kubeconfig (? > 10.200.2.7)\n\n"},
		"from_provider":       {"web", "client", true, strings.NewReplacer("10.200.1.5 > 10.71.2.7", "10.200.2.7 > 10.71.1.5", "10.200.1.5 > 10.200.2.7", "10.200.2.7 > 10.200.1.5", "rome", "milan", "worker", "worker-2").Replace(here) + strings.NewReplacer("10.71.1.5 > 10.200.2.7", "10.71.2.7 > 10.200.1.5", "milan", "rome", "worker-2", "worker").Replace(there)},
		"within_the_cluster":  {"client", "10.200.1.5", true, "√ the pod sends it (10.200.1.5 > 10.200.1.5)\n√ it arrives by the CNI of this cluster (10.200.1.5 > 10.200.1.5)\n\n"},
		"within_the_provider": {"web", "web", false, "· its hops: not asked, see --remote-kubeconfig (10.200.2.7 > 10.200.2.7)\n\n"},
	} {
		t.Run(name, func(t *testing.T) {
			e := r.trace(t, tc.from, tc.to, tc.asks)
			if diff := cmp.Diff(tc.want, r.textOf(e)); diff != "" || e.Stopped {
				t.Errorf("stopped is %t, -want +got:\n%s", e.Stopped, diff)
			}
		})
	}
	// A Service is traced to its endpoints.
	testkit.UpdateStatus(t, r.rome.Client, r.pod, func(pod *corev1.Pod) { pod.Status.PodIP, pod.Status.PodIPs = "", nil })
	ctltest.Lend(t, r.rome, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: r.shop, Name: "shown"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}})
	shown := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: r.shop, Name: "shown-1", Labels: map[string]string{discoveryv1.LabelServiceName: "shown"}},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.71.2.7"}}, {Addresses: []string{"10.200.1.5"}}}}
	ctltest.Lend(t, r.rome, shown)
	if e := r.trace(t, "client", "shown", true); e.Stopped || len(e.Chains) != 2 || e.Object != "Pod "+r.shop+"/client to Service "+r.shop+"/shown" {
		t.Errorf("%+v", e)
	}
	testkit.UpdateStatus(t, r.rome.Client, r.pod, withAddress("10.71.2.7"))
	for name, want := range map[string]string{"nothing": `no pod or Service "nothing"`, "shown": "packets begin at a pod"} {
		trace := &tracer{local: r.local, namespace: r.shop}
		if _, err := trace.traceNames(t.Context(), name, "web"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A host of the provider is reached by an IP.
	if e := r.trace(t, "client", "10.72.0.21", true); e.Stop() == nil || e.Stop().Findings[0].Object != "address 10.70.0.21" {
		t.Error(r.textOf(e))
	}
	ctltest.LendWithStatus(t, r.milan, &ipamv1alpha1.IP{ObjectMeta: metav1.ObjectMeta{Namespace: r.shopOf, Name: "host"}, Spec: ipamv1alpha1.IPSpec{IP: "192.0.2.50"}}, func(ip *ipamv1alpha1.IP) { ip.Status.IP = "10.70.0.21" })
	if e := r.trace(t, "client", "10.72.0.21", true); e.Stopped {
		t.Error(r.textOf(e))
	}
	// A pod of the provider reaches a host of the consumer by the IP, not by its own address.
	if e := r.trace(t, "web", "192.0.2.50", true); e.Stop() == nil || !strings.Contains(r.textOf(e), "it is in no network of this cluster or a peer") {
		t.Error(r.textOf(e))
	}
	shownHost := &ipamv1alpha1.IP{ObjectMeta: metav1.ObjectMeta{Namespace: r.shop, Name: "host"}, Spec: ipamv1alpha1.IPSpec{IP: "192.0.2.50"}}
	ctltest.Lend(t, r.rome, shownHost)
	if e := r.trace(t, "web", "192.0.2.50", true); e.Stop() == nil || !strings.Contains(r.textOf(e), "IP shop/host: peers have no address for 192.0.2.50 yet") {
		t.Error(r.textOf(e))
	}
	testkit.UpdateStatus(t, r.rome.Client, shownHost, func(ip *ipamv1alpha1.IP) { ip.Status.IP = "10.70.0.22" })
	if e := r.trace(t, "web", "192.0.2.50", true); e.Stop() == nil || !strings.Contains(r.textOf(e), "IP shop/host: peers use status.ip 10.70.0.22 instead of 192.0.2.50") {
		t.Error(r.textOf(e))
	}
	if e := r.trace(t, "client", "192.0.2.50", true); e.Stopped { // its own pods need no IP
		t.Error(r.textOf(e))
	}
	// Pods of two providers reach each other in two parts.
	if _, err := (&tracer{near: &diagnose.Scene{ClusterID: "rome"}}).traceTo(t.Context(), diagnose.End{Cluster: "milan"}, diagnose.End{Cluster: "turin"}); err == nil {
		t.Error("a way between two providers is traced at once")
	}
	// A Service is found by its address, and an address without a Service or pod is a fault.
	var service corev1.Service
	if err := r.rome.Client.Get(t.Context(), client.ObjectKey{Namespace: r.shop, Name: "shown"}, &service); err != nil {
		t.Fatal(err)
	}
	testkit.UpdateStatus(t, r.rome.Client, r.here.services, func(n *ipamv1alpha1.Network) {
		n.Status.CIDR = networkingv1beta1.CIDR(netip.PrefixFrom(netip.MustParseAddr(service.Spec.ClusterIP), 24).Masked().String())
	})
	if e := r.trace(t, "client", service.Spec.ClusterIP, true); e.Stopped || len(e.Chains) != 2 {
		t.Error(r.textOf(e))
	}
	vacant := vacantAddress(t, r.rome, service.Spec.ClusterIP)
	for to, want := range map[string]string{
		vacant: "no Service has it", "10.200.1.99": "no pod has this address", "10.71.2.99": "no pod has this address", "192.0.2.7": "", // a node
	} {
		e, got := r.trace(t, "client", to, true), ""
		if stop := e.Stop(); stop != nil {
			got = stop.Failure().Message
		}
		if got != want {
			t.Errorf("%s: %q, want %q:\n%s", to, got, want, r.textOf(e))
		}
	}
	// Without the provider, nothing is said about its pods.
	if e := r.trace(t, "client", "10.71.2.99", false); e.Stopped {
		t.Error(r.textOf(e))
	}
	// NetworkPolicies are named, since they may drop what arrives.
	ctltest.Lend(t, r.milan, &netv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: r.shopOf, Name: "deny"}})
	e := r.trace(t, "client", "web", true)
	if e.Stopped || !strings.Contains(r.textOf(e), "‼ milan: peers reach the pod\n    NetworkPolicy shop-rome/deny: it selects the pod") {
		t.Error(r.textOf(e))
	}
	ctltest.Lend(t, r.rome, &netv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: r.shop, Name: "leave"}, Spec: netv1.NetworkPolicySpec{PolicyTypes: []netv1.PolicyType{netv1.PolicyTypeEgress}}})
	e = r.trace(t, "client", "web", true)
	if e.Stopped || !strings.Contains(r.textOf(e), "10.71.2.7)\n    NetworkPolicy shop/leave: it selects the pod: only what its egress rules allow leaves") {
		t.Error(r.textOf(e))
	}
}

// vacantAddress returns an address beside another one that no Service has.
func vacantAddress(t *testing.T, c *testkit.ControlPlane, beside string) string {
	t.Helper()
	var all corev1.ServiceList
	if err := c.Client.List(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	prefix := netip.PrefixFrom(netip.MustParseAddr(beside), 24).Masked()
	for a := prefix.Addr().Next(); prefix.Contains(a); a = a.Next() {
		if !slices.ContainsFunc(all.Items, func(s corev1.Service) bool { return s.Spec.ClusterIP == a.String() }) {
			return a.String()
		}
	}
	t.Fatal("all addresses are used")
	return ""
}

// A user of namespaces sees the hops to what is in them, and what is not known of the rest.
func TestTraceOfNamespace(t *testing.T) {
	r := newRoad(t)
	own := testkit.Namespace(t, r.rome, "own", nil)
	newService := func(namespace string) *corev1.Service {
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "shown"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
		ctltest.Lend(t, r.rome, s)
		return s
	}
	service, hidden := newService(r.shop), newService(testkit.Namespace(t, r.rome, "hidden", nil))
	ctltest.Lend(t, r.rome, &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: r.shop, Name: "shown-1", Labels: map[string]string{discoveryv1.LabelServiceName: "shown"}},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.200.1.5"}}}})
	ctltest.LendWithStatus(t, r.rome, newPod(own, "sender", "worker", nil), withAddress("10.200.1.6"))
	testkit.UpdateStatus(t, r.rome.Client, r.here.services, func(n *ipamv1alpha1.Network) { n.Status.CIDR = "10.96.0.0/16" /* of testkit */ })
	user := r.shop + "-user"
	read := []string{"get", "list"}
	for _, namespace := range []string{r.shop, own} {
		testkit.Allow(t, r.rome, namespace, user, rbacv1.PolicyRule{APIGroups: []string{"", discoveryv1.GroupName, netv1.GroupName}, Resources: []string{"pods", "services", "endpointslices", "networkpolicies"}, Verbs: read})
	}
	testkit.Allow(t, r.rome, "", user, rbacv1.PolicyRule{APIGroups: []string{liqov1beta1.GroupVersion.Group, networkingv1beta1.GroupVersion.Group, ipamv1alpha1.GroupVersion.Group}, Resources: []string{"*"}, Verbs: read},
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: read})
	config := rest.CopyConfig(r.rome.Config)
	config.Impersonate.UserName = user
	c, err := client.NewWithWatch(config, client.Options{Scheme: r.rome.Client.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	r.local.Kube = c
	for _, tc := range []struct {
		namespace, from, to string
		notes               int
		unchecked           bool
	}{
		{r.shop, "client", "svc/shown", 0, false},
		{own, "sender", "svc/shown." + r.shop, 0, false},
		{r.shop, "client", service.Spec.ClusterIP, 0, false},
		{r.shop, "client", "10.200.1.5", 0, false},
		{r.shop, "client", "10.200.1.6", 0, true},
		{r.shop, "client", hidden.Spec.ClusterIP, 1, true},
	} {
		testkit.Eventually(t, 3*time.Minute, func() error { // the API server learns of rights by watches of its own
			trace := &tracer{local: r.local, namespace: tc.namespace}
			e, err := trace.traceNames(t.Context(), tc.from, tc.to)
			if err != nil {
				return err
			}
			text := r.textOf(e)
			if e.Stopped || !strings.Contains(text, "it arrives by the CNI") || strings.Contains(text, "Pod: not checked") != tc.unchecked || len(trace.notes) != tc.notes {
				return fmt.Errorf("%s to %s, with notes %q:\n%s", tc.from, tc.to, trace.notes, text)
			}
			return nil
		})
	}
}

// A pod and a Service of one name are told apart by their kind.
func TestTraceKinds(t *testing.T) {
	r := newRoad(t)
	for i := range mostEndpoints + 2 {
		testkit.Update(t, r.rome.Client, r.slice, func(s *discoveryv1.EndpointSlice) {
			s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{fmt.Sprintf("10.71.2.%d", 100+i)}})
		})
	}
	for to, want := range map[string]struct {
		object string
		notes  int
	}{
		"web":               {"Pod " + r.shop + "/web", 1},
		"pod/web":           {"Pod " + r.shop + "/web", 0},
		"svc/web":           {"Service " + r.shop + "/web", 1},
		"Service/web":       {"Service " + r.shop + "/web", 1},
		"svc/web." + r.shop: {"Service " + r.shop + "/web", 1},
	} {
		trace := &tracer{local: r.local, namespace: r.shop}
		e, err := trace.traceNames(t.Context(), "pod/client", to)
		if err != nil {
			t.Fatal(err)
		}
		if _, object, _ := strings.Cut(e.Object, " to "); object != want.object || len(trace.notes) != want.notes {
			t.Errorf("%s: %s, notes %q", to, e.Object, trace.notes)
		}
	}
	for _, to := range []string{"svc/client", "pod/nothing"} {
		if _, err := (&tracer{local: r.local, namespace: r.shop}).traceNames(t.Context(), "client", to); err == nil || !strings.Contains(err.Error(), "is in namespace") {
			t.Errorf("%s: %v", to, err)
		}
	}
	for text, good := range map[string]bool{"svc/web": true, "po/web.shop": true, "deploy/web": false, "svc/": false, "svc/a/b": false, "10.0.0.1": true} {
		if err := checkNameOrAddress(text); (err == nil) != good {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// Peers reach a pod of an offloaded namespace, also if only offloaded pods are reached.
func TestTraceToConsumer(t *testing.T) {
	r := newRoad(t)
	testkit.Update(t, r.rome.Client, r.here.fabric, func(d *appsv1.DaemonSet) {
		d.Spec.Template.Spec.Containers[0].Args = []string{"--peer-access=offloaded"}
	})
	ctltest.Lend(t, r.rome, &netv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: r.shop, Name: "deny"}})
	if e := r.trace(t, "web", "client", true); e.Stopped || !strings.Contains(r.textOf(e), "NetworkPolicy shop/deny: it selects the pod") {
		t.Error(r.textOf(e))
	}
	own := testkit.Namespace(t, r.rome, "own", nil)
	ctltest.LendWithStatus(t, r.rome, newPod(own, "client", "worker", nil), withAddress("10.200.1.6"))
	if e := r.trace(t, "web", "client."+own, true); e.Stop() == nil || e.Stop().Findings[0].Page != "docs/network-reach.md#what-a-peer-reaches" {
		t.Error(r.textOf(e))
	}
}

// here is a fault of an object of the consumer, hereStatus one of its status, thereStatus one of the status of an object of the provider.
func here[T client.Object](of func(*road) T, change func(T)) func(*testing.T, *road) {
	return func(t *testing.T, r *road) { testkit.Update(t, r.rome.Client, of(r), change) }
}

func hereStatus[T client.Object](of func(*road) T, change func(T)) func(*testing.T, *road) {
	return func(t *testing.T, r *road) { testkit.UpdateStatus(t, r.rome.Client, of(r), change) }
}

func thereStatus[T client.Object](of func(*road) T, change func(T)) func(*testing.T, *road) {
	return func(t *testing.T, r *road) { testkit.UpdateStatus(t, r.milan.Client, of(r), change) }
}

func notReady(kind, reason string) []metav1.Condition {
	return []metav1.Condition{{Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: "why", LastTransitionTime: metav1.Now()}}
}

// roadworks put the faults of the list into a healthy road. to is the destination, web unless another one is given.
var roadworks = map[string]struct {
	inject func(*testing.T, *road)
	to     string
}{
	"the pod that sends does not run": {inject: hereStatus(func(r *road) *corev1.Pod { return r.client }, setPending())},
	"the node has no address for peers": {inject: hereStatus(func(r *road) *networkingv1beta1.InternalNode { return r.here.internal }, func(n *networkingv1beta1.InternalNode) {
		n.Status.Conditions = notReady(ipamv1alpha1.ConditionAllocated, "Exhausted")
	})},
	"the fabric of a node does not run": {inject: hereStatus(func(r *road) *corev1.Pod { return r.here.pod }, setPending())},
	"packets between a node and the gateway get lost": {inject: func(t *testing.T, r *road) {
		testkit.UpdateStatus(t, r.rome.Client, r.here.internal, func(n *networkingv1beta1.InternalNode) { n.Status.Peers[0].Value = networkingv1beta1.ConnectionError })
		testkit.UpdateStatus(t, r.rome.Client, r.peering.Connection, func(c *networkingv1beta1.Connection) {
			c.Status.Value, c.Status.Reach, c.Status.FailedNodes = networkingv1beta1.ConnectionError, networkingv1beta1.ReachSome, []string{"worker"}
		})
	}},
	"the Configuration is gone":                       {inject: here(func(r *road) *networkingv1beta1.Configuration { return r.peering.Configuration }, func(c *networkingv1beta1.Configuration) { c.Labels = nil })},
	"the local prefix of a peer overlaps another one": {inject: hereStatus(func(r *road) *ipamv1alpha1.Network { return r.here.services }, func(n *ipamv1alpha1.Network) { n.Status.CIDR = "10.71.128.0/17" })},
	"a gateway has no template": {inject: hereStatus(func(r *road) *networkingv1beta1.GatewayClient { return r.peering.GatewayClient }, func(g *networkingv1beta1.GatewayClient) {
		g.Status.Conditions = notReady(networkingv1beta1.ConditionGatewayReady, "TemplateNotFound")
	})},
	"two gateways are for one peer": {inject: func(t *testing.T, r *road) {
		ctltest.LendWithStatus(t, r.rome, &networkingv1beta1.GatewayServer{ObjectMeta: metav1.ObjectMeta{Namespace: r.peering.Namespace, Name: "second", Labels: map[string]string{names.RemoteClusterID: "milan"}}}, func(g *networkingv1beta1.GatewayServer) {
			g.Status.InternalEndpoint = &networkingv1beta1.InternalGatewayEndpoint{IP: new(networkingv1beta1.IP("10.200.1.78"))}
		})
	}},
	"the key of the peer is missing": {inject: here(func(r *road) *networkingv1beta1.PublicKey { return r.peering.PublicKey }, func(k *networkingv1beta1.PublicKey) { k.Labels = nil })},
	"no packet passes the tunnel": {inject: func(t *testing.T, r *road) {
		testkit.UpdateStatus(t, r.rome.Client, r.peering.Connection, func(c *networkingv1beta1.Connection) {
			c.Status.Value, c.Status.Lost = networkingv1beta1.ConnectionError, networkingv1beta1.LostAll
		})
		testkit.UpdateStatus(t, r.rome.Client, r.here.internal, func(n *networkingv1beta1.InternalNode) { n.Status.Peers[0].Value = networkingv1beta1.ConnectionError })
	}},
	"large packets are lost in the tunnel": {inject: hereStatus(func(r *road) *networkingv1beta1.Connection { return r.peering.Connection }, func(c *networkingv1beta1.Connection) {
		c.Status.Value, c.Status.Lost = networkingv1beta1.ConnectionError, networkingv1beta1.LostLarge
	})},
	"the gateway of the provider is not ready": {inject: thereStatus(func(r *road) *networkingv1beta1.GatewayClient { return r.back.GatewayClient }, func(g *networkingv1beta1.GatewayClient) {
		g.Status.Conditions = notReady(networkingv1beta1.ConditionGatewayReady, "Pending")
	})},
	"the ranges of the consumer have no prefix in the provider": {inject: thereStatus(func(r *road) *networkingv1beta1.Configuration { return r.back.Configuration }, func(c *networkingv1beta1.Configuration) {
		c.Status.Conditions = notReady(networkingv1beta1.ConditionNetworkCIDRsConfigured, "WaitingForNetworks")
	})},
	"the fabric of a node of the provider does not run": {inject: thereStatus(func(r *road) *corev1.Pod { return r.there.pod }, setPending())},
	"peers may not reach the pod": {inject: func(t *testing.T, r *road) {
		testkit.Update(t, r.milan.Client, r.there.fabric, func(d *appsv1.DaemonSet) {
			d.Spec.Template.Spec.Containers[0].Args = []string{"--peer-access=offloaded"}
		})
		ctltest.LendWithStatus(t, r.milan, newPod(r.shopOf, "own", "worker-2", nil), withAddress("10.200.2.9"))
	}, to: "10.71.2.9"},
	"the pod that receives does not run": {inject: thereStatus(func(r *road) *corev1.Pod { return r.copy }, setPending())},
	"the Service has no ready endpoint": {inject: func(t *testing.T, r *road) {
		ctltest.Lend(t, r.rome, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: r.shop, Name: "empty"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}})
	}, to: "empty"},
	"the address is no peer's": {inject: func(*testing.T, *road) {}, to: "192.0.2.99"},
}

func TestTraceFaults(t *testing.T) {
	for _, fault := range faults.All {
		if fault.Command != "trace" {
			continue
		}
		t.Run(strings.ReplaceAll(fault.Name, " ", "_"), func(t *testing.T) {
			works, known := roadworks[fault.Name]
			if !known {
				t.Fatal("the fault is not injected")
			}
			r := newRoad(t)
			works.inject(t, r)
			to := "web"
			if works.to != "" {
				to = works.to
			}
			requests := countReads(r.local, r.remote)
			e := r.trace(t, "client", to, true)
			stop := e.Stop()
			if stop == nil || !slices.ContainsFunc(stop.Findings, func(f diagnose.Finding) bool {
				return strings.HasPrefix(f.Object, fault.Object+" ") && strings.Contains(f.Remedy, fault.Remedy) && f.Page == "docs/"+fault.Page
			}) {
				t.Errorf("%s of %s is not named:\n%s", fault.Object, fault.Page, r.textOf(e))
			}
			requests.expectOnePass(t)
		})
	}
}

// Peers reach the pods of a labelled namespace.
func TestTraceReachableNamespace(t *testing.T) {
	r := newRoad(t)
	works := roadworks["peers may not reach the pod"]
	works.inject(t, r)
	if e := r.trace(t, "client", works.to, true); e.Stop() == nil {
		t.Fatalf("peers reach the pod without a label:\n%s", r.textOf(e))
	}
	testkit.Update(t, r.milan.Client, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: r.shopOf}}, func(ns *corev1.Namespace) {
		metav1.SetMetaDataLabel(&ns.ObjectMeta, names.ReachableFromPeers, "true")
	})
	if e := r.trace(t, "client", works.to, true); e.Stop() != nil {
		t.Errorf("the label is not seen:\n%s", r.textOf(e))
	}
}
