// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/multicluster"
	"liqo.io/liqo/internal/testkit"
)

func TestStatusWriterStartDelay(t *testing.T) {
	condition := func(kind corev1.PodConditionType, status corev1.ConditionStatus, reason string) corev1.PodCondition {
		return corev1.PodCondition{Type: kind, Status: status, Reason: reason}
	}
	waiting := func(reason string) []corev1.ContainerStatus {
		return []corev1.ContainerStatus{{Name: "app", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}}}
	}
	for name, c := range map[string]struct {
		change func(local, remote *corev1.Pod)
		due    bool
	}{
		"placed":               {func(_, _ *corev1.Pod) {}, false},
		"being_made":           {func(_, r *corev1.Pod) { r.Status.ContainerStatuses = waiting("ContainerCreating") }, false},
		"its_init_comes_first": {func(_, r *corev1.Pod) { r.Status.ContainerStatuses = waiting("PodInitializing") }, false},
		"no_image":             {func(_, r *corev1.Pod) { r.Status.ContainerStatuses = waiting("ErrImagePull") }, true},
		"no_configuration":     {func(_, r *corev1.Pod) { r.Status.ContainerStatuses = waiting("CreateContainerConfigError") }, true},
		"no_place": {func(_, r *corev1.Pod) {
			r.Status.Conditions = []corev1.PodCondition{condition(corev1.PodScheduled, corev1.ConditionFalse, corev1.PodReasonUnschedulable)}
		}, true},
		"its_init_runs": {func(_, r *corev1.Pod) {
			r.Status.InitContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
		}, true},
		"running":                 {func(_, r *corev1.Pod) { r.Status.Phase = corev1.PodRunning }, true},
		"ended":                   {func(_, r *corev1.Pod) { r.Status.Phase = corev1.PodFailed }, true},
		"going_there":             {func(_, r *corev1.Pod) { r.DeletionTimestamp = new(metav1.Now()) }, true},
		"going_here":              {func(l, _ *corev1.Pod) { l.DeletionTimestamp = new(metav1.Now()) }, true},
		"ran_before":              {func(l, _ *corev1.Pod) { l.Status.Phase = corev1.PodRunning }, true},
		"another_reason_is_shown": {func(l, _ *corev1.Pod) { l.Status.Reason = "OffloadingBackOff" }, true},
		"a_refusal_is_shown": {func(l, _ *corev1.Pod) {
			l.Status.Conditions = append(l.Status.Conditions, condition(corev1.ContainersReady, corev1.ConditionFalse, "Refused"))
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			local := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "local"}, Status: corev1.PodStatus{
				Phase: corev1.PodPending, Conditions: []corev1.PodCondition{condition(corev1.PodScheduled, corev1.ConditionTrue, "")},
			}}
			remote := &corev1.Pod{Status: *local.Status.DeepCopy()}
			c.change(local, remote)
			now := time.Unix(0, 0)
			m := newPodStates(func() time.Time { return now })
			starting := isStarting(local, remote)
			if starting == c.due {
				t.Fatalf("starting: %t", starting)
			}
			want := time.Duration(0)
			if starting {
				want = startDelay
			}
			if after := m.untilDue(local, starting); after != want {
				t.Errorf("due after %v, want %v", after, want)
			}
			now = now.Add(startDelay)
			if after := m.untilDue(local, starting); after != 0 {
				t.Errorf("still due after %v", after)
			}
		})
	}
}

func TestStatusWriterUnscheduledPod(t *testing.T) {
	k := &podKind{states: newPodStates(time.Now), events: newEventLog(record.NewFakeRecorder(1)), options: Options{DisableIPReflection: true}, available: &availability{}}
	it := &podItem{Item: &multicluster.Item{}, local: &corev1.Pod{}, remote: &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending}}}
	if err := k.reflectStatus(t.Context(), it); err != nil { // a write would panic without a client
		t.Error(err)
	}
}

// namedPod is a pod that is told from others by its name.
func namedPod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
}

// Statuses become due at the given milliseconds, one pod each; each goes at the time beside it.
func TestStatusWriterBatches(t *testing.T) {
	for name, c := range map[string]struct{ due, gone []int }{
		"one_alone":                   {[]int{100}, []int{100}},
		"far_apart":                   {[]int{0, 500, 1700}, []int{0, 500, 1700}},
		"the_second_waits":            {[]int{0, 10}, []int{0, 500}},
		"all_that_follow_go_at_once":  {[]int{0, 10, 200, 499}, []int{0, 500, 500, 500}},
		"a_trickle":                   {[]int{0, 300, 600, 900, 1200, 1550, 1800}, []int{0, 500, 1000, 1000, 1500, 2000, 2000}},
		"a_silence_ends_the_interval": {[]int{0, 400, 1100, 1150}, []int{0, 500, 1100, 1600}},
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Unix(1000, 0)
			at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
			now := start
			m := newPodStates(func() time.Time { return now })
			gone := make([]time.Time, len(c.due))
			for ms := range 3000 {
				now = at(ms)
				for i, due := range c.due {
					if due > ms || !gone[i].IsZero() {
						continue
					}
					if after := m.untilDue(namedPod(fmt.Sprint(i)), false); after == 0 {
						gone[i] = now
					} else if after < 0 || after > batchInterval {
						t.Fatalf("pod %d at %d ms: due after %v", i, ms, after)
					}
				}
			}
			for i, want := range c.gone {
				if !gone[i].Equal(at(want)) {
					t.Errorf("pod %d, due at %d ms, went at %v, want %d ms", i, c.due[i], gone[i].Sub(start), want)
				}
			}
		})
	}
}

func TestStatusWriterWaitsOnce(t *testing.T) {
	now := time.Unix(1000, 0)
	m := newPodStates(func() time.Time { return now })
	if after := m.untilDue(namedPod("first"), false); after > 0 {
		t.Fatal("due after", after)
	}
	if after := m.untilDue(namedPod("second"), false); after == 0 {
		t.Fatal("the second does not wait")
	}
	now = now.Add(batchInterval)
	if after := m.untilDue(namedPod("third"), false); after > 0 { // which begins a new interval
		t.Fatal("due after", after)
	}
	now = now.Add(batchInterval / 2)
	if after := m.untilDue(namedPod("second"), false); after > 0 {
		t.Errorf("the second waits again: %v", after)
	}
}

// A machine with too much to do takes longer than a batch until it is a pod's turn again, and has others to write all the time.
func TestStatusWriterLateStatus(t *testing.T) {
	now := time.Unix(1000, 0)
	m := newPodStates(func() time.Time { return now })
	_, waits := m.untilDue(namedPod("first"), false), m.untilDue(namedPod("late"), false)
	if waits == 0 {
		t.Fatal("the second does not wait")
	}
	for i := range 4 {
		now = now.Add(2 * batchInterval / 3)
		_ = m.untilDue(namedPod(fmt.Sprint("other ", i)), false)
	}
	if after := m.untilDue(namedPod("late"), false); after > 0 {
		t.Errorf("it waits again: %v", after)
	}
}

func TestStatusWriterClearDue(t *testing.T) {
	now := time.Unix(1000, 0)
	m := newPodStates(func() time.Time { return now })
	_, waits := m.untilDue(namedPod("first"), false), m.untilDue(namedPod("second"), false)
	if waits == 0 {
		t.Fatal("the second does not wait")
	}
	m.clearDue(namedPod("second"))
	now = now.Add(batchInterval)
	if after := m.untilDue(namedPod("first"), false); after > 0 {
		t.Fatal("due after", after)
	}
	if after := m.untilDue(namedPod("second"), false); after == 0 {
		t.Error("its next status does not go with others")
	}
}

func TestStatusWriterMissedBatch(t *testing.T) {
	now := time.Unix(1000, 0)
	m := newPodStates(func() time.Time { return now })
	_, waits := m.untilDue(namedPod("first"), false), m.untilDue(namedPod("second"), false)
	if waits == 0 {
		t.Fatal("the second does not wait")
	}
	now = now.Add(time.Minute)
	if after := m.untilDue(namedPod("second"), false); after > 0 {
		t.Fatal("due after", after)
	}
	if after := m.untilDue(namedPod("third"), false); after == 0 {
		t.Error("the second began no interval")
	}
}

// The cache shows a status some time after it was written.
func TestStatusWriterCacheLag(t *testing.T) {
	c := testkit.Cluster(t)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: testkit.Namespace(t, c, "lag", nil), Name: "one"}}
	pod.Spec = corev1.PodSpec{AutomountServiceAccountToken: new(false), Containers: []corev1.Container{{Name: "c", Image: "i"}}}
	testkit.Create(t, c.Client, pod)
	now := time.Now()
	m := newPodStates(func() time.Time { now = now.Add(batchInterval); return now })
	cached := pod.DeepCopy()
	send := func(message string) string {
		t.Helper()
		want := cached.DeepCopy()
		want.Status.Phase, want.Status.Message = corev1.PodRunning, message
		if after, err := m.writeStatus(t.Context(), c.Client, cached, want, false); err != nil || after > 0 {
			t.Fatal(after, err)
		}
		now := cached.DeepCopy()
		if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(now), now); err != nil {
			t.Fatal(err)
		}
		if now.Status.Message != message {
			t.Errorf("message %q, want %q", now.Status.Message, message)
		}
		return now.ResourceVersion
	}
	first := send("first")
	testkit.Update(t, c.Client, pod, func(p *corev1.Pod) { p.Annotations = map[string]string{"seen": "by others"} })
	if again := send("first"); again != pod.ResourceVersion {
		t.Errorf("written again: %s, was %s", again, first)
	}
	// Another client changed it since: that is a conflict, as ever.
	want := cached.DeepCopy()
	want.Status.Phase, want.Status.Message = corev1.PodRunning, "second"
	if _, err := m.writeStatus(t.Context(), c.Client, cached, want, false); err == nil {
		t.Error("a change of another client was overwritten")
	}
	cached = pod.DeepCopy()
	send("third")
	send("fourth") // onto what was written last, not onto what the cache has
}
