// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/benchmark"
	"liqo.io/liqo/internal/ctl/network"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/probe"
	"liqo.io/liqo/internal/testkit"
)

// theatre is two clusters that play what a scheduler, kubelets and Liqo would do for the test of the network.
type theatre struct {
	oslo, bergen *testkit.ControlPlane
	mu           sync.Mutex
	// answer is what comes of a question; after errForEver the pod goes on asking.
	answer func(asker *corev1.Pod, target probe.Target) error
	// starts is what becomes of a pod that is to be asked.
	starts func(*corev1.Pod)
	// measure is what comes of a plan of a benchmark; after errForEver the pod goes on measuring.
	measure func(client *corev1.Pod, plan benchmark.Plan) ([]benchmark.Measured, error)
	// images are those that pods were of which are asked or ask.
	images map[string]bool
	// ports are the NodePorts that somebody answers at.
	ports map[string]net.Listener
}

const twin = "test-network-of-oslo"

// Nodes have addresses of this machine, to be asked from it.
const nodeOfOslo, nodeOfBergen = "127.0.0.2", "127.0.0.3"

// The two clusters of this story have API servers and controllers of namespaces; the rest is played.
func TestNetworkTestCommand(t *testing.T) {
	t.Parallel()
	p := newTheatre(t)
	nothingIsTriedWrongly(t, p)
	whoMayNotIsTold(t, p)
	aDryRunMakesNothing(t, p)
	allIsWell(t, p)
	whatFailsIsTold(t, p)
	theFirstFailureIsEnough(t, p)
	podsThatDoNotStartEndIt(t, p)
	anInterruptedTestIsRemoved(t, p)
	whatAKilledTestLeftIsRemoved(t, p)
	aBenchmarkIsReported(t, p)
	aBrokenPathIsTold(t, p)
	resultsOfAStrangerAreRefused(t, p)
	anInterruptedBenchmarkIsRemoved(t, p)
}

func newTheatre(t *testing.T) *theatre {
	t.Helper()
	p := &theatre{
		oslo:   testkit.NthCluster(t, 4, testkit.WithControllers("namespace-controller")),
		bergen: testkit.NthCluster(t, 5, testkit.WithControllers("namespace-controller")),
	}
	p.play(reachable)
	p.ports = map[string]net.Listener{}
	t.Cleanup(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, on := range p.ports {
			_ = on.Close()
		}
	})
	for _, one := range []struct {
		c           *testkit.ControlPlane
		id, address string
	}{{p.oslo, "oslo", nodeOfOslo}, {p.bergen, "bergen", nodeOfBergen}} {
		testkit.Create(t, one.c.Client, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "liqo"}}, identityOf(one.id, "liqo"), managerOf("liqo", "liqo:"+one.id))
		makeNode(t, one.c, one.id+"-1", one.address, nil)
		testkit.Manager(t, one.c.Config, kube.ManagerOptions{Name: "theatre-" + one.id}, func(mgr ctrl.Manager) error {
			handle := func(name string, obj client.Object, f reconcile.Func) error {
				return ctrl.NewControllerManagedBy(mgr).Named(name).For(obj).Complete(f)
			}
			err := errors.Join(
				handle("namespace", &corev1.Namespace{}, func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
					return reconcile.Result{}, p.namespace(ctx, one.c, r.Name)
				}),
				handle("pod", &corev1.Pod{}, func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
					return p.pod(ctx, one.c, r.NamespacedName)
				}),
				handle("ip", &ipamv1alpha1.IP{}, func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
					return reconcile.Result{}, allocate(ctx, one.c, r.NamespacedName)
				}),
			)
			if one.c == p.oslo {
				err = errors.Join(err, handle("offloading", &offv1beta1.NamespaceOffloading{}, p.offloading), handle("service", &corev1.Service{}, p.service))
			}
			return err
		})
	}
	return p
}

func managerOf(namespace, image string) *appsv1.Deployment {
	labels := map[string]string{names.AppName: "controller-manager", names.AppComponent: "controller-manager"}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "liqo-controller-manager", Labels: labels}}
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	d.Spec.Template.Labels = labels
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "controller-manager", Image: image}}
	return d
}

func makeNode(t *testing.T, c *testkit.ControlPlane, name, address string, labels map[string]string) {
	t.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	testkit.Create(t, c.Client, n)
	testkit.UpdateStatus(t, c.Client, n, func(n *corev1.Node) {
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	})
	// Where no controller of nodes runs, each node is made with a taint that nobody takes away.
	testkit.Update(t, c.Client, n, func(n *corev1.Node) { n.Spec.Taints = nil })
}

// connectThem says how the clusters see each other.
func connectThem(t *testing.T, p *theatre) {
	t.Helper()
	for _, one := range []struct {
		c           *testkit.ControlPlane
		other, here string
	}{{p.oslo, "bergen", "10.71.0.0/16"}, {p.bergen, "oslo", "10.72.0.0/16"}} {
		cfg := &networkingv1beta1.Configuration{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: one.other, Labels: map[string]string{names.RemoteClusterID: one.other}}}
		cfg.Spec.Remote.CIDR = networkingv1beta1.ClusterConfigCIDR{Pod: []networkingv1beta1.CIDR{"10.200.0.0/16"}, External: []networkingv1beta1.CIDR{"10.70.0.0/16"}}
		testkit.Create(t, one.c.Client, cfg)
		testkit.UpdateStatus(t, one.c.Client, cfg, func(cfg *networkingv1beta1.Configuration) {
			cfg.Status.Remote = &networkingv1beta1.ClusterConfig{CIDR: networkingv1beta1.ClusterConfigCIDR{
				Pod: []networkingv1beta1.CIDR{networkingv1beta1.CIDR(one.here)}, External: []networkingv1beta1.CIDR{"10.80.0.0/16"},
			}}
			cfg.Status.Conditions = []metav1.Condition{{
				Type: networkingv1beta1.ConditionNetworkCIDRsConfigured, Status: metav1.ConditionTrue, Reason: "Configured", LastTransitionTime: metav1.Now(), ObservedGeneration: cfg.Generation,
			}}
		})
	}
}

// play sets what comes of questions, and has pods start that are asked.
func (p *theatre) play(answer func(*corev1.Pod, probe.Target) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer, p.starts, p.images = answer, func(*corev1.Pod) {}, map[string]bool{}
}

func (p *theatre) stall(starts func(*corev1.Pod)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.starts = starts
}

func (p *theatre) seenImages() map[string]bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.images)
}

func reachable(*corev1.Pod, probe.Target) error { return nil }

var errForEver = errors.New("it goes on asking")

// namespace is the controller of ServiceAccounts.
func (p *theatre) namespace(ctx context.Context, c *testkit.ControlPlane, name string) error {
	ns := &corev1.Namespace{}
	if err := c.Client.Get(ctx, client.ObjectKey{Name: name}, ns); err != nil || !isFixture(name) {
		return client.IgnoreNotFound(err)
	}
	if ns.DeletionTimestamp != nil {
		return nil
	}
	return ignoreExistence(c.Client.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "default"}}))
}

// isFixture reports whether a namespace is of a test or of a benchmark.
func isFixture(name string) bool {
	return strings.Contains(name, "test-network") || strings.Contains(name, "bench")
}

// lentFinalizer is on what is lent, so that it is taken back whoever is first.
const lentFinalizer = "example.org/lent"

// offloading lends the namespace, and takes it back.
func (p *theatre) offloading(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	nso := &offv1beta1.NamespaceOffloading{}
	if err := p.oslo.Client.Get(ctx, r.NamespacedName, nso); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if nso.DeletionTimestamp != nil {
		if err := ignoreExistence(p.bergen.Client.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: nso.Spec.RemoteNamespaceName}})); err != nil {
			return reconcile.Result{}, err
		}
		controllerutil.RemoveFinalizer(nso, lentFinalizer)
		return reconcile.Result{}, client.IgnoreNotFound(p.oslo.Client.Update(ctx, nso))
	}
	if controllerutil.AddFinalizer(nso, lentFinalizer) {
		if err := p.oslo.Client.Update(ctx, nso); err != nil {
			return reconcile.Result{}, err
		}
	}
	if err := p.bergen.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: nso.Spec.RemoteNamespaceName}}); client.IgnoreAlreadyExists(err) != nil {
		return reconcile.Result{}, err
	}
	nso.Status.OffloadingPhase, nso.Status.ObservedGeneration = offv1beta1.ReadyOffloadingPhaseType, nso.Generation
	return reconcile.Result{}, p.oslo.Client.Status().Update(ctx, nso)
}

// service copies Services.
func (p *theatre) service(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	s := &corev1.Service{}
	if err := p.oslo.Client.Get(ctx, r.NamespacedName, s); err != nil || s.Namespace != network.TestNamespace || s.DeletionTimestamp != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	remoteService := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: twin, Name: s.Name}, Spec: corev1.ServiceSpec{
			Type: s.Spec.Type, Ports: []corev1.ServicePort{{Port: s.Spec.Ports[0].Port}}, ExternalTrafficPolicy: s.Spec.ExternalTrafficPolicy,
		},
	}
	if s.Spec.ClusterIP == corev1.ClusterIPNone {
		remoteService.Spec.ClusterIP = corev1.ClusterIPNone
	}
	if err := ignoreExistence(p.bergen.Client.Create(ctx, remoteService)); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{}, errors.Join(p.expose(nodeOfOslo, s, 0), p.expose(nodeOfBergen, remoteService, 1))
}

// allocate is the controller of IPs.
func allocate(ctx context.Context, c *testkit.ControlPlane, key client.ObjectKey) error {
	ip := &ipamv1alpha1.IP{}
	if err := c.Client.Get(ctx, key, ip); err != nil || ip.Status.IP != "" {
		return client.IgnoreNotFound(err)
	}
	ip.Status.IP, ip.Status.CIDR = "10.70.0.9", "10.70.0.0/16"
	return ignoreExistence(c.Client.Status().Update(ctx, ip))
}

// expose is kube-proxy on the node of the n-th cluster.
func (p *theatre) expose(node string, s *corev1.Service, cluster int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	address := network.HostPort(node, s.Spec.Ports[0].NodePort)
	if s.Spec.Ports[0].NodePort == 0 || p.ports[address] != nil {
		return nil
	}
	on, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	p.ports[address] = on
	var n atomic.Int64
	local := s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
	go func() { // until the test ends
		_ = http.Serve(on, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			who := n.Add(1) % 2
			if local {
				who = cluster
			}
			fmt.Fprintf(w, "server-%d-0", who)
		}))
	}()
	return nil
}

// ignoreExistence leaves out what says that something is there already, or that it is no more.
func ignoreExistence(err error) error {
	if apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil
	}
	return err
}

// pod is the kubelets, the virtual one too.
func (p *theatre) pod(ctx context.Context, c *testkit.ControlPlane, key client.ObjectKey) (reconcile.Result, error) {
	pod := &corev1.Pod{}
	if err := c.Client.Get(ctx, key, pod); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if pod.DeletionTimestamp != nil && pod.Spec.NodeName != "" {
		return reconcile.Result{}, client.IgnoreNotFound(c.Client.Delete(ctx, pod, client.GracePeriodSeconds(0)))
	}
	if pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodPending {
		return reconcile.Result{}, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if pod.Labels[network.AskerLabel] != "" || pod.Labels[network.ServerLabel] != "" { // others come and go when they like
		p.images[pod.Spec.Containers[0].Image] = true
	}
	switch {
	case pod.Labels[network.BenchLabel] != "":
		return reconcile.Result{}, p.bench(ctx, c, pod)
	case pod.Labels[network.ShownLabel] != "":
		pod.Status.Phase, pod.Status.Conditions = corev1.PodRunning, []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		return reconcile.Result{}, c.Client.Status().Update(ctx, pod)
	case pod.Labels[network.AskerLabel] != "":
		return reconcile.Result{}, p.ask(ctx, c, pod)
	case pod.Labels[network.ServerLabel] != "" && c == p.oslo:
		return reconcile.Result{}, p.start(ctx, pod)
	}
	return reconcile.Result{}, nil
}

// ask has a pod ask: p.mu is locked.
func (p *theatre) ask(ctx context.Context, c *testkit.ControlPlane, pod *corev1.Pod) error {
	args := pod.Spec.Containers[0].Args
	var targets []probe.Target
	if err := json.Unmarshal([]byte(args[len(args)-1]), &targets); err != nil {
		return err
	}
	errs := make([]error, len(targets))
	for i, target := range targets {
		if errs[i] = p.answer(pod, target); errs[i] == errForEver {
			return nil
		}
	}
	message, err := probe.NewResults(errs).Message()
	if err != nil {
		return err
	}
	pod.Status.Phase = corev1.PodSucceeded
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "reach", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: string(message)}}}}
	return c.Client.Status().Update(ctx, pod)
}

// start makes a pod ready, and tells both clusters of it: p.mu is locked.
func (p *theatre) start(ctx context.Context, pod *corev1.Pod) error {
	address := "10.200.0.7"
	if pod.Labels[network.ServerLabel] == "0" {
		on := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: "oslo-1"}}
		if err := p.oslo.Client.SubResource("binding").Create(ctx, pod, on); err != nil && !apierrors.IsConflict(err) {
			return err
		}
		if err := p.oslo.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return client.IgnoreNotFound(err)
		}
	} else {
		address = "10.71.0.7"
		copied := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: twin, Name: pod.Name}, Spec: corev1.PodSpec{NodeName: "bergen-1", Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
		if err := ignoreExistence(p.bergen.Client.Create(ctx, copied)); err != nil {
			return err
		}
	}
	for c, namespace := range map[*testkit.ControlPlane]string{p.oslo: network.TestNamespace, p.bergen: twin} {
		for _, service := range []string{"echo-1", "echo-1-headless", "echo-1-local"} {
			if err := ignoreExistence(c.Client.Create(ctx, &discoveryv1.EndpointSlice{
				ObjectMeta:  metav1.ObjectMeta{Namespace: namespace, Name: pod.Name + "-" + service, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
				AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{address}}},
			})); err != nil {
				return err
			}
		}
	}
	pod.Status.Phase, pod.Status.PodIP, pod.Status.PodIPs = corev1.PodRunning, address, []corev1.PodIP{{IP: address}}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	p.starts(pod)
	return p.oslo.Client.Status().Update(ctx, pod)
}

// try runs the test as the administrators of both clusters.
func (p *theatre) try(t *testing.T, args ...string) result {
	t.Helper()
	return p.tryUntil(t.Context(), t, p.oslo.Config, p.bergen.Config, args...)
}

func (p *theatre) tryUntil(ctx context.Context, t *testing.T, local, remote *rest.Config, args ...string) result {
	t.Helper()
	return liqoctlUntil(ctx, t, local, append([]string{"test", "network", "--remote-kubeconfigs", kubeconfigFile(t, remote)}, args...)...)
}

// checkNothingRemains of a test, in either cluster.
func (p *theatre) checkNothingRemains(t *testing.T) {
	t.Helper()
	for _, c := range []*testkit.ControlPlane{p.oslo, p.bergen} {
		var list corev1.NamespaceList
		if err := c.Client.List(t.Context(), &list); err != nil {
			t.Fatal(err)
		}
		for _, ns := range list.Items {
			if isFixture(ns.Name) {
				t.Errorf("namespace %s is left", ns.Name)
			}
		}
	}
}

func nothingIsTriedWrongly(t *testing.T, p *theatre) {
	t.Helper()
	p.play(reachable)
	liqoctl(t, p.oslo.Config, "test", "network").refuses(t, `required flag(s) "remote-kubeconfigs" not set`)
	p.try(t, "-o", "table").refuses(t, "json, yaml")
	p.try(t, "--np-nodes", "none").refuses(t, "all, workers, control-planes")
	p.try(t, "-p", t.TempDir()+"/none").refuses(t, "none")
	p.tryUntil(t.Context(), t, p.oslo.Config, p.oslo.Config).refuses(t, "the clusters must be different: "+p.oslo.Config.Host+" is named twice")
	p.try(t, "--remote-liqo-namespace", "elsewhere").refuses(t, `in the remote cluster: Liqo is not installed in namespace "elsewhere"`)
	p.try(t).refuses(t, "in the oslo cluster: no Configuration of bergen found", "liqoctl network connect")
	connectThem(t, p)
	p.try(t).refuses(t, "in the oslo cluster: no virtual node of bergen found", "liqoctl info peer bergen")
	makeNode(t, p.oslo, "bergen", "192.0.2.1", map[string]string{names.NodeType: names.NodeTypeVirtualNode, names.RemoteClusterID: "bergen"})
	foreign := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: network.TestNamespace + "-oslo"}}
	testkit.Create(t, p.bergen.Client, foreign)
	p.try(t).refuses(t, `in the bergen cluster: namespace "liqo-test-network-oslo" exists and is not of a test`)
	if err := p.bergen.Client.Get(t.Context(), client.ObjectKeyFromObject(foreign), foreign); err != nil || foreign.DeletionTimestamp != nil {
		t.Errorf("what is not of a test was deleted: %v", err)
	}
	if err := p.bergen.Client.Delete(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, time.Minute, func() error {
		err := p.bergen.Client.Get(t.Context(), client.ObjectKeyFromObject(foreign), foreign)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("namespace %s is there: %w", foreign.Name, err)
	})
	p.checkNothingRemains(t)
}

// whoMayNotIsTold of all rights that lack, before anything is made.
func whoMayNotIsTold(t *testing.T, p *theatre) {
	t.Helper()
	for _, c := range []*testkit.ControlPlane{p.oslo, p.bergen} {
		testkit.Allow(t, c, "liqo", "guest", testkit.Rule("", "configmaps", "list"))
	}
	p.tryUntil(t.Context(), t, p.oslo.User(t, "guest"), p.bergen.Config).refuses(t,
		"in the oslo cluster: you are not allowed to get namespaces, list namespaces, watch namespaces, create namespaces, delete namespaces, list nodes",
		"create pods, list serviceaccounts, watch serviceaccounts, get services, ",
		"create services, ", "create namespaceoffloadings.offloading.liqo.io in namespace liqo-test-network, list virtualnodes.offloading.liqo.io, list deployments.apps in namespace liqo\n")
	p.tryUntil(t.Context(), t, p.oslo.Config, p.bergen.User(t, "guest")).refuses(t,
		"in the bergen cluster: you are not allowed to", "create pods, list serviceaccounts, watch serviceaccounts in namespace liqo-test-network-oslo",
		"watch endpointslices.discovery.k8s.io, list pods in namespace test-network-of-oslo")
	p.checkNothingRemains(t)
}

func aDryRunMakesNothing(t *testing.T, p *theatre) {
	t.Helper()
	localProxy, remoteProxy := newCountingProxy(t, p.oslo.Config, false), newCountingProxy(t, p.bergen.Config, false)
	try := func(args ...string) result {
		t.Helper()
		r := p.tryUntil(t.Context(), t, &rest.Config{Host: localProxy.URL}, &rest.Config{Host: remoteProxy.URL}, append(args, "--dry-run", "--global-labels", "team=net")...)
		r.succeeds(t, " WARN  The pods that ask are not shown: ")
		if n, m := localProxy.writes.Swap(0), remoteProxy.writes.Swap(0); n+m > 0 {
			t.Errorf("%v: %d writes in oslo, %d in bergen", args, n, m)
		}
		return r
	}
	named := func(objs []*unstructured.Unstructured) (all []string) {
		for _, obj := range objs {
			all = append(all, obj.GetKind()+" "+obj.GetNamespace()+"/"+obj.GetName())
			if obj.GetLabels()["team"] != "net" {
				t.Errorf("the %s %s has the labels %v", obj.GetKind(), obj.GetName(), obj.GetLabels())
			}
		}
		return all
	}
	served := []string{"Pod liqo-test-network/server-1-0", "Pod liqo-test-network/server-0-0"}
	for _, tc := range []struct {
		args         []string
		oslo, bergen []string
	}{
		{[]string{"--basic"}, served, nil},
		{[]string{"--basic", "--np-ext", "--pod-np", "--lb", "--ip"}, served, nil}, // of which a line says that they have no effect
		{[]string{"--info"}, slices.Concat([]string{"Service liqo-test-network/echo-1", "Service liqo-test-network/echo-1-headless"}, served), nil},
		{
			[]string{"--np-ext"},
			slices.Concat([]string{"Service liqo-test-network/echo-1", "Service liqo-test-network/echo-1-headless", "Service liqo-test-network/echo-1-local"}, served), nil,
		},
		{
			[]string{"--ip"}, slices.Concat([]string{"Pod liqo-test-network/external-ip", "IP liqo-test-network/external-ip", "Service liqo-test-network/echo-1", "Service liqo-test-network/echo-1-headless"}, served),
			[]string{"Pod liqo-test-network-oslo/external-ip", "IP liqo-test-network-oslo/external-ip"},
		},
	} {
		oslo := slices.Concat([]string{"Namespace /liqo-test-network", "NamespaceOffloading liqo-test-network/offloading"}, tc.oslo)
		bergen := slices.Concat([]string{"Namespace /liqo-test-network-oslo"}, tc.bergen)
		asYAML := try(tc.args...).stdout
		first, second, _ := strings.Cut(strings.TrimPrefix(asYAML, "# oslo cluster\n"), "# bergen cluster\n")
		if diff := cmp.Diff(oslo, named(documents(t, first))) + cmp.Diff(bergen, named(documents(t, second))); diff != "" {
			t.Errorf("%v -want +got:\n%s\n%s", tc.args, diff, asYAML)
		}
		var asJSON map[string]struct{ Items []*unstructured.Unstructured }
		if err := json.Unmarshal([]byte(try(append(tc.args, "-o", "json")...).stdout), &asJSON); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(oslo, named(asJSON["oslo"].Items)) + cmp.Diff(bergen, named(asJSON["bergen"].Items)); diff != "" {
			t.Errorf("%v in JSON -want +got:\n%s", tc.args, diff)
		}
	}
	p.checkNothingRemains(t)
}

func allIsWell(t *testing.T, p *theatre) {
	t.Helper()
	var mu sync.Mutex
	requested := map[string]bool{}
	p.play(func(pod *corev1.Pod, target probe.Target) error {
		mu.Lock()
		defer mu.Unlock()
		where := target.At
		if host, port, err := net.SplitHostPort(where); err == nil && strings.HasPrefix(host, "127.") && port > "3" {
			where = host
		}
		requested[fmt.Sprintf("%s %v %s %s", pod.Namespace, pod.Spec.HostNetwork, where, strings.Join(target.Answers, ","))] = true
		return nil
	})
	r := p.try(t, "--info", "--pod-np", "--np-ext", "--ip")
	want := `CLUSTER   SEES     NETWORK         AS
oslo      bergen   10.200.0.0/16   10.71.0.0/16
oslo      bergen   10.70.0.0/16    10.80.0.0/16
bergen    oslo     10.200.0.0/16   10.72.0.0/16
bergen    oslo     10.70.0.0/16    10.80.0.0/16

WAY                           FROM     TO       PASSED   FAILED   NOT TRIED
pod to pod                    oslo     bergen   1        0        0
pod to pod                    bergen   oslo     1        0        0
pod to Service                oslo     bergen   1        0        0
pod to Service                bergen   oslo     1        0        0
pod to headless Service       oslo     bergen   1        0        0
pod to headless Service       bergen   oslo     1        0        0
node to pod                   oslo     bergen   1        0        0
node to pod                   bergen   oslo     1        0        0
pod to IP                     oslo     oslo     1        0        0
pod to IP                     oslo     bergen   1        0        0
pod to IP                     bergen   oslo     1        0        0
pod to IP                     bergen   bergen   1        0        0
pod to NodePort               oslo     bergen   1        0        0
pod to NodePort               bergen   oslo     1        0        0
outside to NodePort           here     oslo     1        0        0
outside to NodePort           here     bergen   1        0        0
outside to NodePort (Local)   here     oslo     1        0        0
outside to NodePort (Local)   here     bergen   1        0        0
`
	if diff := cmp.Diff(want, r.stdout); diff != "" || r.err != nil {
		t.Errorf("%v\n-want +got:\n%s\n%s", r.err, diff, r.stderr)
	}
	const lines = ` INFO   (oslo) Cluster identity correctly retrieved
 INFO   (bergen) Cluster identity correctly retrieved
 INFO   (oslo) Namespace liqo-test-network is offloaded
 INFO   (oslo) IP external-ip shows node oslo-1 as 10.70.0.9
 INFO   (bergen) IP external-ip shows node bergen-1 as 10.70.0.9
 INFO   (oslo) 2 pods to ask are ready
 INFO  Running checks ...
 INFO  Checks succeeded counter=18
 INFO  All checks completed
 INFO   (oslo) The objects of the test are removed
 INFO   (bergen) The objects of the test are removed
`
	if diff := cmp.Diff(lines, comparableOutput(r.stderr, lines)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff(map[string]bool{
		"liqo-test-network false 10.71.0.7:8080 server-1-0": true, "liqo-test-network true 10.71.0.7:8080 server-1-0": true,
		"liqo-test-network-oslo false 10.72.0.7:8080 server-0-0": true, "liqo-test-network-oslo true 10.72.0.7:8080 server-0-0": true,
		"liqo-test-network false echo-1.liqo-test-network.svc:80 server-0-0,server-1-0":                    true,
		"liqo-test-network false echo-1-headless.liqo-test-network.svc:8080 server-0-0,server-1-0":         true,
		"liqo-test-network-oslo false echo-1.test-network-of-oslo.svc:80 server-0-0,server-1-0":            true,
		"liqo-test-network-oslo false echo-1-headless.test-network-of-oslo.svc:8080 server-0-0,server-1-0": true,
		"liqo-test-network false 127.0.0.2 server-0-0,server-1-0":                                          true,
		"liqo-test-network-oslo false 127.0.0.3 server-0-0,server-1-0":                                     true,
		"liqo-test-network false 10.70.0.9:16080 external-of-oslo":                                         true,
		"liqo-test-network false 10.80.0.9:16080 external-of-bergen":                                       true,
		"liqo-test-network-oslo false 10.70.0.9:16080 external-of-bergen":                                  true,
		"liqo-test-network-oslo false 10.80.0.9:16080 external-of-oslo":                                    true,
	}, requested); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff(map[string]bool{"liqo:oslo": true, "liqo:bergen": true}, p.seenImages()); diff != "" {
		t.Errorf("images, -want +got:\n%s", diff)
	}
	p.checkNothingRemains(t)
}

func whatFailsIsTold(t *testing.T, p *theatre) {
	t.Helper()
	p.play(func(pod *corev1.Pod, target probe.Target) error {
		if pod.Spec.HostNetwork && pod.Namespace == network.TestNamespace {
			return errors.New("no answer in time")
		}
		return nil
	})
	r := p.try(t, "--image", "mirror/liqo:v1")
	const lines = ` INFO  Running checks ...
 ERRO  node to pod: from a process of node oslo-1 of oslo to the pod on node bergen-1 of bergen (10.71.0.7:8080): no answer in time
 INFO  Checks succeeded counter=7
 INFO  Checks failed counter=1
 INFO   (oslo) The objects of the test are removed
 INFO   (bergen) The objects of the test are removed
 ERRO  some checks failed
 INFO  liqoctl info peer shows the state of the tunnel
 INFO  See docs/troubleshooting.md#by-symptom-between-clusters
`
	if r.err == nil || !strings.Contains(r.stderr, lines) || !strings.Contains(r.stdout, "node to pod               oslo     bergen   0        1        0\n") {
		t.Errorf("%v\n%s%s", r.err, r.stdout, r.stderr)
	}
	if diff := cmp.Diff(map[string]bool{"mirror/liqo:v1": true}, p.seenImages()); diff != "" {
		t.Errorf("images, -want +got:\n%s", diff)
	}
	p.checkNothingRemains(t)
}

// theFirstFailureIsEnough although pods of the other cluster ask for ever.
func theFirstFailureIsEnough(t *testing.T, p *theatre) {
	t.Helper()
	p.play(func(pod *corev1.Pod, _ probe.Target) error {
		if pod.Namespace == network.TestNamespace {
			return errForEver
		}
		return errors.New("refused")
	})
	r := p.try(t, "--fail-fast", "--basic", "--timeout", "5m")
	if r.err == nil || !strings.Contains(r.stderr, " ERRO  some checks failed\n") || !strings.HasSuffix(r.stdout, `
pod to pod   oslo     bergen   0        0        1
pod to pod   bergen   oslo     0        1        0
`) {
		t.Errorf("%v\n%s%s", r.err, r.stdout, r.stderr)
	}
	p.checkNothingRemains(t)
}

func podsThatDoNotStartEndIt(t *testing.T, p *theatre) {
	t.Helper()
	p.play(reachable)
	p.stall(func(pod *corev1.Pod) {
		pod.Status = corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{
			Name: "reach", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such image"}},
		}}}
	})
	p.try(t).refuses(t, "does not start: ImagePullBackOff: no such image", "--image names another image")
	p.checkNothingRemains(t)
	p.stall(func(pod *corev1.Pod) {
		pod.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "OutOfcpu", Message: "no room"}
	})
	p.try(t).refuses(t, "pod server-", "failed: OutOfcpu no room")
	p.checkNothingRemains(t)
	p.stall(func(pod *corev1.Pod) {
		pod.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
			Type: names.PodAccepted, Status: corev1.ConditionFalse, Reason: "Refused", Message: `cluster "bergen" refuses the pod: its policy says so`,
		}}}
	})
	p.try(t).refuses(t, `cluster "bergen" refuses the pod: its policy says so`)
	p.checkNothingRemains(t)
}

// anInterruptedTestIsRemoved although pods ask for ever.
func anInterruptedTestIsRemoved(t *testing.T, p *theatre) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	asks := make(chan struct{})
	var once sync.Once
	p.play(func(*corev1.Pod, probe.Target) error {
		once.Do(func() { close(asks) })
		return errForEver
	})
	go func() {
		select {
		case <-asks:
		case <-ctx.Done():
		}
		cancel()
	}()
	r := p.tryUntil(ctx, t, p.oslo.Config, p.bergen.Config)
	select {
	case <-asks:
	default:
		t.Error("nobody asked")
	}
	if r.err == nil || !strings.Contains(r.stderr, "interrupted") {
		t.Errorf("it was not interrupted:\n%s%s", r.stdout, r.stderr)
	}
	p.checkNothingRemains(t)
}

func whatAKilledTestLeftIsRemoved(t *testing.T, p *theatre) {
	t.Helper()
	p.play(reachable)
	left := p.try(t, "--rm=false", "--ip", "--global-labels", names.AppManagedBy+"=somebody")
	left.succeeds(t, "The namespace liqo-test-network and those like it in the other clusters are left")
	pods := &corev1.PodList{}
	if err := p.bergen.Client.List(t.Context(), pods, client.InNamespace(network.TestNamespace+"-oslo")); err != nil || len(pods.Items) != 3 {
		t.Errorf("%d pods are left, %v", len(pods.Items), err)
	}
	p.try(t, "--dry-run", "--ip").succeeds(t, " WARN   (oslo) The Namespace liqo-test-network that is there would be deleted first\n", "\nkind: IP\n")
	r := p.try(t, "--basic", "--info", "-o", "json")
	r.succeeds(t, "Removing the objects of an earlier run", "All checks completed")
	if diff := cmp.Diff(reported, r.stdout); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	p.checkNothingRemains(t)
}

// reported is what scripts read.
const reported = `{
  "networks": [
    {
      "cluster": "oslo",
      "sees": "bergen",
      "network": "10.200.0.0/16",
      "as": "10.71.0.0/16"
    },
    {
      "cluster": "oslo",
      "sees": "bergen",
      "network": "10.70.0.0/16",
      "as": "10.80.0.0/16"
    },
    {
      "cluster": "bergen",
      "sees": "oslo",
      "network": "10.200.0.0/16",
      "as": "10.72.0.0/16"
    },
    {
      "cluster": "bergen",
      "sees": "oslo",
      "network": "10.70.0.0/16",
      "as": "10.80.0.0/16"
    }
  ],
  "ways": [
    {
      "way": "pod to pod",
      "from": "oslo",
      "to": "bergen",
      "passed": 1,
      "failed": 0,
      "notTried": 0
    },
    {
      "way": "pod to pod",
      "from": "bergen",
      "to": "oslo",
      "passed": 1,
      "failed": 0,
      "notTried": 0
    }
  ],
  "checks": [
    {
      "way": "pod to pod",
      "from": "oslo",
      "to": "bergen",
      "origin": "a pod on node oslo-1 of oslo",
      "goal": "the pod on node bergen-1 of bergen",
      "address": "10.71.0.7:8080",
      "result": "Passed"
    },
    {
      "way": "pod to pod",
      "from": "bergen",
      "to": "oslo",
      "origin": "a pod on node bergen-1 of bergen",
      "goal": "the pod on node oslo-1 of oslo",
      "address": "10.72.0.7:8080",
      "result": "Passed"
    }
  ]
}
`
