// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/policy"
	"liqo.io/liqo/internal/testkit"
)

// changed is a spec after every way to change it, given what its Pod remembers.
func changed(pod, before, now *corev1.PodSpec) *corev1.PodSpec {
	out := pod.DeepCopy()
	parts := partsOf(now).changedSince(partsOf(before).String())
	for _, c := range podChanges {
		c.make(out, now.DeepCopy(), parts)
	}
	return out
}

func cpu(amount string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(amount)}}
}

func debugger(name string) corev1.EphemeralContainer {
	return corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
		Name: name, Image: "debug:1", TerminationMessagePolicy: corev1.TerminationMessageReadFile, ImagePullPolicy: corev1.PullIfNotPresent,
	}}
}

func TestPodParts(t *testing.T) {
	for _, tc := range []struct {
		rule   string
		here   func(pod *corev1.PodSpec) // what this cluster made of the pod
		change func(now *corev1.PodSpec)
		want   func(pod *corev1.PodSpec)
	}{
		{
			rule:   "an image",
			change: func(now *corev1.PodSpec) { now.Containers[0].Image = "web:2" },
			want:   func(pod *corev1.PodSpec) { pod.Containers[0].Image = "web:2" },
		},
		{
			rule:   "an image that was replaced here stays when something else changes",
			here:   func(pod *corev1.PodSpec) { pod.Containers[0].Image = "mirror/web:1" },
			change: func(now *corev1.PodSpec) { now.ActiveDeadlineSeconds = new(int64(5)) },
			want:   func(pod *corev1.PodSpec) { pod.ActiveDeadlineSeconds = new(int64(5)) },
		},
		{
			rule:   "tolerations are added, and those from here stay",
			here:   func(pod *corev1.PodSpec) { pod.Tolerations = []corev1.Toleration{{Key: "here"}} },
			change: func(now *corev1.PodSpec) { now.Tolerations = []corev1.Toleration{{Key: "late"}} },
			want:   func(pod *corev1.PodSpec) { pod.Tolerations = []corev1.Toleration{{Key: "here"}, {Key: "late"}} },
		},
		{
			rule:   "resources, and what a LimitRange gave stays",
			here:   func(pod *corev1.PodSpec) { pod.Containers[0].Resources.Limits = cpu("4").Requests },
			change: func(now *corev1.PodSpec) { now.Containers[0].Resources = cpu("2") },
			want:   func(pod *corev1.PodSpec) { pod.Containers[0].Resources.Requests = cpu("2").Requests },
		},
		{
			rule: "an ephemeral container, once",
			here: func(pod *corev1.PodSpec) { pod.EphemeralContainers = []corev1.EphemeralContainer{debugger("a")} },
			change: func(now *corev1.PodSpec) {
				now.EphemeralContainers = []corev1.EphemeralContainer{debugger("a"), debugger("b")}
			},
			want: func(pod *corev1.PodSpec) { pod.EphemeralContainers = append(pod.EphemeralContainers, debugger("b")) },
		},
		{
			rule:   "nothing else",
			change: func(now *corev1.PodSpec) { now.Containers[0].Command = []string{"sh"} },
			want:   func(*corev1.PodSpec) {},
		},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			before := &corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:1", Resources: cpu("1")}}}
			pod, now := before.DeepCopy(), before.DeepCopy()
			if tc.here != nil {
				tc.here(pod)
			}
			want := pod.DeepCopy()
			tc.want(want)
			tc.change(now)
			got := changed(pod, before, now)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(got, changed(got, before, now)); diff != "" {
				t.Errorf("changing it again does something:\n%s", diff)
			}
			if diff := cmp.Diff(got, changed(got, now, now)); diff != "" {
				t.Errorf("a pod that remembers is changed:\n%s", diff)
			}
		})
	}
}

// Whatever a ShadowPod becomes, only what the API server lets change is changed, and once.
func TestPodChanges(t *testing.T) {
	container := rapid.Custom(func(t *rapid.T) corev1.Container {
		c := corev1.Container{Name: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name"), Image: rapid.StringN(1, 3, 3).Draw(t, "image")}
		if rapid.Bool().Draw(t, "command") {
			c.Command = []string{rapid.String().Draw(t, "command")}
		}
		if rapid.Bool().Draw(t, "resources") {
			c.Resources = cpu(fmt.Sprint(rapid.IntRange(0, 9).Draw(t, "cpu")))
		}
		return c
	})
	spec := rapid.Custom(func(t *rapid.T) *corev1.PodSpec {
		distinct := func(c corev1.Container) string { return c.Name }
		out := &corev1.PodSpec{
			Containers:     rapid.SliceOfDistinct(container, distinct).Draw(t, "containers"),
			InitContainers: rapid.SliceOfDistinct(container, distinct).Draw(t, "init containers"),
			NodeName:       rapid.String().Draw(t, "node"),
		}
		for _, key := range rapid.SliceOf(rapid.String()).Draw(t, "tolerations") {
			out.Tolerations = append(out.Tolerations, corev1.Toleration{Key: key})
		}
		for _, name := range rapid.SliceOfDistinct(rapid.SampledFrom([]string{"x", "y"}), rapid.ID).Draw(t, "ephemeral") {
			out.EphemeralContainers = append(out.EphemeralContainers, debugger(name))
		}
		return out
	})
	rapid.Check(t, func(t *rapid.T) {
		pod, before, now := spec.Draw(t, "pod"), spec.Draw(t, "before"), spec.Draw(t, "now")
		once := changed(pod, before, now)
		if err := policy.CheckShadowPodUpdate(&offv1beta1.ShadowPod{Spec: offv1beta1.ShadowPodSpec{Pod: *pod}}, &offv1beta1.ShadowPod{Spec: offv1beta1.ShadowPodSpec{Pod: *once}}, policy.RemotePods{}); err != nil {
			t.Fatal(err)
		}
		if len(once.Tolerations) < len(pod.Tolerations) || len(once.EphemeralContainers) < len(pod.EphemeralContainers) {
			t.Fatal("something was taken away")
		}
		if diff := cmp.Diff(once, changed(once, before, now)); diff != "" {
			t.Fatalf("twice is not once:\n%s", diff)
		}
	})
}

func TestPodUpdates(t *testing.T) {
	c := provider(t, NamespaceMapOptions{PodSecurity: policy.PodSecurityBaseline})
	nm := consumer(t, c, "amber", map[string]string{"demo": "demo-amber"})
	mapping(t, c, nm, "demo", "demo-amber", offv1beta1.MappingAccepted)
	ctx := t.Context()
	sp, pod := shadowOf("demo-amber", "web", "amber"), podNamed("demo-amber", "web")
	sp.Spec.Pod.Containers[0].Resources = cpu("100m")
	if err := c.Client.Create(ctx, sp); err != nil {
		t.Fatal(err)
	}
	eventually(t, c, pod, func() error { return nil })
	uid := pod.UID
	edit := func(change func()) {
		t.Helper()
		before := sp.DeepCopy()
		change()
		if err := c.Client.Patch(ctx, sp, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
	}
	remembered := func() error {
		if want := partsOf(&sp.Spec.Pod).String(); pod.Annotations[followedParts] != want {
			return fmt.Errorf("the pod remembers %s, want %s", pod.Annotations[followedParts], want)
		}
		return nil
	}

	t.Run("mutable fields are updated in place", func(t *testing.T) {
		edit(func() {
			spec := &sp.Spec.Pod
			spec.Containers[0].Image, spec.Containers[0].Resources = "web:2", cpu("200m")
			spec.Tolerations = []corev1.Toleration{{Key: "late", Operator: corev1.TolerationOpExists}}
			spec.EphemeralContainers = []corev1.EphemeralContainer{debugger("debug")}
		})
		eventually(t, c, pod, func() error {
			main := pod.Spec.Containers[0]
			got := fmt.Sprintf("%s %s %d", main.Image, main.Resources.Requests.Cpu(), len(pod.Spec.EphemeralContainers))
			if want := "web:2 200m 1"; got != want {
				return fmt.Errorf("the pod has %s, want %s", got, want)
			}
			return remembered()
		})
		last := len(pod.Spec.Tolerations) - 1
		if pod.UID != uid || pod.Spec.Tolerations[last].Key != "late" {
			t.Errorf("the pod is %s with %v", pod.UID, pod.Spec.Tolerations)
		}
	})
	t.Run("local change stays until the consumer changes the field", func(t *testing.T) {
		before := pod.DeepCopy()
		pod.Spec.Containers[0].Image = "mirror/web:2"
		if err := c.Client.Patch(ctx, pod, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
		edit(func() { sp.Spec.Pod.ActiveDeadlineSeconds = new(int64(100)) })
		eventually(t, c, pod, remembered)
		if got := pod.Spec.Containers[0].Image; got != "mirror/web:2" || *pod.Spec.ActiveDeadlineSeconds != 100 {
			t.Errorf("image %s, deadline %v", got, pod.Spec.ActiveDeadlineSeconds)
		}
	})
	t.Run("rejected change is reported once", func(t *testing.T) {
		edit(func() { sp.Spec.Pod.ActiveDeadlineSeconds, sp.Labels["app"] = new(int64(200)), "renamed" })
		waitForEvent(t, c, sp, "FailedUpdatePod", "activeDeadlineSeconds")
		eventually(t, c, pod, func() error {
			if pod.Labels["app"] != "renamed" {
				return fmt.Errorf("labels are %v", pod.Labels)
			}
			return remembered()
		})
		if *pod.Spec.ActiveDeadlineSeconds != 100 {
			t.Errorf("the deadline is %d", *pod.Spec.ActiveDeadlineSeconds)
		}
	})
	t.Run("rejected changes are retried one by one", func(t *testing.T) {
		edit(func() {
			spec := &sp.Spec.Pod
			admin := debugger("admin")
			admin.SecurityContext = &corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"NET_ADMIN"}}}
			spec.EphemeralContainers = append(spec.EphemeralContainers, admin, debugger("plain"))
			spec.Containers[0].Image, spec.ActiveDeadlineSeconds = "web:3", new(int64(300))
			spec.Tolerations = append(spec.Tolerations, corev1.Toleration{Key: "later", Operator: corev1.TolerationOpExists})
		})
		waitForEvent(t, c, sp, "FailedUpdatePod", "NET_ADMIN")
		waitForEvent(t, c, sp, "FailedUpdatePod", "activeDeadlineSeconds")
		eventually(t, c, pod, func() error {
			var debug []string
			for _, c := range pod.Spec.EphemeralContainers {
				debug = append(debug, c.Name)
			}
			last := pod.Spec.Tolerations[len(pod.Spec.Tolerations)-1].Key
			got := fmt.Sprintf("%s %s %v %d", pod.Spec.Containers[0].Image, last, debug, *pod.Spec.ActiveDeadlineSeconds)
			if want := "web:3 later [debug plain] 100"; got != want {
				return fmt.Errorf("the pod has %s, want %s", got, want)
			}
			return remembered()
		})
		edit(func() { sp.Spec.Pod.Containers[0].Image = "web:4" })
		eventually(t, c, pod, func() error {
			if got := pod.Spec.Containers[0].Image; got != "web:4" {
				return fmt.Errorf("the image is %s", got)
			}
			return remembered()
		})
		if got := countEvents(t, c, sp, "FailedUpdatePod", "NET_ADMIN"); got != 1 {
			t.Errorf("the debug container is told of %d times", got)
		}
	})
	t.Run("ephemeral containers are added after creation", func(t *testing.T) {
		if err := c.Client.Delete(ctx, pod, client.GracePeriodSeconds(0)); err != nil {
			t.Fatal(err)
		}
		eventually(t, c, pod, func() error {
			if pod.UID == uid {
				return errors.New("still the old pod")
			}
			return nil
		})
	})
}

func TestResizeOverQuota(t *testing.T) {
	c := enforcing(t, 1)
	remoteNamespace, _ := twinOf(t, c, "ochre", cpus("3"), "user-ochre")
	small, large := ask(t, c, asked(remoteNamespace, "small", "ochre", "user-ochre", "1")), ask(t, c, asked(remoteNamespace, "large", "ochre", "user-ochre", "1"))
	resize := func(sp *offv1beta1.ShadowPod, to string) {
		t.Helper()
		before := sp.DeepCopy()
		sp.Spec.Pod.Containers[0].Resources.Requests = cpus(to)
		if err := c.Client.Patch(t.Context(), sp, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
	}
	has := func(sp *offv1beta1.ShadowPod, want string) {
		t.Helper()
		pod := podNamed(remoteNamespace, sp.Name)
		eventually(t, c, pod, func() error {
			if got := pod.Spec.Containers[0].Resources.Requests.Cpu().String(); got != want {
				return fmt.Errorf("the pod has %s, want %s", got, want)
			}
			return nil
		})
	}
	runs(t, c, small)
	runs(t, c, large)
	resize(large, "2")
	has(large, "2")
	resize(small, "2")
	waitForEvent(t, c, small, "FailedUpdatePod", "peering cpu quota usage exceeded - requested 2 of 3")
	has(small, "1")
	before := small.DeepCopy()
	small.Labels["app"] = "renamed"
	if err := c.Client.Patch(t.Context(), small, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	pod := podNamed(remoteNamespace, small.Name)
	eventually(t, c, pod, func() error {
		if pod.Labels["app"] != "renamed" {
			return errors.New("labels wait with the resources")
		}
		return nil
	})
	resize(large, "1")
	has(large, "1")
	has(small, "2")
}

// What a pod is to have more is nobody else's when the answer is lost, until it is known what became of it.
func TestResizeUnanswered(t *testing.T) {
	c := testkit.Cluster(t, testkit.WithControllers("serviceaccount-controller"))
	remoteNamespace := testkit.Namespace(t, c, "twin", map[string]string{names.RemoteClusterID: "plum"})
	home := testkit.Namespace(t, c, "tenant", map[string]string{names.TenantNamespace: "true", names.RemoteClusterID: "plum"})
	q := offv1beta1.Quota{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "q", ResourceVersion: "1"}, Spec: offv1beta1.QuotaSpec{User: "plum-a", Resources: cpus("3")}}
	for name, tc := range map[string]struct {
		done bool
		err  error
		kept bool // before anything is seen
	}{
		"and that was made":        {true, apierrors.NewTimeoutError("resize", 1), true},
		"and that was not made":    {false, errors.New("the connection broke"), true},
		"because it was forbidden": {false, apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "web", nil), false},
	} {
		t.Run(name, func(t *testing.T) {
			cut := interceptor.NewClient(c.Client, interceptor.Funcs{
				List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
					list.(*offv1beta1.QuotaList).Items = []offv1beta1.Quota{q}
					return nil
				},
				SubResourcePatch: func(ctx context.Context, next client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
					if tc.done {
						if err := next.SubResource(sub).Patch(ctx, obj, patch, opts...); err != nil {
							t.Error(err)
						}
					}
					return tc.err
				},
			})
			s := &shadowPods{client: cut, live: c.Client, quotas: newQuotaCache(true, func(types.NamespacedName) {})}
			sp := asked(remoteNamespace, "web-"+strings.ReplaceAll(name, " ", "-"), "plum", "plum-a", "1")
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: remoteNamespace, Name: sp.Name, Labels: podLabels(sp), Annotations: podAnnotations(sp)}, Spec: *sp.Spec.Pod.DeepCopy()}
			testkit.Create(t, c.Client, pod)
			s.quotas.ObservePod(pod)
			sp.Spec.Pod.Containers[0].Resources = cpu("2")
			want := partsOf(&sp.Spec.Pod)
			if reached, err := s.updatePod(t.Context(), sp, pod, want); reached == want.String() || !errors.Is(err, tc.err) {
				t.Fatalf("it is not tried again: %v", err)
			}
			room := func(want bool, when string) {
				t.Helper()
				other := asked(remoteNamespace, "other", "plum", "plum-a", "2")
				if err := s.reserveQuota(t.Context(), other, &other.Spec.Pod); (err == nil) != want {
					t.Errorf("%s: %v", when, err)
				}
				s.quotas.Withdraw(other)
				s.quotas.Release(client.ObjectKeyFromObject(other))
			}
			room(!tc.kept, "after the request")
			s.quotas.ObservePod(pod)
			room(!tc.kept, "after an event of before")
			live := pod.DeepCopy()
			if err := c.Client.Patch(t.Context(), live, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"later":"yes"}}}`))); err != nil {
				t.Fatal(err)
			}
			s.quotas.ObservePod(live)
			room(!tc.done, "after a later event")
			if key := client.ObjectKeyFromObject(pod); s.quotas.IsReserved(key) || s.quotas.IsUncertain(key) {
				t.Error("it is still in doubt")
			}
		})
	}
}

// Who wanted more, did not get it and wants it no more leaves it to others.
func TestResizeWithdrawn(t *testing.T) {
	for what, change := range map[string]func(*corev1.Pod){
		"by asking for what the pod has": func(*corev1.Pod) {},
		"by the end of the pod":          func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodSucceeded },
		"by the deletion of the pod":     func(pod *corev1.Pod) { pod.DeletionTimestamp = new(metav1.Now()) },
	} {
		for when, offered := range map[string]bool{"while it waits": false, "after its share was given": true} {
			t.Run(what+" "+when, func(t *testing.T) {
				w := newQuotaModel(3)
				s := &shadowPods{quotas: w.quotas}
				sp := w.shadow("small", 1)
				pod := &corev1.Pod{ObjectMeta: *sp.ObjectMeta.DeepCopy(), Spec: sp.Spec.Pod}
				pod.UID, pod.Labels, pod.Annotations = "1", podLabels(sp), podAnnotations(sp)
				w.quotas.ObservePod(pod)
				if err := w.try("large", 2); err != nil {
					t.Fatal(err)
				}
				if err := w.quotas.Reserve(w.shadow("small", 3), w.quota, true); err == nil {
					t.Fatal("there is room for more")
				}
				if err := w.try("next", 2); err == nil {
					t.Fatal("there is room for the next")
				}
				free := func() { w.quotas.Release(types.NamespacedName{Namespace: "twin", Name: "large"}) }
				if offered {
					free()
				}
				change(pod)
				if err := s.followChanges(t.Context(), sp, pod); err != nil {
					t.Fatal(err)
				}
				if !offered {
					free()
				}
				if !w.woken["next"] {
					t.Error("the next one still waits")
				}
			})
		}
	}
}

func TestResizeIncrease(t *testing.T) {
	pod := &corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:1", Resources: cpu("2")}}}
	for amount, more := range map[string]bool{"1": false, "2": false, "3": true} {
		want := pod.DeepCopy()
		want.Containers[0].Image, want.Containers[0].Resources = "web:2", cpu(amount)
		if got := asksForMore(pod, want, partsOf(want)); got != more {
			t.Errorf("with %s of 2 it asks for more: %t", amount, got)
		}
	}
}

// A kubelet reports an end for every pod that is deleted. It is that of the pod, and not of the ShadowPod.
func TestDeletedPodPhase(t *testing.T) {
	c := provider(t, NamespaceMapOptions{})
	nm := consumer(t, c, "coral", map[string]string{"demo": "demo-coral"})
	mapping(t, c, nm, "demo", "demo-coral", offv1beta1.MappingAccepted)
	ctx := t.Context()
	sp, pod := shadowOf("demo-coral", "web", "coral"), podNamed("demo-coral", "web")
	if err := c.Client.Create(ctx, sp); err != nil {
		t.Fatal(err)
	}
	eventually(t, c, pod, func() error { return nil })
	uid := pod.UID
	node := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: pod.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: "worker"}}
	if err := c.Client.SubResource("binding").Create(ctx, pod, node); err != nil {
		t.Fatal(err)
	}
	report := func(phase corev1.PodPhase, state corev1.ContainerState) {
		t.Helper()
		testkit.UpdateStatus(t, c.Client, pod, func(p *corev1.Pod) {
			p.Status.Phase = phase
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "web", Image: "web:1", State: state}}
		})
	}
	report(corev1.PodRunning, corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})
	// API servers decide by what they have cached whether a pod is on a node, where its kubelet has the last word.
	version := pod.ResourceVersion
	eventually(t, c, pod, func() error {
		return c.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod, &client.GetOptions{Raw: &metav1.GetOptions{ResourceVersion: version}})
	})
	if err := c.Client.Delete(ctx, pod); err != nil {
		t.Fatal(err)
	}
	report(corev1.PodFailed, corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 143, FinishedAt: metav1.NewTime(time.Now().Add(time.Second))}})
	// A label that arrives shows that the end was seen.
	before := sp.DeepCopy()
	sp.Labels["app"] = "later"
	if err := c.Client.Patch(ctx, sp, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	if err := c.Client.Delete(ctx, pod, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, patience, func() error {
		if err := c.Client.Get(ctx, client.ObjectKeyFromObject(sp), pod); err != nil {
			return err
		}
		if pod.UID == uid || pod.Labels["app"] != "later" || pod.Labels[names.ManagedBy] != madeFrom {
			return fmt.Errorf("the pod is %s with %v", pod.UID, pod.Labels)
		}
		return nil
	})
}

func TestPodUpdatesLateCache(t *testing.T) {
	c := testkit.Cluster(t)
	remoteNamespace := testkit.Namespace(t, c, "late", nil)
	sp := asked(remoteNamespace, "web", "plum", "plum-a", "1")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: remoteNamespace, Name: "web", Annotations: podAnnotations(sp)}, Spec: *sp.Spec.Pod.DeepCopy()}
	late := pod.DeepCopy()
	sp.Spec.Pod.Containers[0].Image = "web:2"
	pod.Annotations = podAnnotations(sp)
	pod.Spec.Containers[0].Image = "mirror/web:2"
	testkit.Create(t, c.Client, pod)
	late.UID = pod.UID

	s := &shadowPods{client: c.Client, live: c.Client, quotas: newQuotaCache(false, func(types.NamespacedName) {})}
	want := partsOf(&sp.Spec.Pod)
	if reached, err := s.updatePod(t.Context(), sp, late, want); err != nil || reached != want.String() {
		t.Fatalf("reached %s: %v", reached, err)
	}
	if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil || pod.Spec.Containers[0].Image != "mirror/web:2" {
		t.Errorf("the image is %s: %v", pod.Spec.Containers[0].Image, err)
	}
}
