// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/ctltest"
	"liqo.io/liqo/internal/ctl/diagnose"
	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
	"liqo.io/liqo/test/faults"
)

// pair is a consumer, rome, whose namespace is offloaded to a provider, milan, with a pod and a Service that work.
type pair struct {
	rome, milan   *testkit.ControlPlane
	peering       *ctltest.Peering // of rome with milan
	local, remote *cluster.Cluster
	shop, shopOf  string // the namespace, and the remote one

	namespace *offv1beta1.NamespaceOffloading
	mapping   *offv1beta1.NamespaceMap
	kubelet   *corev1.Pod
	pod, copy *corev1.Pod
	shadow    *offv1beta1.ShadowPod
	service   *corev1.Service
	slice     *discoveryv1.EndpointSlice
	shown     *discoveryv1.EndpointSlice
	lent      *authv1beta1.ResourceSlice
	dns       *corev1.Pod
}

func newPair(t *testing.T) *pair {
	t.Helper()
	p := &pair{rome: testkit.Cluster(t), milan: testkit.SecondCluster(t)}
	p.local, _ = ctltest.NewBareCluster(t, p.rome, "local", "rome")
	p.remote, _ = ctltest.NewBareCluster(t, p.milan, "remote", "milan")
	p.peering = ctltest.LendPeering(t, p.rome, "milan")
	testkit.Update(t, p.rome.Client, p.peering.VirtualNode, func(vn *offv1beta1.VirtualNode) { vn.Labels[names.ResourceSliceName] = "milan" })
	p.shop = testkit.Namespace(t, p.rome, "shop", nil)
	p.shopOf = testkit.Namespace(t, p.milan, p.shop+"-rome", nil)
	p.lendOffloading(t)
	p.lendPod(t)
	p.lendService(t)
	return p
}

func (p *pair) lendOffloading(t *testing.T) {
	t.Helper()
	p.namespace = &offv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: p.shop, Name: offloading}}
	ctltest.LendWithStatus(t, p.rome, p.namespace, func(nso *offv1beta1.NamespaceOffloading) {
		nso.Status = offv1beta1.NamespaceOffloadingStatus{RemoteNamespaceName: p.shopOf, OffloadingPhase: offv1beta1.ReadyOffloadingPhaseType, ObservedGeneration: nso.Generation,
			RemoteNamespacesConditions: map[string]offv1beta1.RemoteNamespaceConditions{"milan": {
				{Type: offv1beta1.NamespaceOffloadingRequired, Status: corev1.ConditionTrue, Reason: "ClusterSelected"},
				{Type: offv1beta1.NamespaceReady, Status: corev1.ConditionTrue, Reason: "NamespaceCreated"},
			}}}
	})
	p.mapping = &offv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Namespace: p.peering.Namespace, Name: "milan"}, Spec: offv1beta1.NamespaceMapSpec{DesiredMapping: map[string]string{p.shop: p.shopOf}}}
	ctltest.Lend(t, p.rome, p.mapping)
	p.kubelet = newPod(p.peering.Namespace, "vk-milan", "worker", map[string]string{names.VirtualNode: "milan", names.OffloadingComponent: names.ComponentVirtualKubelet})
	ctltest.LendWithStatus(t, p.rome, p.kubelet, setReady)
	// What the provider has of it.
	tenant := testkit.Namespace(t, p.milan, "tenant-rome", map[string]string{names.TenantNamespace: "true", names.RemoteClusterID: "rome"})
	ctltest.Lend(t, p.milan, &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "rome"}, Spec: authv1beta1.TenantSpec{ClusterID: "rome"}})
	p.lent = &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "milan", Labels: map[string]string{names.Replicated: "true"}}}
	ctltest.Lend(t, p.milan, p.lent)
}

func newPod(namespace, name, node string, labels map[string]string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}, Spec: corev1.PodSpec{
		NodeName: node, TerminationGracePeriodSeconds: new(int64(0)), Containers: []corev1.Container{{Name: "web", Image: "web"}},
	}}
}

func setReady(pod *corev1.Pod) {
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		ContainerStatuses: []corev1.ContainerStatus{{Name: "web", Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}}
}

// setPending leaves a pod that never started, with the conditions.
func setPending(conditions ...corev1.PodCondition) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: conditions} }
}

func (p *pair) lendPod(t *testing.T) {
	t.Helper()
	labels := map[string]string{"app": "web", names.ShadowPod: "true"}
	p.pod = newPod(p.shop, "web", "milan", labels)
	ctltest.LendWithStatus(t, p.rome, p.pod, setReady)
	p.shadow = &offv1beta1.ShadowPod{ObjectMeta: metav1.ObjectMeta{Namespace: p.shopOf, Name: "web"}, Spec: offv1beta1.ShadowPodSpec{Pod: p.pod.Spec}}
	ctltest.Lend(t, p.milan, p.shadow)
	p.copy = newPod(p.shopOf, "web", "worker-2", nil)
	ctltest.LendWithStatus(t, p.milan, p.copy, setReady)
}

func (p *pair) lendService(t *testing.T) {
	t.Helper()
	spec := corev1.ServiceSpec{Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Port: 80}}}
	p.service = &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: p.shop, Name: "web"}, Spec: spec}
	ctltest.Lend(t, p.rome, p.service)
	ctltest.Lend(t, p.milan, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: p.shopOf, Name: "web"}, Spec: spec})
	slice := func(namespace string) *discoveryv1.EndpointSlice {
		return &discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Namespace: namespace, Name: "web-1", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
			AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.200.1.5"}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)}}},
		}
	}
	p.slice, p.shown = slice(p.shop), slice(p.shopOf)
	ctltest.Lend(t, p.rome, p.slice)
	ctltest.Lend(t, p.milan, p.shown)
	ctltest.Lend(t, p.milan, &offv1beta1.ShadowEndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: p.shopOf, Name: "web-1", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}}})
	p.dns = newPod(metav1.NamespaceSystem, "coredns", "worker-2", map[string]string{"k8s-app": "kube-dns"})
	testkit.Ensure(t, p.milan, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "default"}})
	ctltest.LendWithStatus(t, p.milan, p.dns, setReady)
}

// recordEvent makes an event about an object of the namespace.
func (p *pair) recordEvent(t *testing.T, kind, name, reason, message string) {
	t.Helper()
	ctltest.Lend(t, p.rome, &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.shop, Name: strings.ToLower(reason)}, InvolvedObject: corev1.ObjectReference{Kind: kind, Namespace: p.shop, Name: name},
		Type: corev1.EventTypeWarning, Reason: reason, Message: message, LastTimestamp: metav1.Now(),
	})
}

// explain returns the explanation of one of the objects, with the provider if asks is true.
func (p *pair) explain(t *testing.T, kind string, asks bool) *diagnose.Explanation {
	t.Helper()
	g := &gatherer{kind: kind, namespace: p.shop, name: map[string]string{"pod": "web", "service": "web", "namespace": p.shop, "node": "milan"}[kind]}
	remote := p.remote
	if !asks {
		remote = nil
	}
	out, err := g.newAnswer(t.Context(), p.local, remote)
	if err != nil {
		t.Fatal(err)
	}
	return out.Explanation
}

func TestExplainHealthy(t *testing.T) {
	p := newPair(t)
	for _, kind := range []string{"pod", "namespace", "node", "service"} {
		for _, asks := range []bool{true, false} {
			e := p.explain(t, kind, asks)
			for _, c := range e.Chains {
				for _, l := range c.Links {
					if len(l.Findings) > 0 || e.Stopped || l.Status != diagnose.Passed {
						t.Errorf("%s: %s: %+v", kind, c.Name, l)
					}
				}
			}
		}
	}
}

// updated returns a fault in an object of the consumer, and changed one in its status.
func updated[T client.Object](of func(*pair) T, change func(T)) func(*testing.T, *pair) {
	return func(t *testing.T, p *pair) { testkit.Update(t, p.rome.Client, of(p), change) }
}

func changed[T client.Object](of func(*pair) T, change func(T)) func(*testing.T, *pair) {
	return func(t *testing.T, p *pair) { testkit.UpdateStatus(t, p.rome.Client, of(p), change) }
}

// replacePod makes the pod anew.
func replacePod(t *testing.T, p *pair, change func(*corev1.Pod)) {
	t.Helper()
	pod := newPod(p.shop, "web-2", "", map[string]string{"app": "web"})
	change(pod)
	ctltest.LendWithStatus(t, p.rome, pod, setPending(corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/2 nodes are available"}))
	p.pod = pod
}

// injections put the faults of the list into a healthy pair.
var injections = map[string]func(*testing.T, *pair){
	"the namespace of a pod on a virtual node is not offloaded": func(t *testing.T, p *pair) {
		testkit.UpdateStatus(t, p.rome.Client, p.pod, setPending())
		testkit.UpdateStatus(t, p.rome.Client, p.namespace, func(nso *offv1beta1.NamespaceOffloading) { nso.Status = offv1beta1.NamespaceOffloadingStatus{} })
		p.shop = testkit.Namespace(t, p.rome, "other", nil)
		ctltest.LendWithStatus(t, p.rome, newPod(p.shop, "web", "milan", p.pod.Labels), setPending())
	},
	"the provider has a namespace of that name": func(t *testing.T, p *pair) {
		const why = "Some problems occurred during remote namespace creation: it exists"
		testkit.UpdateStatus(t, p.rome.Client, p.namespace, func(nso *offv1beta1.NamespaceOffloading) {
			nso.Status.OffloadingPhase = offv1beta1.AllFailedOffloadingPhaseType
			nso.Status.RemoteNamespacesConditions["milan"][1] = offv1beta1.RemoteNamespaceCondition{Type: offv1beta1.NamespaceReady, Status: corev1.ConditionFalse, Reason: "CreationLoopBackOff", Message: why}
		})
		testkit.UpdateStatus(t, p.rome.Client, p.mapping, func(m *offv1beta1.NamespaceMap) {
			m.Status.CurrentMapping = map[string]offv1beta1.RemoteNamespaceStatus{p.shop: {Phase: offv1beta1.MappingCreationLoopBackOff, Reason: offv1beta1.MappingNamespaceExists}}
		})
	},
	"the selector matches no virtual node": changed(func(p *pair) *offv1beta1.NamespaceOffloading { return p.namespace }, func(nso *offv1beta1.NamespaceOffloading) {
		nso.Status.OffloadingPhase, nso.Status.RemoteNamespacesConditions = offv1beta1.NoClusterSelectedOffloadingPhaseType, nil
	}),
	"the virtual kubelet crashes": func(t *testing.T, p *pair) {
		testkit.UpdateStatus(t, p.rome.Client, p.peering.Node, func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown })
		testkit.UpdateStatus(t, p.rome.Client, p.kubelet, func(pod *corev1.Pod) {
			pod.Status.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
			pod.Status.Conditions = nil
		})
	},
	"the provider denies the ResourceSlice": changed(func(p *pair) *authv1beta1.ResourceSlice { return p.peering.ResourceSlice }, func(s *authv1beta1.ResourceSlice) {
		s.Status.Conditions[0].Status, s.Status.Conditions[0].Message = authv1beta1.ResourceSliceConditionDenied, "too much"
	}),
	"the provider refuses the credentials": changed(func(p *pair) *liqov1beta1.ForeignCluster { return p.peering.ForeignCluster }, func(fc *liqov1beta1.ForeignCluster) {
		c := &fc.Status.Modules.Authentication.Conditions[0]
		c.Status, c.Reason, c.Message = liqov1beta1.ConditionNotReady, "RefusedByPeer", "why"
	}),
	"the tunnel is down, and a pod is Pending": func(t *testing.T, p *pair) {
		testkit.UpdateStatus(t, p.rome.Client, p.peering.Connection, func(c *networkingv1beta1.Connection) { c.Status.Value = networkingv1beta1.ConnectionError })
		testkit.UpdateStatus(t, p.rome.Client, p.peering.Node, func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionFalse })
		testkit.UpdateStatus(t, p.rome.Client, p.pod, setPending())
	},
	"too little is free on the virtual node": func(t *testing.T, p *pair) {
		testkit.Update(t, p.rome.Client, p.peering.Node, func(n *corev1.Node) { n.Spec.Taints = nil }) // admission marks new nodes as not ready
		testkit.UpdateStatus(t, p.rome.Client, p.peering.Node, func(n *corev1.Node) {
			n.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourcePods: resource.MustParse("10")}
		})
		replacePod(t, p, func(pod *corev1.Pod) {
			pod.Spec.Tolerations = []corev1.Toleration{{Key: names.VirtualNodeTaint, Operator: corev1.TolerationOpExists}}
			pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}
		})
	},
	"the strategy came after the pod": func(t *testing.T, p *pair) {
		testkit.Update(t, p.rome.Client, p.namespace, func(nso *offv1beta1.NamespaceOffloading) {
			nso.Spec.PodOffloadingStrategy = offv1beta1.RemotePodOffloadingStrategyType
		})
		replacePod(t, p, func(*corev1.Pod) {})
	},
	"the Quota in the provider is used up": changed(func(p *pair) *corev1.Pod { return p.pod }, setPending(corev1.PodCondition{
		Type: names.PodAccepted, Status: corev1.ConditionFalse, Reason: "OverQuota", Message: `cluster "milan" refuses the pod: peering cpu quota usage exceeded - free 0 / requested 2`,
	})),
	"the ResourceSlice is cordoned in the provider": func(t *testing.T, p *pair) {
		testkit.Update(t, p.milan.Client, p.lent, func(s *authv1beta1.ResourceSlice) { s.Annotations = map[string]string{names.Cordon: "true"} })
		testkit.UpdateStatus(t, p.rome.Client, p.pod, setPending())
		p.shopOf = testkit.Namespace(t, p.milan, "without-pods", nil) // pods that are there already may stay
		testkit.UpdateStatus(t, p.rome.Client, p.namespace, func(nso *offv1beta1.NamespaceOffloading) { nso.Status.RemoteNamespaceName = p.shopOf })
	},
	"admission of the provider refuses the pod": func(t *testing.T, p *pair) {
		testkit.UpdateStatus(t, p.rome.Client, p.pod, setPending())
		testkit.Update(t, p.milan.Client, p.copy, func(pod *corev1.Pod) { pod.Labels = map[string]string{"still": "here"} })
		p.shopOf = testkit.Namespace(t, p.milan, "refusing", nil)
		testkit.UpdateStatus(t, p.rome.Client, p.namespace, func(nso *offv1beta1.NamespaceOffloading) { nso.Status.RemoteNamespaceName = p.shopOf })
		ctltest.LendWithStatus(t, p.milan, &offv1beta1.ShadowPod{ObjectMeta: metav1.ObjectMeta{Namespace: p.shopOf, Name: "web"}, Spec: offv1beta1.ShadowPodSpec{Pod: p.pod.Spec}}, func(sp *offv1beta1.ShadowPod) {
			sp.Status.Phase = corev1.PodPending
			sp.Status.Conditions = []metav1.Condition{{Type: offv1beta1.ShadowPodAccepted, Status: metav1.ConditionFalse, Reason: "Refused", Message: "exceeded quota: liqo-default", LastTransitionTime: metav1.Now()}}
		})
	},
	"no node of the provider fits": func(t *testing.T, p *pair) {
		unfit := setPending(corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "0/3 nodes are available"})
		testkit.UpdateStatus(t, p.rome.Client, p.pod, unfit)
		testkit.UpdateStatus(t, p.milan.Client, p.copy, unfit)
	},
	"the provider does not get the image": func(t *testing.T, p *pair) {
		waits := func(pod *corev1.Pod) {
			pod.Status = corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{
				Name: "web", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "not found\x1b[2J"}},
			}}}
		}
		testkit.UpdateStatus(t, p.rome.Client, p.pod, waits)
		testkit.UpdateStatus(t, p.milan.Client, p.copy, waits)
	},
	"an annotation keeps the Service here": updated(func(p *pair) *corev1.Service { return p.service }, func(s *corev1.Service) {
		s.Annotations = map[string]string{names.SkipReflection: "true"}
	}),
	"no pod of the Service is ready": func(t *testing.T, p *pair) {
		testkit.Update(t, p.rome.Client, p.slice, func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Conditions.Ready = new(false) })
		testkit.UpdateStatus(t, p.rome.Client, p.pod, setPending())
	},
	"endpoints of the Service are no pods": func(t *testing.T, p *pair) {
		p.recordEvent(t, "EndpointSlice", "web-1", "EndpointsNotReflected", `Cluster "milan" cannot reach 1 endpoints`)
		testkit.Update(t, p.milan.Client, p.shown, func(s *discoveryv1.EndpointSlice) { s.Endpoints = nil })
	},
	"the provider makes no endpoints": func(t *testing.T, p *pair) {
		testkit.Update(t, p.milan.Client, p.shown, func(s *discoveryv1.EndpointSlice) { s.Endpoints = nil })
	},
	"the DNS of the provider is down": func(t *testing.T, p *pair) { testkit.UpdateStatus(t, p.milan.Client, p.dns, setPending()) },
}

func TestExplainFaults(t *testing.T) {
	for _, fault := range faults.All {
		kind, ours := strings.CutPrefix(fault.Command, "explain ")
		if !ours {
			continue
		}
		t.Run(strings.ReplaceAll(fault.Name, " ", "_"), func(t *testing.T) {
			p := newPair(t)
			inject := injections[fault.Name]
			if inject == nil {
				t.Fatal("the fault is not injected")
			}
			inject(t, p)
			requests := countReads(p.local, p.remote)
			g := &gatherer{kind: kind, namespace: p.shop, name: map[string]string{"pod": p.pod.Name, "service": "web", "namespace": p.shop, "node": "milan"}[kind]}
			e, err := g.newAnswer(t.Context(), p.local, p.remote)
			if err != nil {
				t.Fatal(err)
			}
			stop := e.Stop()
			if stop == nil || !e.Stopped {
				t.Fatalf("nothing stops it: %+v", e.Chains)
			}
			if f := stop.Failure(); !strings.HasPrefix(f.Object, fault.Object+" ") || !strings.Contains(f.Remedy, fault.Remedy) || f.Page != "docs/"+fault.Page || strings.Contains(f.Message, "\x1b") {
				t.Errorf("%s of %s is not the headline: %+v", fault.Object, fault.Page, e.Chains)
			}
			requests.expectOnePass(t)
		})
	}
}

// A user of the namespace alone is told what the namespace shows; the rest is not checked.
func TestExplainWithRightsInNamespace(t *testing.T) {
	p := newPair(t)
	user := "user-of-" + p.shop
	testkit.Allow(t, p.rome, p.shop, user, testkit.Rule("", "pods", "get", "list"), testkit.Rule("", "events", "list"), testkit.Rule("offloading.liqo.io", "namespaceoffloadings", "get"))
	of, err := cluster.NewClientOf(t.Context(), p.rome.User(t, user))
	if err != nil {
		t.Fatal(err)
	}
	p.local.Kube = of
	testkit.UpdateStatus(t, p.rome.Client, p.pod, setPending(corev1.PodCondition{
		Type: names.PodAccepted, Status: corev1.ConditionFalse, Reason: "ProviderTooOld", Message: `cluster "milan" is too old for the pod`,
	}))
	e := p.explain(t, "pod", false)
	stop := e.Stop()
	if stop == nil || stop.Findings[0].Page != "docs/troubleshooting.md#providertooold" {
		t.Errorf("%+v", e)
	}
	warned := 0
	for _, l := range e.Chains[0].Links {
		if l.Status == diagnose.Warning && strings.Contains(l.Findings[0].Message, "not checked: ") {
			warned++
		}
	}
	if warned != 3 {
		t.Errorf("%d links are not checked, 3 is wanted: the peering, the network and the virtual node: %+v", warned, e.Chains)
	}
}

// The remote cluster has nothing to do with a pod that is in another one.
func TestExplainForeignProvider(t *testing.T) {
	p := newPair(t)
	p.remote.ID = "turin"
	g := &gatherer{kind: "pod", namespace: p.shop, name: "web"}
	out, err := g.newAnswer(t.Context(), p.local, p.remote)
	if err != nil || out.foreign != "The remote cluster turin was not asked: the node milan stands for milan" || out.Stopped {
		t.Errorf("%v: %+v", err, out)
	}
	for _, kind := range []string{"pod", "service", "node"} {
		g := &gatherer{kind: kind, namespace: p.shop, name: "nothing"}
		if _, err := g.newAnswer(t.Context(), p.local, nil); err == nil || !strings.Contains(err.Error(), `"nothing"`) {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

// A provider that does not answer is left out after a while.
func TestExplainSilentProvider(t *testing.T) {
	p := newPair(t)
	p.remote.Kube = kube.WrapCalls(p.milan.Client, func(ctx context.Context, _ func() error) error {
		<-ctx.Done()
		return ctx.Err()
	})
	g := &gatherer{kind: "pod", namespace: p.shop, name: "web", limit: 100 * time.Millisecond}
	out, err := g.newAnswer(t.Context(), p.local, p.remote)
	if err != nil || !out.unasked || out.Stopped || out.foreign != "The remote cluster milan was not asked: timed out waiting for the condition" {
		t.Fatalf("%v: %+v", err, out)
	}
	if links := out.Chains[0].Links; slices.ContainsFunc(links, func(l diagnose.Link) bool { return l.Status != diagnose.Passed }) {
		t.Errorf("%+v", links)
	}
}

// Discovery does not end with the context of a call, and holds up nothing.
func TestReadIdentityInTime(t *testing.T) {
	c, _ := ctltest.NewBareCluster(t, testkit.Cluster(t), "remote", "")
	c.Kube = kube.WrapCalls(c.Kube, func(context.Context, func() error) error {
		<-t.Context().Done()
		return t.Context().Err()
	})
	if _, err := readIdentity(t.Context(), c, 10*time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

// The headline is the first finding that failed, and success says whether all was checked.
func TestHeadlines(t *testing.T) {
	check := func(findings ...diagnose.Finding) *diagnose.Explanation {
		link := diagnose.Link{Check: diagnose.NewCheck("a node takes it", findings)}
		return &diagnose.Explanation{Object: "Pod shop/web", Stopped: link.Status == diagnose.Failed, Chains: []diagnose.Chain{{Links: []diagnose.Link{link}}}}
	}
	cordoned := diagnose.Finding{Severity: diagnose.Warning, Object: "Node milan", Message: "it is cordoned"}
	full := diagnose.Finding{Severity: diagnose.Failed, Object: "Node turin", Message: "it is full"}
	unread := diagnose.Finding{Severity: diagnose.Warning, Object: "Node", Message: "not checked: forbidden"}
	for want, tc := range map[string]struct {
		*diagnose.Explanation
		unasked bool
	}{
		"Pod shop/web is stopped: Node turin: it is full":  {check(cordoned, full), false},
		"Nothing stops Pod shop/web":                       {check(cordoned), false},
		"Nothing that could be checked stops Pod shop/web": {check(unread), false},
		"that could be checked":                            {check(), true},
	} {
		var output bytes.Buffer
		err := (&options{unasked: tc.unasked}).printExplanation(&cluster.Session{Printer: ui.NewPrinter(strings.NewReader(""), &output, &output)}, tc.Explanation)
		if (err != nil) != tc.Stopped || !strings.Contains(output.String()+fmt.Sprint(err), want) {
			t.Errorf("%v: %s, want %s", err, &output, want)
		}
	}
}

func TestChainText(t *testing.T) {
	passed := diagnose.NewCheck("the pod exists", nil)
	passed.Note = "Running"
	chain := diagnose.Chain{Name: "Pod shop/web", Links: []diagnose.Link{
		{Cluster: "rome", Check: passed},
		{Cluster: "milan", Check: diagnose.NewCheck("a node takes it", []diagnose.Finding{{Severity: diagnose.Failed, Object: "Pod shop-rome/web", Message: "none fits", Remedy: "add nodes", Page: "docs/info.md"}})},
		{Cluster: "milan", Check: diagnose.Check{Name: "the containers run", Status: diagnose.Skipped}},
	}}
	var stdout bytes.Buffer
	printChains(ui.NewPrinter(strings.NewReader(""), &stdout, &bytes.Buffer{}), []diagnose.Chain{chain})
	want := `Pod shop/web
------------
√ rome: the pod exists (Running)
× milan: a node takes it
    Pod shop-rome/web: none fits
      → add nodes
      see docs/info.md
· milan: the containers run

`
	if diff := cmp.Diff(want, stdout.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	var document bytes.Buffer
	if err := cluster.PrintDocument(&document, &diagnose.Explanation{Object: "Pod shop/web", Stopped: true, Chains: []diagnose.Chain{chain}}, "yaml"); err != nil {
		t.Fatal(err)
	}
	wantDocument := `chains:
- links:
  - cluster: rome
    name: the pod exists
    note: Running
    status: passed
  - cluster: milan
    findings:
    - message: none fits
      object: Pod shop-rome/web
      page: docs/info.md
      remedy: add nodes
      severity: failed
    name: a node takes it
    status: failed
  - cluster: milan
    name: the containers run
    status: skipped
  name: Pod shop/web
object: Pod shop/web
stopped: true
`
	if diff := cmp.Diff(wantDocument, document.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// An age is told by the clock of the API server: a pod that was just made is not late because this machine's clock is ahead.
func TestClockOfServer(t *testing.T) {
	p := newPair(t)
	cfg := rest.CopyConfig(p.rome.Config)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return shifted{next, -time.Hour}
	})
	p.local.Clock = cluster.NewServerClock(cfg)
	c, err := client.NewWithWatch(cfg, client.Options{Scheme: p.rome.Client.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	p.local.Kube = c
	s, _, err := newScene(t.Context(), p.local, p.shop)
	if err != nil {
		t.Fatal(err)
	}
	if early := time.Until(s.Now); (early + time.Hour).Abs() > 10*time.Minute {
		t.Errorf("it is %s later there, want an hour earlier", early)
	}
}

// shifted is an API server whose clock is ahead.
type shifted struct {
	next  http.RoundTripper
	ahead time.Duration
}

// RoundTrip changes the date of an answer.
func (s shifted) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := s.next.RoundTrip(r)
	if err == nil {
		answer.Header.Set("Date", time.Now().Add(s.ahead).UTC().Format(http.TimeFormat))
	}
	return answer, err
}

func TestSubjects(t *testing.T) {
	for text, want := range map[string]string{"pod web": "pod/web", "svc web": "service/web", "svc/web": "service/web", "po/web": "pod/web", "ns/shop": "namespace/shop", "Node/milan": "node/milan"} {
		args := strings.Fields(text)
		kind, name := splitSubject(args)
		if err := checkSubject(&cobra.Command{}, args); err != nil || kind+"/"+name != want {
			t.Errorf("%s is %s/%s, %v", text, kind, name, err)
		}
	}
	for _, text := range []string{"web", "deploy/web", "svc/", "/web", "svc/a/b", "svc/a b"} {
		if checkSubject(&cobra.Command{}, strings.Fields(text)) == nil {
			t.Errorf("%s is accepted", text)
		}
	}
}
