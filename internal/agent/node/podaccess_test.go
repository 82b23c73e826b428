// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/agent"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/network/plan"
	"liqo.io/liqo/internal/testkit"
)

func never(metav1.Object) bool { return false }

func withToken(p corev1.Pod) corev1.Pod {
	p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{}}},
	}}}}
	return p
}

func TestSlimPod(t *testing.T) {
	kept := withToken(corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "pod", UID: "7", ResourceVersion: "8", Labels: map[string]string{names.ReachableFromPeers: "true"},
		},
		Spec:   corev1.PodSpec{NodeName: "worker", HostNetwork: true},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIPs: []corev1.PodIP{{IP: "10.200.1.5"}}},
	})
	whole := kept.DeepCopy()
	whole.Labels["a"] = "b"
	whole.Spec.Containers = []corev1.Container{{Name: "c"}}
	whole.Spec.Volumes = append(whole.Spec.Volumes, corev1.Volume{Name: "data"})
	whole.Status.Message = "long"
	got, err := SlimPod(whole)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&kept, got); diff != "" {
		t.Error(diff)
	}
	if other, err := SlimPod("no pod"); err != nil || other != any("no pod") {
		t.Errorf("what is no pod becomes %v, %v", other, err)
	}
}

func TestSlimNamespace(t *testing.T) {
	kept := corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: "ns", UID: "7", ResourceVersion: "8", Labels: map[string]string{names.ReachableFromPeers: "true", names.RemoteClusterID: "rome"},
		Annotations: map[string]string{names.ManagedByNamespaceMap: "a/b"},
	}}
	whole := kept.DeepCopy()
	whole.Labels["a"], whole.Annotations["a"], whole.Spec.Finalizers = "b", "b", []corev1.FinalizerName{"kubernetes"}
	got, err := SlimNamespace(whole)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&kept, got); diff != "" {
		t.Error(diff)
	}
}

// withoutNamespaces is a cache that has seen no namespace yet.
type withoutNamespaces struct{ client.Client }

func (c withoutNamespaces) List(ctx context.Context, into client.ObjectList, opts ...client.ListOption) error {
	if _, ok := into.(*corev1.NamespaceList); ok {
		return nil
	}
	return c.Client.List(ctx, into, opts...)
}

// TestPodAccess has one node with a pod in each kind of namespace.
func TestPodAccess(t *testing.T) {
	w := newTestNode(t, 0)
	w.stop()
	peers := map[string]string{names.ReachableFromPeers: "true"}
	remote := func(annotations map[string]string, labels map[string]string) string {
		labels[names.RemoteClusterID] = "rome"
		ns := testkit.Namespace(t, w.cluster, "remote", labels)
		testkit.Update(t, w, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, func(n *corev1.Namespace) { n.Annotations = annotations })
		return ns
	}
	owned := map[string]string{names.ManagedByNamespaceMap: "liqo-tenant-rome/milan"}
	plain, labelled := testkit.Namespace(t, w.cluster, "plain", nil), testkit.Namespace(t, w.cluster, "labelled", peers)
	offloaded, shop, tenant := testkit.Namespace(t, w.cluster, "offloaded", nil), remote(owned, map[string]string{}), remote(nil, map[string]string{names.TenantNamespace: "true"})
	testkit.Create(t, w, &offv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: offloaded, Name: names.NamespaceOffloading}})
	type access struct {
		Consumer             string
		Reachable, APIServer bool
	}
	want := map[string]access{}
	add := func(namespace, name string, of corev1.Pod, labels map[string]string, a access) {
		of.ObjectMeta = metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}
		of.Spec.AutomountServiceAccountToken = new(false)
		of.Spec.NodeName, of.Spec.Containers = w.node, []corev1.Container{{Name: "c", Image: "i"}}
		status := of.Status
		for i := range of.Spec.Volumes {
			of.Spec.Volumes[i].Name = "token"
			of.Spec.Volumes[i].Projected.Sources[0].ServiceAccountToken.Path = "token"
		}
		testkit.Create(t, w, &of)
		testkit.UpdateStatus(t, w, &of, func(p *corev1.Pod) { p.Status = status })
		want[namespace+"/"+name] = a
	}
	running := func() corev1.Pod { return pod(false, corev1.PodRunning, "10.200.1.5") }
	add(plain, "a", running(), nil, access{})
	add(plain, "labelled", running(), peers, access{Reachable: true})
	add(labelled, "a", running(), nil, access{Reachable: true})
	add(offloaded, "a", running(), nil, access{Reachable: true})
	add(shop, "a", running(), peers, access{Consumer: "rome"})
	add(shop, "starts", pod(false, corev1.PodPending), nil, access{Consumer: "rome"})
	add(shop, "token", withToken(running()), nil, access{Consumer: "rome", APIServer: true})
	add(tenant, "gateway", running(), nil, access{})
	add(shop, "over", pod(false, corev1.PodSucceeded, "10.200.1.5"), nil, access{})
	delete(want, shop+"/over") // it has no address any more
	n := &nodeAgent{client: w, options: Options{Node: w.node, OffloadedOnly: true, IsolateConsumers: true}}
	got, err := n.podAccess(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]access{}
	for _, p := range got.Pods {
		if slices.Contains([]string{plain, labelled, offloaded, shop, tenant}, p.Of.Namespace) { // other tests have pods, too
			found[p.Of.Namespace+"/"+p.Of.Name] = access{p.Consumer, p.Reachable, p.APIServer}
			if p.Unknown {
				t.Errorf("the namespace of %s is unknown", p.Of)
			}
		}
	}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Error(diff)
	}
	snapshot, err := agent.Sources{Home: w.home, Node: true, RoutesHere: never, FirewallsHere: never}.Read(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	state, _ := plan.Node(plan.NodeInput{Cluster: snapshot.Cluster, Name: w.node, Access: got})
	if _, err := w.kernel.Apply(t.Context(), state); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"ip daddr @reachable_pods accept", "ip daddr @hosts counter name consumer_pod_refused drop", "set api_clients { type ipv4_addr; elements = { 10.200.1.5 } }"} {
		w.waitForState(t, line, true)
	}
	if got, err = (&nodeAgent{client: withoutNamespaces{w}, options: n.options}).podAccess(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, p := range got.Pods {
		if _, mine := want[p.Of.Namespace+"/"+p.Of.Name]; mine && (!p.Unknown || p.Consumer != "" || p.Reachable != (p.Of.Namespace == offloaded)) {
			t.Errorf("a pod of a namespace that is not known yet: %+v", p)
		}
	}
	n.options = Options{Node: w.node}
	if none, err := n.podAccess(t.Context()); err != nil || none.Pods != nil {
		t.Errorf("without restrictions: %v, %v", none, err)
	}
}
