// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

// hasCondition tells whether a pod has a condition of that type, False, with that reason and text.
func hasCondition(kind corev1.PodConditionType, reason, text string) func(*corev1.Pod) error {
	return func(p *corev1.Pod) error {
		for _, c := range p.Status.Conditions {
			if c.Type == kind && c.Status == corev1.ConditionFalse && c.Reason == reason && strings.Contains(c.Message, text) {
				return nil
			}
		}
		return fmt.Errorf("conditions are %v", p.Status.Conditions)
	}
}

func accepted(p *corev1.Pod) error {
	if slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == names.PodAccepted }) {
		return fmt.Errorf("conditions are %v", p.Status.Conditions)
	}
	return nil
}

// refuseRemotely is what the provider writes about a pod that it does not make.
func (s *testEnv) refuseRemotely(name, reason, message string) *offv1beta1.ShadowPod {
	s.t.Helper()
	shadow := eventually(s, s.provider, s.shadow(name), exists)
	shadow.Status.Phase = corev1.PodPending
	shadow.Status.Conditions = []metav1.Condition{{
		Type: offv1beta1.ShadowPodAccepted, Status: metav1.ConditionFalse, Reason: reason, Message: message, LastTransitionTime: metav1.Now(),
	}}
	if err := s.provider.Client.Status().Update(s.t.Context(), shadow); err != nil {
		s.t.Fatal(err)
	}
	return shadow
}

func (s *testEnv) events(name, reason string) (count int) {
	s.t.Helper()
	list := &corev1.EventList{}
	if err := s.consumer.Client.List(s.t.Context(), list, client.InNamespace(s.local)); err != nil {
		s.t.Fatal(err)
	}
	for _, e := range list.Items {
		if e.InvolvedObject.Name == name && e.Reason == reason {
			count += max(int(e.Count), 1)
		}
	}
	return count
}

func TestRefusalCondition(t *testing.T) {
	s := newTestEnv(t, nil)
	s.run()
	s.pod(s.local, "web")
	s.refuseRemotely("web", offv1beta1.ReasonOverQuota, "free 0 / requested 1")
	local := eventually(s, s.consumer, s.localPod("web"), hasCondition(names.PodAccepted, "OverQuota", `cluster "milan" refuses the pod: free 0 / requested 1`))
	if local.Status.Reason != "OffloadingBackOff" || local.Status.Phase != corev1.PodPending {
		t.Errorf("the pod is %s %s", local.Status.Phase, local.Status.Reason)
	}
	s.event(local, "OffloadingRefused", "free 0 / requested 1")
	s.refuseRemotely("web", offv1beta1.ReasonRefused, "violates PodSecurity")
	eventually(s, s.consumer, s.localPod("web"), hasCondition(names.PodAccepted, "Refused", "violates PodSecurity"))
	s.event(local, "OffloadingRefused", "violates PodSecurity")

	remote := s.runRemotely(eventually(s, s.provider, s.shadow("web"), exists), "10.7.0.9")
	eventually(s, s.consumer, s.localPod("web"), func(p *corev1.Pod) error {
		if p.Status.Reason != "" || p.Status.Message != "" {
			return fmt.Errorf("the pod is %s: %s", p.Status.Reason, p.Status.Message)
		}
		if err := phaseIs(corev1.PodRunning)(p); err != nil {
			return err
		}
		return accepted(p)
	})
	s.step("also when a pod is not made again", func() {
		s.deleteNow(s.provider, remote)
		s.refuseRemotely("web", offv1beta1.ReasonOverQuota, "free 0 / requested 2")
		eventually(s, s.consumer, s.localPod("web"), func(p *corev1.Pod) error {
			if err := reasonIs("RemotePodMissing")(p); err != nil {
				return err
			}
			return hasCondition(names.PodAccepted, "OverQuota", "requested 2")(p)
		})
	})
}

func TestProviderTooOld(t *testing.T) {
	t.Parallel()
	s := newTestEnv(t, nil)
	vn := &offv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Name: s.node, Namespace: s.tenant}}
	s.patch(s.consumer, vn, `{"spec":{"labels":{"liqo.io/kubernetes-minor":"36"}}}`)
	s.run()
	pod := s.newPod(s.local, "web")
	pod.Spec.Volumes = []corev1.Volume{{Name: "trust", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		Sources: []corev1.VolumeProjection{{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{Name: new("bundle"), Path: "ca.crt"}}},
	}}}}
	s.create(s.consumer, pod)
	s.pod(s.local, "plain")
	const why = `cluster "milan" is too old for the pod: spec.volumes[*].projected.sources[*].clusterTrustBundle needs Kubernetes 1.37, and the provider has 1.36`
	eventually(s, s.consumer, s.localPod("web"), hasCondition(names.PodAccepted, "ProviderTooOld", why))
	s.event(pod, "ProviderTooOld", why)
	eventually(s, s.provider, s.shadow("plain"), exists)
	if err := s.provider.Client.Get(t.Context(), client.ObjectKeyFromObject(s.shadow("web")), s.shadow("web")); err == nil {
		t.Error("the provider has the pod")
	}
	s.step("an upgrade of the provider brings it", func() {
		s.patch(s.consumer, vn, `{"spec":{"labels":{"liqo.io/kubernetes-minor":"37"}}}`)
		eventually(s, s.provider, s.shadow("web"), exists)
	})
}

func TestPodProblemEvents(t *testing.T) {
	t.Parallel()
	s := newTestEnv(t, nil)
	s.run()
	s.pod(s.local, "web")
	remote := s.runRemotely(eventually(s, s.provider, s.shadow("web"), exists), "10.7.0.9")
	s.report(remote, corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "0/3 nodes are available"},
	}})
	eventually(s, s.consumer, s.localPod("web"), hasCondition(corev1.PodScheduled, "Unschedulable", "0/3 nodes are available"))
	s.event(s.localPod("web"), "RemoteUnschedulable", `in cluster "milan": 0/3 nodes are available`)

	waiting := func(reason string) {
		t.Helper()
		s.report(remote, corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{
			Name: "main", Image: "web:1", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: "not found"}},
		}}})
		eventually(s, s.consumer, s.localPod("web"), func(p *corev1.Pod) error {
			for _, c := range p.Status.ContainerStatuses {
				if c.State.Waiting != nil && c.State.Waiting.Reason == reason {
					return nil
				}
			}
			return fmt.Errorf("containers are %v", p.Status.ContainerStatuses)
		})
	}
	waiting("ErrImagePull")
	s.event(s.localPod("web"), "RemoteImageFailed", `container "main": ErrImagePull: not found`)
	waiting("ImagePullBackOff")
	waiting("ErrImagePull")
	waiting("ImagePullBackOff")
	waiting("ContainerCreating")
	waiting("ErrImagePull")
	testkit.Eventually(t, limit, func() error {
		if got := s.events("web", "RemoteImageFailed"); got != 2 {
			return fmt.Errorf("%d events about the image, want one each time it begins", got)
		}
		return nil
	})
}
