// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/internal/names"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func at(seconds int) metav1.Time {
	return metav1.NewTime(noon.Add(time.Duration(seconds) * time.Second))
}

// deleted is a pod that was asked at noon to go.
func deleted(p *corev1.Pod, grace int64) *corev1.Pod {
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds = new(at(int(grace))), &grace
	return p
}

func endedAt(seconds int) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: at(seconds)}}
}

func TestAPodThatWasDeletedBeforeItsEndIsMadeAgain(t *testing.T) {
	for _, tc := range []struct {
		rule   string
		remote *corev1.Pod
		want   bool
	}{
		{"one that ended by itself is not", pod("r", corev1.PodSucceeded, 0, endedAt(-5)), false},
		{"one that ended, and was deleted then, is not", deleted(pod("r", corev1.PodSucceeded, 0, endedAt(-5)), 30), false},
		{"one that ends because it is deleted is", deleted(pod("r", corev1.PodFailed, 0, endedAt(2)), 30), true},
		{"one that is about to end is", deleted(pod("r", corev1.PodRunning, 0, endedAt(-5)), 30), true},
		{"one that never started is", deleted(&corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodFailed}}, 0), true},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			if got := Replaceable(tc.remote); got != tc.want {
				t.Errorf("got %t", got)
			}
			local := pod("l", corev1.PodRunning, 3, running)
			got := PodStatus(StatusInput{Local: local, Remote: tc.remote})
			if replaced := got.Phase == corev1.PodRunning && got.ContainerStatuses[0].RestartCount == 3 && got.Reason == ReasonRemoteMissing; replaced != tc.want {
				t.Errorf("status is %+v", got)
			}
		})
	}
	t.Run("end of deleted pod is shown", func(t *testing.T) {
		local, remote := deleted(pod("l", corev1.PodRunning, 0, running), 30), deleted(pod("r", corev1.PodFailed, 0, endedAt(2)), 30)
		if got := PodStatus(StatusInput{Local: local, Remote: remote}); got.Phase != corev1.PodFailed {
			t.Errorf("got %s", got.Phase)
		}
	})
}

func TestGrace(t *testing.T) {
	remote := func(own *int64) *corev1.Pod {
		return &corev1.Pod{Spec: corev1.PodSpec{TerminationGracePeriodSeconds: own}}
	}
	local := deleted(&corev1.Pod{}, 5)
	for _, tc := range []struct {
		rule          string
		local, remote *corev1.Pod
		want          int64
		change        int
	}{
		{"another time than the pod's own goes along", local, remote(new(int64(60))), 5, -1},
		{"a longer time than the pod's own goes along", local, remote(new(int64(2))), 5, 1},
		{"another time than the default goes along", local, remote(nil), 5, -1},
		{"the pod's own needs no request", local, remote(new(int64(5))), 5, 0},
		{"nothing is forced", deleted(&corev1.Pod{}, 0), remote(nil), 1, -1},
		{"a shorter time reaches a pod that is ending", local, deleted(&corev1.Pod{}, 30), 5, -1},
		{"a longer one does not", local, deleted(&corev1.Pod{}, 2), 5, 0},
		{"without a remote pod there is nothing to do", local, nil, 0, 0},
		{"nor before the local one is deleted", &corev1.Pod{}, remote(nil), 0, 0},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			if got, change := Grace(tc.local, tc.remote); got != tc.want || change != tc.change {
				t.Errorf("got %d %d, want %d %d", got, change, tc.want, tc.change)
			}
		})
	}
}

func TestLostFieldsAreNamed(t *testing.T) {
	got := Lost(&corev1.Pod{Spec: corev1.PodSpec{HostNetwork: true, ResourceClaims: []corev1.PodResourceClaim{{Name: "gpu"}}, Tolerations: []corev1.Toleration{
		{Key: "gpu"}, {Key: "CriticalAddonsOnly", Operator: corev1.TolerationOpExists}, {Operator: corev1.TolerationOpExists},
	}}})
	if want := []string{"hostNetwork", "resourceClaims", "the toleration of CriticalAddonsOnly (unless the provider sets offloading.twinNamespaces.pods.controlPlane)"}; !slices.Equal(got, want) || Lost(&corev1.Pod{}) != nil {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestRemoteObjectsOfAnEarlierPod(t *testing.T) {
	local := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "this"}}
	for uid, want := range map[string]bool{"this": false, "earlier": true, "": false} {
		remote := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{names.OffloadingUID: uid}}}
		if got := IsOfAnother(remote, local); got != want {
			t.Errorf("UID %q: got %t", uid, got)
		}
	}
}

func TestConditionsOfGatesAndDisruptions(t *testing.T) {
	gate := corev1.PodCondition{Type: "lb", Status: corev1.ConditionTrue}
	disrupted := corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, LastTransitionTime: at(0)}
	has := func(s corev1.PodStatus, t corev1.PodConditionType) corev1.ConditionStatus {
		for _, c := range s.Conditions {
			if c.Type == t {
				return c.Status
			}
		}
		return ""
	}
	for _, tc := range []struct {
		rule string
		edit func(in *StatusInput)
		of   corev1.PodConditionType
		want corev1.ConditionStatus
	}{
		{"a gate opened here is not closed from there", func(in *StatusInput) {
			in.Local.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "lb"}}
			in.Local.Status.Conditions = append(in.Local.Status.Conditions, gate)
			in.Remote.Status.Conditions = append(in.Remote.Status.Conditions, corev1.PodCondition{Type: "lb", Status: corev1.ConditionFalse})
		}, "lb", corev1.ConditionTrue},
		{"a gate is not opened from there", func(in *StatusInput) {
			in.Local.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "lb"}}
			in.Remote.Status.Conditions = append(in.Remote.Status.Conditions, gate)
		}, corev1.PodReady, corev1.ConditionFalse},
		{"a gate stays open while the pod is made again", func(in *StatusInput) {
			in.Local.Status.Conditions = append(in.Local.Status.Conditions, gate)
			deleted(in.Remote, 30)
		}, "lb", corev1.ConditionTrue},
		{"and the pod is not ready meanwhile", func(in *StatusInput) { deleted(in.Remote, 30) }, corev1.PodReady, corev1.ConditionFalse},
		{"a disruption of this remote pod stays", func(in *StatusInput) {
			in.Remote.CreationTimestamp, in.Local.Status.Conditions = at(-9), []corev1.PodCondition{disrupted}
		}, corev1.DisruptionTarget, corev1.ConditionTrue},
		{"one of an earlier remote pod is over", func(in *StatusInput) {
			in.Remote.CreationTimestamp, in.Local.Status.Conditions = at(9), []corev1.PodCondition{disrupted}
		}, corev1.DisruptionTarget, ""},
		{"one of a local pod that goes stays", func(in *StatusInput) {
			in.Remote.CreationTimestamp, in.Local.Status.Conditions = at(9), []corev1.PodCondition{disrupted}
			deleted(in.Local, 30)
		}, corev1.DisruptionTarget, corev1.ConditionTrue},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			in := StatusInput{Local: pod("l", corev1.PodRunning, 0, running), Remote: pod("r", corev1.PodRunning, 0, running)}
			tc.edit(&in)
			if got := has(PodStatus(in), tc.of); got != tc.want {
				t.Errorf("%s is %q, want %q", tc.of, got, tc.want)
			}
		})
	}
}

func TestEphemeralContainersEndOnce(t *testing.T) {
	for _, tc := range []struct {
		rule          string
		local, remote *corev1.ContainerState // nil: not reported
		want          func(s corev1.ContainerState) bool
	}{
		{"what the provider reports is shown", nil, &running, func(s corev1.ContainerState) bool { return s.Running != nil }},
		{"what ended does not run again", &ended, &running, func(s corev1.ContainerState) bool { return s.Terminated != nil }},
		{"what a new remote pod does not have has ended", &running, nil, func(s corev1.ContainerState) bool { return s.Terminated.Reason == ReasonRemoteMissing }},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			in := StatusInput{Local: pod("l", corev1.PodRunning, 0, running), Remote: pod("r", corev1.PodRunning, 0, running)}
			in.Local.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug"}}}
			for p, state := range map[*corev1.Pod]*corev1.ContainerState{in.Local: tc.local, in.Remote: tc.remote} {
				if state != nil {
					p.Status.EphemeralContainerStatuses = []corev1.ContainerStatus{{Name: "debug", State: *state}}
				}
			}
			if got := PodStatus(in).EphemeralContainerStatuses; len(got) != 1 || !tc.want(got[0].State) {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestTheGenerationIsObservedOnceThePodHasItsResources(t *testing.T) {
	amount := func(p *corev1.Pod, cpu string) *corev1.Pod {
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
		return p
	}
	for _, tc := range []struct {
		rule   string
		remote *corev1.Pod
		seen   int64
		want   int64
	}{
		{"not before the provider's pod has them", amount(pod("r", corev1.PodRunning, 0, running), "1"), 4, 2},
		{"not before its kubelet has seen them", amount(pod("r", corev1.PodRunning, 0, running), "2"), 3, 2},
		{"then it is", amount(pod("r", corev1.PodRunning, 0, running), "2000m"), 4, 3},
		{"a kubelet that does not count is believed", amount(pod("r", corev1.PodRunning, 0, running), "2"), 0, 3},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			local := amount(pod("l", corev1.PodRunning, 0, running), "2")
			local.Generation, local.Status.ObservedGeneration = 3, 2
			tc.remote.Generation, tc.remote.Status.ObservedGeneration = 4, tc.seen
			if got := PodStatus(StatusInput{Local: local, Remote: tc.remote}).ObservedGeneration; got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
		})
	}
}

func TestContainersThatMayNotRunAgain(t *testing.T) {
	rule := func(action corev1.ContainerRestartRuleAction, op corev1.ContainerRestartRuleOnExitCodesOperator, codes ...int32) []corev1.ContainerRestartRule {
		return []corev1.ContainerRestartRule{{Action: action, ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{Operator: op, Values: codes}}}
	}
	const in, notIn = corev1.ContainerRestartRuleOnExitCodesOpIn, corev1.ContainerRestartRuleOnExitCodesOpNotIn
	for _, tc := range []struct {
		rule  string
		pod   corev1.RestartPolicy
		own   *corev1.ContainerRestartPolicy
		rules []corev1.ContainerRestartRule
		code  int32
		want  bool
	}{
		{"policy Always", corev1.RestartPolicyAlways, nil, nil, 1, false},
		{"policy Never", corev1.RestartPolicyNever, nil, nil, 1, true},
		{"policy OnFailure, failed", corev1.RestartPolicyOnFailure, nil, nil, 1, false},
		{"policy OnFailure, done", corev1.RestartPolicyOnFailure, nil, nil, 0, true},
		{"a sidecar", corev1.RestartPolicyNever, new(corev1.ContainerRestartPolicyAlways), nil, 0, false},
		{"a rule that says so", corev1.RestartPolicyNever, new(corev1.ContainerRestartPolicyNever), rule(corev1.ContainerRestartRuleActionRestart, in, 7), 7, false},
		{"a rule about other codes", corev1.RestartPolicyNever, new(corev1.ContainerRestartPolicyNever), rule(corev1.ContainerRestartRuleActionRestart, in, 7), 8, true},
		{"a rule about all other codes", corev1.RestartPolicyNever, new(corev1.ContainerRestartPolicyNever), rule(corev1.ContainerRestartRuleActionRestart, notIn, 7), 8, false},
		{"a rule that restarts all", corev1.RestartPolicyNever, new(corev1.ContainerRestartPolicyNever), rule(corev1.ContainerRestartRuleActionRestartAllContainers, in, 7), 8, false},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			p := &corev1.Pod{Spec: corev1.PodSpec{RestartPolicy: tc.pod, Containers: []corev1.Container{{Name: "main", RestartPolicy: tc.own, RestartPolicyRules: tc.rules}}}}
			old := corev1.ContainerStatus{Name: "main", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: tc.code}}}
			if diff := cmp.Diff(tc.want, endedForGood(old, p, p.Spec.Containers)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestChangesAreBroughtOneByOne(t *testing.T) {
	in := Input{Target: target, Pod: ordinary(), Existing: shadow(nil)}
	if got := Changes(in); len(got) > 0 {
		t.Errorf("an unchanged pod has %v", got)
	}
	in.Pod.Spec.Containers[0].Image = "web:2"
	in.Pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}
	in.Pod.Spec.ActiveDeadlineSeconds = new(int64(9))
	in.Pod.Spec.Tolerations = append(in.Pod.Spec.Tolerations, corev1.Toleration{Key: "late", Operator: corev1.TolerationOpExists})
	in.Pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug"}}}
	in.Pod.Labels = map[string]string{"new": "yes"}
	whole := ShadowPod(in)
	if diff := cmp.Diff(allChanges, Changes(in)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, c := range allChanges {
		before := Changes(in)
		in.Only = c
		in.Existing = ShadowPod(in)
		in.Only = ""
		if remaining := Changes(in); len(remaining) != len(before)-1 || slices.Contains(remaining, c) {
			t.Errorf("after %s there are %v", c, remaining)
		}
		if in.Existing.Labels["new"] != "" {
			t.Errorf("labels come along with %s", c)
		}
	}
	in.Only = ChangeMetadata
	in.Existing = ShadowPod(in)
	if diff := cmp.Diff(whole, in.Existing); diff != "" {
		t.Errorf("all one by one are not all at once:\n%s", diff)
	}
}
