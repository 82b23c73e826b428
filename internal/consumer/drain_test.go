// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package consumer

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

func TestDrain(t *testing.T) {
	c := consumerCluster(t)
	vn := provide(t, c, "genoa", "genoa-1", "")
	second := provide(t, c, "genoa", "genoa-2", "")
	node := run(t, c, vn)
	condition(t, c, vn, running, running)
	demo := testkit.Namespace(t, c, "drained", nil)
	nothing := func(*corev1.Pod) {}
	pod, guarded := podOn(t, c, demo, "web", vn.Name, nothing), podOn(t, c, demo, "guarded", vn.Name, nothing)
	daemon := podOn(t, c, demo, "daemon", vn.Name, func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "d", UID: "d", Controller: new(true)}}
	})
	kubelet := podOn(t, c, vn.Namespace, "vk-pod", "", func(p *corev1.Pod) { p.Labels = kubeletLabels(vn) })
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: demo, Name: "guarded"},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "guarded"}}},
	}
	if err := c.Client.Create(t.Context(), budget); err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: vn.Namespace, Name: "kubeconfig-genoa-1"}}
	if err := c.Client.Delete(t.Context(), vn, client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
		t.Fatal(err)
	}

	eventually(t, c, node, func() error {
		if !node.Spec.Unschedulable {
			return errors.New("not cordoned")
		}
		return nil
	})
	condition(t, c, vn, running, draining)
	eventually(t, c, vn, func() error {
		i := slices.IndexFunc(vn.Status.Conditions, func(c offv1beta1.VirtualNodeCondition) bool { return c.Type == nodeCondition })
		if got, want := vn.Status.Conditions[i].Message, drainProgress(2, 1, nil); got != want {
			return fmt.Errorf("the condition says %q, want %q", got, want)
		}
		return nil
	})
	eventually(t, c, secret, func() error {
		if !slices.Contains(secret.Finalizers, names.VirtualNodeFinalizer) {
			return errors.New("the kubeconfig is not held")
		}
		return nil
	})
	if err := c.Client.Delete(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	terminated(t, c, pod)
	exists(t, c, guarded)
	if guarded.DeletionTimestamp != nil {
		t.Fatal("a pod was evicted against its disruption budget")
	}
	exists(t, c, kubeletOf(vn))
	exists(t, c, secret)

	// Another one that nothing holds up is not held up.
	quick := provide(t, c, "genoa", "genoa-3", "")
	exists(t, c, kubeletOf(quick))
	if err := c.Client.Delete(t.Context(), quick); err != nil {
		t.Fatal(err)
	}
	waitUntilDeleted(t, c, quick)

	if err := c.Client.Delete(t.Context(), budget); err != nil {
		t.Fatal(err)
	}
	terminated(t, c, guarded)
	waitUntilDeleted(t, c, kubeletOf(vn))
	condition(t, c, vn, deleting, draining)
	exists(t, c, node)
	if err := c.Client.Delete(t.Context(), kubelet, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	for _, obj := range []client.Object{vn, node, secret, serviceAccount(vn), clusterRoleBinding(vn), tenantBinding(vn), tenantRole(vn)} {
		waitUntilDeleted(t, c, obj)
	}
	exists(t, c, daemon)
	exists(t, c, mapOf(second))
	if err := c.Client.Delete(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	waitUntilDeleted(t, c, second)
	waitUntilDeleted(t, c, mapOf(second))
}

// A virtual kubelet may make its Node until it has ended.
func TestDrainLateNode(t *testing.T) {
	c := testkit.NthCluster(t, consumerClusters)
	vn := vnode("last", "last", "")
	vn.Namespace = testkit.Namespace(t, c, "peering-last", map[string]string{names.AllowVirtualNodes: "true"})
	setCondition(&vn, kubeletCondition, none, "", metav1.Now()) // as one that no kubelet was ever made for: it stays
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: vn.Name, Labels: map[string]string{
		names.NodeType: names.NodeTypeVirtualNode, names.RemoteClusterID: string(vn.Spec.ClusterID),
	}}}
	var made sync.Once
	v := &virtualNodes{client: c.Client, recorder: events.NewFakeRecorder(1)}
	v.direct = testkit.Troubled(t, c, func(r *http.Request) (*http.Response, error) {
		if strings.HasSuffix(r.URL.Path, "/namespaces/"+vn.Namespace+"/pods") { // whether it has ended
			made.Do(func() {
				if err := c.Client.Create(r.Context(), node); err != nil {
					t.Error(err)
				}
			})
		}
		return nil, nil
	})
	if err := v.Cleanup(t.Context(), &vn); err != nil {
		t.Fatal(err)
	}
	waitUntilDeleted(t, c, node)
}

// The node that it ran on takes its time with what is left of a pod, of which nothing runs.
func TestDrainKubeletEnd(t *testing.T) {
	c := consumerCluster(t)
	vn := provide(t, c, "lucca", "lucca-1", "")
	node := run(t, c, vn)
	condition(t, c, vn, running, running)
	kubelet := podOn(t, c, vn.Namespace, "vk-lucca", "real", func(p *corev1.Pod) { p.Labels = kubeletLabels(vn) })
	evicted := podOn(t, c, vn.Namespace, "vk-lucca-before", "real", func(p *corev1.Pod) { p.Labels = kubeletLabels(vn) })
	phase := func(pod *corev1.Pod, to corev1.PodPhase) {
		eventually(t, c, pod, func() error {
			before := pod.DeepCopy()
			pod.Status.Phase = to
			return c.Client.Status().Patch(t.Context(), pod, client.MergeFrom(before))
		})
	}
	phase(evicted, corev1.PodFailed)
	for _, obj := range []client.Object{vn, kubelet} {
		if err := c.Client.Delete(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
	condition(t, c, vn, deleting, draining)
	waitUntilDeleted(t, c, kubeletOf(vn))
	waitUntilDeleted(t, c, mapOf(vn)) // what it had there goes meanwhile
	exists(t, c, node)
	phase(kubelet, corev1.PodSucceeded)
	for _, obj := range []client.Object{vn, node, serviceAccount(vn), clusterRoleBinding(vn)} {
		waitUntilDeleted(t, c, obj)
	}
	for _, pod := range []*corev1.Pod{kubelet, evicted} {
		exists(t, c, pod)
		if err := c.Client.Delete(t.Context(), pod, client.GracePeriodSeconds(0)); err != nil {
			t.Fatal(err)
		}
	}
}

// Nobody but a virtual kubelet knows what the provider has of a pod, also of one that came after it was told to end.
func TestDrainLatePod(t *testing.T) {
	c := consumerCluster(t)
	vn := provide(t, c, "volterra", "volterra-1", "")
	run(t, c, vn)
	condition(t, c, vn, running, running)
	kubelet := podOn(t, c, vn.Namespace, "vk-volterra", "real", func(p *corev1.Pod) { p.Labels = kubeletLabels(vn) })
	if err := c.Client.Delete(t.Context(), vn); err != nil {
		t.Fatal(err)
	}
	condition(t, c, vn, deleting, draining)
	waitUntilDeleted(t, c, kubeletOf(vn))
	waitUntilDeleted(t, c, mapOf(vn))
	late := podOn(t, c, testkit.Namespace(t, c, "late", nil), "late", vn.Name, func(*corev1.Pod) {})
	if err := c.Client.Delete(t.Context(), kubelet, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	condition(t, c, vn, creating, draining)
	for _, obj := range []client.Object{kubeletOf(vn), mapOf(vn), serviceAccount(vn), clusterRoleBinding(vn), tenantBinding(vn), tenantRole(vn)} {
		exists(t, c, obj)
	}
	terminated(t, c, late) // as that kubelet does
	waitUntilDeleted(t, c, kubeletOf(vn))
	waitUntilDeleted(t, c, vn)
}

// A virtual kubelet that starts without a NamespaceMap decides nothing, and its node would be drained for ever.
func TestDrainMissingNamespaceMap(t *testing.T) {
	c := consumerCluster(t)
	vn := provide(t, c, "orvieto", "orvieto-1", "")
	run(t, c, vn)
	condition(t, c, vn, running, running)
	pod := podOn(t, c, testkit.Namespace(t, c, "held", nil), "web", vn.Name, func(*corev1.Pod) {})
	if err := c.Client.Delete(t.Context(), vn); err != nil {
		t.Fatal(err)
	}
	condition(t, c, vn, running, draining)
	nm := mapOf(vn)
	exists(t, c, nm)
	before := nm.UID
	if err := c.Client.Delete(t.Context(), nm); err != nil {
		t.Fatal(err)
	}
	eventually(t, c, mapOf(vn), func() error {
		again := mapOf(vn)
		if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(again), again); err != nil {
			return err
		}
		if len(again.Finalizers) > 0 && !again.DeletionTimestamp.IsZero() {
			again.Finalizers = nil
			return errors.Join(errors.New("it is being deleted"), c.Client.Update(t.Context(), again))
		}
		if again.UID == before {
			return errors.New("it is still the one before")
		}
		return nil
	})
	exists(t, c, kubeletOf(vn))
	terminated(t, c, pod)
	waitUntilDeleted(t, c, vn)
}

// A node that is lost never says that a pod ended, and the virtual node says which one that is.
func TestDrainLostNode(t *testing.T) {
	c := consumerCluster(t)
	vn := provide(t, c, "lecce", "lecce-1", "")
	run(t, c, vn)
	condition(t, c, vn, running, running)
	kubelet := podOn(t, c, vn.Namespace, "vk-lost", "cellar", func(p *corev1.Pod) { p.Labels = kubeletLabels(vn) })
	if err := c.Client.Delete(t.Context(), kubelet, client.GracePeriodSeconds(1)); err != nil {
		t.Fatal(err)
	}
	if err := c.Client.Delete(t.Context(), vn); err != nil {
		t.Fatal(err)
	}
	eventually(t, c, vn, func() error {
		for _, c := range vn.Status.Conditions {
			if c.Type == kubeletCondition && strings.HasPrefix(c.Message, "the node cellar has not confirmed that its pod vk-lost ended") {
				return nil
			}
		}
		return fmt.Errorf("it says %+v", vn.Status.Conditions)
	})
	if err := c.Client.Delete(t.Context(), kubelet, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	waitUntilDeleted(t, c, vn)
}

func TestStoppingText(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	pod := func(name string, end *time.Duration) corev1.Pod {
		out := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{NodeName: "cellar"}}
		if end != nil {
			out.DeletionTimestamp = new(metav1.NewTime(now.Add(*end)))
		}
		return out
	}
	const lost = "the node cellar has not confirmed that its pod %s ended, which was to by %s: if the node is lost for good, delete its Node"
	for name, tc := range map[string]struct {
		pods  []corev1.Pod
		text  string
		again time.Duration
	}{
		"nobody deleted it yet":   {[]corev1.Pod{pod("a", nil)}, "its pod a is stopping", 5 * time.Second},
		"it has time":             {[]corev1.Pod{pod("a", new(30*time.Second))}, "its pod a is stopping", 35 * time.Second},
		"its node may be late":    {[]corev1.Pod{pod("a", new(-4*time.Second))}, "its pod a is stopping", time.Second},
		"its node says nothing":   {[]corev1.Pod{pod("a", new(-5*time.Second))}, fmt.Sprintf(lost, "a", "2026-03-01T11:59:55Z"), time.Minute},
		"one of two says nothing": {[]corev1.Pod{pod("b", new(-time.Minute)), pod("a", nil)}, "its pod a is stopping, " + fmt.Sprintf(lost, "b", "2026-03-01T11:59:00Z"), 5 * time.Second},
	} {
		if text, again := stoppingText(tc.pods, now); text != tc.text || again != tc.again {
			t.Errorf("%s: %q, again after %s", name, text, again)
		}
	}
}

func TestPodDrainWatcher(t *testing.T) {
	c := testkit.Cluster(t)
	demo := testkit.Namespace(t, c, "leaving", nil)
	nothing := func(*corev1.Pod) {}
	const node = "leaving-1"
	one, two := podOn(t, c, demo, "one", node, nothing), podOn(t, c, demo, "two", node, nothing)
	podOn(t, c, demo, "daemon", node, func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "d", UID: "d", Controller: new(true)}}
	})
	podOn(t, c, demo, "elsewhere", "leaving-2", nothing)
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	if err := c.Client.List(t.Context(), list, client.MatchingFields{"spec.nodeName": node}); err != nil {
		t.Fatal(err)
	}
	leave := func(pod *corev1.Pod) {
		t.Helper()
		if err := c.Client.Delete(t.Context(), pod, client.GracePeriodSeconds(0)); err != nil {
			t.Fatal(err)
		}
	}
	leave(one) // before anybody looks
	late := podOn(t, c, demo, "late", node, nothing)
	d := &podDrainWatcher{cluster: c.Client, drained: make(chan event.GenericEvent), awaited: map[types.UID]bool{}}
	vn := &offv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Namespace: demo, Name: node, UID: "1"}}
	for range 2 { // as each pass does
		d.watchPodsOf(t.Context(), vn, list)
	}
	leave(two)
	leave(late)
	select {
	case e := <-d.drained:
		if client.ObjectKeyFromObject(e.Object) != client.ObjectKeyFromObject(vn) {
			t.Errorf("it is told of %s", client.ObjectKeyFromObject(e.Object))
		}
	case <-time.After(patience):
		t.Fatal("nobody tells")
	}
	var remaining corev1.PodList
	if err := c.Client.List(t.Context(), &remaining, client.InNamespace(demo), client.MatchingFields{"spec.nodeName": node}); err != nil || len(remaining.Items) != 1 {
		t.Errorf("%d pods are there when it is told, not that of the DaemonSet alone: %v", len(remaining.Items), err)
	}
}

func TestDrainRefusedEviction(t *testing.T) {
	c := consumerCluster(t)
	vn := provide(t, c, "trieste", "trieste-1", "")
	run(t, c, vn)
	condition(t, c, vn, running, running)
	demo := testkit.Namespace(t, c, "stuck", nil)
	stuck := podOn(t, c, demo, "stuck", vn.Name, func(*corev1.Pod) {})
	// Kubernetes evicts no pod that two budgets protect, and calls that an internal error.
	for _, name := range []string{"one", "two"} {
		budget := &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: demo, Name: name},
			Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "stuck"}}},
		}
		if err := c.Client.Create(t.Context(), budget); err != nil {
			t.Fatal(err)
		}
	}
	var others []*corev1.Pod
	for i := range 3 * evictionsAtOnce {
		others = append(others, podOn(t, c, demo, fmt.Sprintf("web-%d", i), vn.Name, func(*corev1.Pod) {}))
	}
	if err := c.Client.Delete(t.Context(), vn); err != nil {
		t.Fatal(err)
	}
	for _, pod := range others {
		terminated(t, c, pod)
	}
	eventually(t, c, vn, func() error {
		i := slices.IndexFunc(vn.Status.Conditions, func(c offv1beta1.VirtualNodeCondition) bool { return c.Type == nodeCondition })
		if got := vn.Status.Conditions[i].Message; !strings.HasPrefix(got, "1 pods are left: evicting pod "+demo+"/stuck: ") {
			return fmt.Errorf("the condition says %q", got)
		}
		return nil
	})
	eventOn(t, c, vn, "EvictionFailed")
	if err := c.Client.Delete(t.Context(), stuck, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	waitUntilDeleted(t, c, vn)
}

// terminated waits for the eviction of a pod and ends it, as the virtual kubelet does.
func terminated(t *testing.T, c *testkit.ControlPlane, pod *corev1.Pod) {
	t.Helper()
	eventually(t, c, pod, func() error {
		if pod.DeletionTimestamp == nil {
			return errors.New("not evicted")
		}
		return nil
	})
	if err := c.Client.Delete(t.Context(), pod, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
}

func TestDrainLostProvider(t *testing.T) {
	c := consumerCluster(t)
	vn := provide(t, c, "venice", "venice-1", "")
	run(t, c, vn)
	condition(t, c, vn, running, running)
	lost := testkit.Namespace(t, c, "lost", nil)
	pod := podOn(t, c, lost, "web", vn.Name, func(*corev1.Pod) {})
	kept := podOn(t, c, lost, "kept", vn.Name, func(p *corev1.Pod) { p.Finalizers = []string{"example.com/keeps"} })
	if err := c.Client.Delete(t.Context(), vn); err != nil {
		t.Fatal(err)
	}
	eventually(t, c, pod, func() error {
		if pod.DeletionTimestamp == nil {
			return errors.New("not evicted")
		}
		return nil
	})
	giveUp(t, c, "venice")
	waitUntilDeleted(t, c, pod)
	waitUntilDeleted(t, c, vn)
	exists(t, c, kept) // of whom nothing is waited for
	testkit.Update(t, c.Client, kept, func(p *corev1.Pod) { p.Finalizers = nil })
	waitUntilDeleted(t, c, kept)
}

// Whoever deletes the tenant namespace first ends the virtual kubelet before its pods. The NamespaceMap outlives it until
// the provider has nothing left.
func TestDrainWithoutKubelet(t *testing.T) {
	c := consumerCluster(t)
	vn := provide(t, c, "modena", "modena-1", "")
	run(t, c, vn)
	condition(t, c, vn, running, running)
	nm := mapOf(vn)
	exists(t, c, nm)
	testkit.Update(t, c.Client, nm, func(m *offv1beta1.NamespaceMap) { m.Finalizers = []string{names.ReplicatorFinalizer} })
	demo := testkit.Namespace(t, c, "orphaned", nil)
	first, second := podOn(t, c, demo, "first", vn.Name, func(*corev1.Pod) {}), podOn(t, c, demo, "second", vn.Name, func(*corev1.Pod) {})
	if err := c.Client.Delete(t.Context(), vn); err != nil {
		t.Fatal(err)
	}
	left := func(pods int) {
		t.Helper()
		eventually(t, c, vn, func() error {
			i := slices.IndexFunc(vn.Status.Conditions, func(c offv1beta1.VirtualNodeCondition) bool { return c.Type == nodeCondition })
			if got, want := vn.Status.Conditions[i].Message, drainProgress(pods, 0, nil); got != want {
				return fmt.Errorf("the condition says %q, want %q", got, want)
			}
			return nil
		})
	}
	left(2) // or a late cache has a kubelet made before the map is gone: see keepKubelet
	for _, obj := range []client.Object{nm, kubeletOf(vn)} {
		if err := c.Client.Delete(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
	terminated(t, c, first)
	left(1) // a pass that finds one pod left has looked at the other one
	exists(t, c, second)
	exists(t, c, nm)
	testkit.Update(t, c.Client, nm, func(m *offv1beta1.NamespaceMap) { m.Finalizers = nil })
	waitUntilDeleted(t, c, nm)
	// While the tenant namespace is there, that proves nothing, and a kubelet comes that may know more.
	exists(t, c, kubeletOf(vn))
	exists(t, c, nm)
	third := podOn(t, c, demo, "third", vn.Name, func(*corev1.Pod) {})
	left(2)
	exists(t, c, second)
	// With all that is in it, which nobody deletes here.
	for _, obj := range []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: vn.Namespace}}, kubeletOf(vn), nm} {
		if err := c.Client.Delete(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
	for _, obj := range []client.Object{second, third, vn} {
		waitUntilDeleted(t, c, obj)
	}
}

// Two tenant namespaces of one provider: what the one waits for does not concern the VirtualNodes of the other.
func TestDrainTwoTenantNamespaces(t *testing.T) {
	for name, tc := range map[string]struct {
		other, own bool // which have a NamespaceMap
		deletes    bool // the other one, too
		elsewhere  bool // the VirtualNode is in another namespace
		want       bool
	}{
		"no_map":              {want: true},
		"own_map":             {own: true, other: true, deletes: true},
		"other_map":           {other: true},
		"other_terminates":    {other: true, deletes: true, want: true},
		"elsewhere":           {other: true, deletes: true, elsewhere: true},
		"elsewhere_of_no_map": {elsewhere: true, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			c := testkit.NthCluster(t, consumerClusters)
			id := testkit.UniqueID()
			labels := map[string]string{names.RemoteClusterID: id, names.TenantNamespace: "true"}
			other, home := testkit.Namespace(t, c, "other", labels), testkit.Namespace(t, c, "home", labels)
			vn := vnode("twice", id, "")
			vn.Namespace = home
			if tc.elsewhere {
				vn.Namespace = testkit.Namespace(t, c, "elsewhere", map[string]string{names.AllowVirtualNodes: "true"})
			}
			addMap := func(namespace string) {
				nm := &offv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: id, Labels: map[string]string{names.ReplicationDestination: id}}}
				testkit.Create(t, c.Client, nm)
				t.Cleanup(func() { _ = c.Client.Delete(context.Background(), nm) })
			}
			if tc.other {
				addMap(other)
			}
			if tc.own {
				addMap(home)
			}
			remove := []string{vn.Namespace}
			if tc.deletes {
				remove = append(remove, other)
			}
			for _, namespace := range remove { // no controller empties namespaces: they stay
				if err := c.Client.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
					t.Fatal(err)
				}
			}
			v := &virtualNodes{client: c.Client, direct: c.Client}
			if got, err := v.isRemoteGone(t.Context(), &vn); err != nil || got != tc.want {
				t.Errorf("got %t, %v, want %t", got, err, tc.want)
			}
		})
	}
}
