// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package consumer

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/flowcontrol"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/policy"
	"liqo.io/liqo/internal/testkit"
)

func template(app string, policy corev1.RestartPolicy) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}},
		Spec:       corev1.PodSpec{RestartPolicy: policy, Containers: []corev1.Container{{Name: "main", Image: "web:1"}}},
	}
}

func replicaSet(namespace, name string, replicas int32) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: appsv1.ReplicaSetSpec{
		Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}, Template: template(name, corev1.RestartPolicyAlways),
	}}
}

func create(t *testing.T, c *testkit.ControlPlane, objects ...client.Object) {
	t.Helper()
	for _, obj := range objects {
		if err := c.Client.Create(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
}

func podsOf(t *testing.T, c *testkit.ControlPlane, namespace, app string) map[types.UID]*corev1.Pod {
	t.Helper()
	list := &corev1.PodList{}
	if err := c.Client.List(t.Context(), list, client.InNamespace(namespace), client.MatchingLabels{"app": app}); err != nil {
		t.Fatal(err)
	}
	out := map[types.UID]*corev1.Pod{}
	for i := range list.Items {
		out[list.Items[i].UID] = &list.Items[i]
	}
	return out
}

// made waits for as many pods of an owner.
func made(t *testing.T, c *testkit.ControlPlane, namespace, app string, count int) map[types.UID]*corev1.Pod {
	t.Helper()
	var pods map[types.UID]*corev1.Pod
	testkit.Eventually(t, patience, func() error {
		if pods = podsOf(t, c, namespace, app); len(pods) != count {
			return fmt.Errorf("%d pods of %s, want %d", len(pods), app, count)
		}
		return nil
	})
	return pods
}

func offloaded(namespace string, strategy offv1beta1.PodOffloadingStrategyType) *offv1beta1.NamespaceOffloading {
	return &offv1beta1.NamespaceOffloading{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: names.NamespaceOffloading},
		Spec:       offv1beta1.NamespaceOffloadingSpec{PodOffloadingStrategy: strategy},
	}
}

func misplacedAre(t *testing.T, c *testkit.ControlPlane, nso *offv1beta1.NamespaceOffloading, want int32) {
	t.Helper()
	eventually(t, c, nso, func() error {
		if nso.Status.MisplacedPods != want {
			return fmt.Errorf("%d misplaced pods, want %d", nso.Status.MisplacedPods, want)
		}
		return nil
	})
}

func eventOn(t *testing.T, c *testkit.ControlPlane, obj client.Object, reason string) *eventsv1.Event {
	t.Helper()
	var found *eventsv1.Event
	testkit.Eventually(t, patience, func() error {
		list := &eventsv1.EventList{}
		if err := c.Client.List(t.Context(), list, client.InNamespace(obj.GetNamespace())); err != nil {
			return err
		}
		is := func(e eventsv1.Event) bool { return e.Regarding.UID == obj.GetUID() && e.Reason == reason }
		i := slices.IndexFunc(list.Items, is)
		if i < 0 {
			return fmt.Errorf("no event %s on %s", reason, obj.GetName())
		}
		if slices.ContainsFunc(list.Items[i+1:], is) {
			t.Fatalf("more than one event %s on %s", reason, obj.GetName())
		}
		found = &list.Items[i]
		return nil
	})
	return found
}

func TestSteeringToleration(t *testing.T) {
	c := consumerCluster(t)
	provide(t, c, "early", "early-1", "")
	namespace := testkit.Namespace(t, c, "early", nil)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"}, Spec: template("web", corev1.RestartPolicyNever).Spec}
	pod.Spec.Tolerations = []corev1.Toleration{{Key: "mine", Operator: corev1.TolerationOpExists}}
	pod.Spec.NodeSelector = map[string]string{names.NodeType: names.NodeTypeVirtualNode}
	placed := pod.DeepCopy()
	placed.Name, placed.Spec.NodeName = "placed", "worker-x"
	create(t, c, pod, placed)
	nso := offloaded(namespace, offv1beta1.LocalAndRemotePodOffloadingStrategyType)
	create(t, c, nso)
	eventually(t, c, pod, func() error {
		if !slices.ContainsFunc(pod.Spec.Tolerations, func(tol corev1.Toleration) bool { return tol == policy.VirtualNodeToleration() }) {
			return fmt.Errorf("tolerations = %v", pod.Spec.Tolerations)
		}
		return nil
	})
	if !slices.ContainsFunc(pod.Spec.Tolerations, func(tol corev1.Toleration) bool { return tol.Key == "mine" }) {
		t.Error("the pod's own toleration is gone")
	}
	misplacedAre(t, c, nso, 0)
	exists(t, c, placed)
	if slices.ContainsFunc(placed.Spec.Tolerations, func(tol corev1.Toleration) bool { return tol == policy.VirtualNodeToleration() }) {
		t.Error("a pod that has a node was changed")
	}
	late := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "late"}, Spec: template("web", corev1.RestartPolicyNever).Spec}
	create(t, c, late)
	eventually(t, c, late, func() error {
		if !slices.ContainsFunc(late.Spec.Tolerations, func(tol corev1.Toleration) bool { return tol == policy.VirtualNodeToleration() }) {
			return fmt.Errorf("a pod that escaped the webhook: tolerations = %v", late.Spec.Tolerations)
		}
		return nil
	})
}

// steered plays the webhook for the pods that an owner makes from now on.
func steered(t *testing.T, c *testkit.ControlPlane, rs *appsv1.ReplicaSet, nso *offv1beta1.NamespaceOffloading) {
	t.Helper()
	eventually(t, c, rs, func() error {
		before := rs.DeepCopy()
		pod := &corev1.Pod{Spec: rs.Spec.Template.Spec}
		policy.SteerPod(pod, nso, "")
		rs.Spec.Template.Spec = pod.Spec
		return c.Client.Patch(t.Context(), rs, client.MergeFrom(before))
	})
}

func TestSteeringRecreation(t *testing.T) {
	c := consumerCluster(t, "replicaset-controller")
	provide(t, c, "anew", "anew-1", "")
	namespace := testkit.Namespace(t, c, "anew", nil)
	nso := offloaded(namespace, offv1beta1.RemotePodOffloadingStrategyType)
	web, broken := replicaSet(namespace, "web", 30), replicaSet(namespace, "broken", 2)
	bare := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "bare"}, Spec: template("bare", corev1.RestartPolicyAlways).Spec}
	create(t, c, web, broken, bare)
	old, brokenBefore := made(t, c, namespace, "web", 30), made(t, c, namespace, "broken", 2)
	steered(t, c, web, nso)
	create(t, c, nso)

	t.Run("each once", func(t *testing.T) {
		testkit.Eventually(t, patience, func() error {
			now := podsOf(t, c, namespace, "web")
			for uid := range old {
				if _, still := now[uid]; still {
					return fmt.Errorf("an old pod is still there (%d pods)", len(now))
				}
			}
			if len(now) != 30 {
				return fmt.Errorf("%d pods", len(now))
			}
			return nil
		})
		misplacedAre(t, c, nso, 3) // bare, and the two that the owner made as they were
		after := podsOf(t, c, namespace, "web")
		testkit.Update(t, c.Client, nso, func(n *offv1beta1.NamespaceOffloading) { n.Annotations = map[string]string{"again": "yes"} })
		misplacedAre(t, c, nso, 3)
		if now := podsOf(t, c, namespace, "web"); !maps.EqualFunc(after, now, func(a, b *corev1.Pod) bool { return a.UID == b.UID }) {
			t.Error("pods that fit were made anew")
		}
	})
	t.Run("unchanged recreated pods are not deleted again", func(t *testing.T) {
		for uid, pod := range made(t, c, namespace, "broken", 2) {
			if brokenBefore[uid] == nil {
				eventOn(t, c, pod, "Misplaced")
			}
		}
	})
	t.Run("pod without owner stays, with event", func(t *testing.T) {
		exists(t, c, bare)
		if note := eventOn(t, c, bare, "Misplaced").Note; note != explainPending(bare) {
			t.Errorf("event = %q", note)
		}
		if err := c.Client.Delete(t.Context(), bare, client.GracePeriodSeconds(0)); err != nil {
			t.Fatal(err)
		}
		misplacedAre(t, c, nso, 2)
	})
}

func TestSteeringJob(t *testing.T) {
	c := consumerCluster(t, "job-controller")
	provide(t, c, "batch", "batch-1", "")
	namespace := testkit.Namespace(t, c, "batch", nil)
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "sum"}, Spec: batchv1.JobSpec{
		BackoffLimit: new(int32(0)), Template: template("sum", corev1.RestartPolicyNever),
	}}
	create(t, c, job)
	before := made(t, c, namespace, "sum", 1)
	nso := offloaded(namespace, offv1beta1.RemotePodOffloadingStrategyType)
	create(t, c, nso)
	misplacedAre(t, c, nso, 1)
	for _, pod := range made(t, c, namespace, "sum", 1) {
		if before[pod.UID] == nil {
			t.Error("the Job's pod was made anew")
		}
		eventOn(t, c, pod, "Misplaced")
	}
	exists(t, c, job)
	if job.Status.Failed != 0 {
		t.Errorf("the Job counts %d failures", job.Status.Failed)
	}
}

// owned gives a pod an owner of a kind that the garbage collector does not know.
func owned(p *corev1.Pod) {
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "Thing", Name: p.Name, UID: types.UID(p.Name), Controller: new(true)}}
}

func TestSteeringRunningPods(t *testing.T) {
	c := consumerCluster(t)
	vn := provide(t, c, "strict", "strict-1", "")
	virtual := run(t, c, vn)
	real := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "strict-worker"}}
	create(t, c, real)
	t.Cleanup(func() { _ = c.Client.Delete(context.Background(), real) })
	namespace := testkit.Namespace(t, c, "strict", nil)
	here, existing := podOn(t, c, namespace, "here", real.Name, owned), podOn(t, c, namespace, "there", virtual.Name, owned)
	guarded := podOn(t, c, namespace, "guarded", real.Name, owned)
	bare := podOn(t, c, namespace, "bare", real.Name, func(*corev1.Pod) {})
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "guarded"},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "guarded"}}},
	}
	nso := offloaded(namespace, offv1beta1.RemotePodOffloadingStrategyType)
	create(t, c, budget, nso)
	phaseIs(t, c, nso, offv1beta1.InProgressOffloadingPhaseType)
	misplacedAre(t, c, nso, 0)
	for _, pod := range []*corev1.Pod{here, existing, guarded, bare} {
		exists(t, c, pod)
		if pod.DeletionTimestamp != nil {
			t.Fatalf("pod %s was evicted without being asked for", pod.Name)
		}
	}
	evict := func(value string) {
		eventually(t, c, nso, func() error {
			before := nso.DeepCopy()
			nso.Annotations = map[string]string{names.EvictMisplacedPods: value}
			return c.Client.Patch(t.Context(), nso, client.MergeFrom(before))
		})
	}
	evict("yes")
	if note := eventOn(t, c, nso, "InvalidAnnotation").Note; !strings.Contains(note, names.EvictMisplacedPods+` is "yes"`) {
		t.Errorf("the event says %q", note)
	}
	evict("true")
	terminated(t, c, here)
	eventOn(t, c, nso, "InvalidAnnotation") // still the one
	misplacedAre(t, c, nso, 1)              // bare, and not the guarded one, which is ours to move
	eventOn(t, c, bare, "Misplaced")
	for _, pod := range []*corev1.Pod{existing, guarded, bare} {
		exists(t, c, pod)
		if pod.DeletionTimestamp != nil {
			t.Errorf("pod %s was evicted", pod.Name)
		}
	}
	if err := c.Client.Delete(t.Context(), budget); err != nil {
		t.Fatal(err)
	}
	terminated(t, c, guarded)
	misplacedAre(t, c, nso, 1)
}

func TestSteeringRate(t *testing.T) {
	c := consumerCluster(t)
	namespace := testkit.Namespace(t, c, "limited", nil)
	now := testingclock.NewFakeClock(time.Unix(1000, 0))
	s := &podSteering{
		direct: c.Client, recorder: events.NewFakeRecorder(100),
		limit: flowcontrol.NewTokenBucketPassiveRateLimiterWithClock(deletionsPerSecond, deletionsAtOnce, now),
	}
	const all = 2*deletionsAtOnce + 5
	for i := range all {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprint("p", i)}, Spec: template("web", corev1.RestartPolicyAlways).Spec}
		owned(pod)
		create(t, c, pod)
	}
	remaining := func() (out []victim) {
		list := &corev1.PodList{}
		if err := c.Client.List(t.Context(), list, client.InNamespace(namespace)); err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			out = append(out, victim{pod: &list.Items[i], remedy: policy.Recreate})
		}
		return out
	}
	for round, want := range []int{all - deletionsAtOnce, all - 2*deletionsAtOnce, 0} {
		done, err := s.applyPlan(t.Context(), evictionPlan{remove: remaining()})
		if err != nil {
			t.Fatal(err)
		}
		if again, err := s.applyPlan(t.Context(), evictionPlan{remove: remaining()}); err != nil || again.moved > 0 {
			t.Errorf("round %d: %d more pods in the same moment (%v)", round, again.moved, err)
		}
		if got := len(remaining()); got != want || done.limited != (want > 0) {
			t.Errorf("round %d: %d pods are left, want %d; limited %v", round, got, want, done.limited)
		}
		now.Step(time.Second)
	}
}

func TestSteeringDeselectedProvider(t *testing.T) {
	c := consumerCluster(t)
	left, kept := provide(t, c, "deselected", "deselected-1", "pick=yes"), provide(t, c, "selected", "selected-1", "pick=yes")
	virtual := run(t, c, left)
	here := run(t, c, kept)
	nso := extend(t, c, func(s *offv1beta1.NamespaceOffloadingSpec) { s.ClusterSelector = choosing("pick=yes") })
	remoteNamespace := nso.Namespace + "-home"
	for _, vn := range []*offv1beta1.VirtualNode{left, kept} {
		desires(t, c, vn, nso.Namespace, remoteNamespace)
		answer(t, c, vn, nso.Namespace, remoteNamespace, offv1beta1.MappingAccepted)
	}
	ran := podOn(t, c, nso.Namespace, "ran", virtual.Name, owned)
	bound := func(name, node string) *corev1.Pod {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: nso.Namespace, Name: name}, Spec: template("web", corev1.RestartPolicyAlways).Spec}
		pod.Spec.NodeName = node
		owned(pod)
		create(t, c, pod)
		return pod
	}
	waits, otherPod := bound("waits", virtual.Name), bound("elsewhere", here.Name)
	testkit.Update(t, c.Client, left, func(vn *offv1beta1.VirtualNode) { vn.Spec.Labels["pick"] = "no" })
	testkit.Update(t, c.Client, virtual, func(node *corev1.Node) { node.Labels["pick"] = "no" })
	desires(t, c, left, nso.Namespace, "")
	exists(t, c, waits)
	if waits.DeletionTimestamp != nil {
		t.Error("a pod was deleted before its twin namespace was gone")
	}
	answer(t, c, left, nso.Namespace, remoteNamespace, "")
	eventually(t, c, waits, func() error {
		if waits.DeletionTimestamp == nil {
			return fmt.Errorf("it waits on a node that it never reaches")
		}
		return nil
	})
	for _, pod := range []*corev1.Pod{ran, otherPod} {
		if exists(t, c, pod); pod.DeletionTimestamp != nil {
			t.Errorf("%s was deleted", pod.Name)
		}
	}
}

func TestSteeringAfterOffloading(t *testing.T) {
	c := consumerCluster(t)
	vn := provide(t, c, "stranded", "stranded-1", "")
	virtual := run(t, c, vn)
	nso := extend(t, c, func(s *offv1beta1.NamespaceOffloadingSpec) { s.ClusterSelector = choosing("name:stranded-1") })
	desires(t, c, vn, nso.Namespace, nso.Namespace+"-home")
	ran := podOn(t, c, nso.Namespace, "ran", virtual.Name, owned)
	waits := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: nso.Namespace, Name: "waits"}, Spec: template("web", corev1.RestartPolicyAlways).Spec}
	waits.Spec.NodeName = virtual.Name
	owned(waits)
	create(t, c, waits)
	if err := c.Client.Delete(t.Context(), nso); err != nil {
		t.Fatal(err)
	}
	waitUntilDeleted(t, c, nso)
	eventually(t, c, waits, func() error {
		if waits.DeletionTimestamp == nil {
			return fmt.Errorf("it waits on a node that it never reaches")
		}
		return nil
	})
	exists(t, c, ran)
	if ran.DeletionTimestamp != nil {
		t.Error("a pod that ran is the virtual kubelet's to end")
	}
}
