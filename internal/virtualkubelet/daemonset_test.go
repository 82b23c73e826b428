// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
	"liqo.io/liqo/internal/virtualkubelet/translate"
)

func daemonSet(namespace, name string, tolerations ...corev1.Toleration) *appsv1.DaemonSet {
	labels := map[string]string{"app": name}
	return &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: appsv1.DaemonSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "main", Image: "agent:1"}}, Tolerations: tolerations,
		}},
	}}
}

// scheduled waits for the pod that the DaemonSet makes for the virtual node, and binds it there as the scheduler does.
func (s *testEnv) scheduled(ds *appsv1.DaemonSet) *corev1.Pod {
	s.t.Helper()
	var pod *corev1.Pod
	testkit.Eventually(s.t, limit, func() error {
		list := &corev1.PodList{}
		if err := s.consumer.Client.List(s.t.Context(), list, client.InNamespace(ds.Namespace), client.MatchingLabels{"app": ds.Name}); err != nil {
			return err
		}
		for i := range list.Items {
			terms := list.Items[i].Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
			if terms[0].MatchFields[0].Values[0] == s.node {
				pod = &list.Items[i]
				return nil
			}
		}
		return fmt.Errorf("%d pods, and none for the virtual node", len(list.Items))
	})
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: s.node}}
	if err := s.consumer.Client.SubResource("binding").Create(s.t.Context(), pod, binding); err != nil {
		s.t.Fatal(err)
	}
	return pod
}

func TestDaemonSetsKeptOff(t *testing.T) {
	s := newTestEnv(t, nil)
	testkit.Cluster(t, testkit.WithControllers("daemonset-controller"))
	s.run()
	eventually(s, s.consumer, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.node}}, exists)
	everything := corev1.Toleration{Operator: corev1.TolerationOpExists}
	named := corev1.Toleration{Key: names.VirtualNodeTaint, Operator: corev1.TolerationOpExists}
	otherNamespace := testkit.Namespace(t, s.consumer, "elsewhere", nil)
	agents, others, wanted := daemonSet(s.local, "agents", everything), daemonSet(otherNamespace, "others", everything), daemonSet(s.local, "wanted", everything, named)
	for _, ds := range []*appsv1.DaemonSet{agents, others, wanted} {
		s.create(s.consumer, ds)
	}
	agent, other, guest := s.scheduled(agents), s.scheduled(others), s.scheduled(wanted)

	s.step("one that names virtual nodes runs in the provider", func() { eventually(s, s.provider, s.shadow(guest.Name), exists) })
	for _, pod := range []*corev1.Pod{agent, other} {
		eventually(s, s.consumer, pod, reasonIs(translate.ReasonBackOff))
		if pod.Status.Phase != corev1.PodPending || pod.Labels[names.ShadowPod] != "" {
			t.Errorf("pod %s is %s with labels %v", pod.Name, pod.Status.Phase, pod.Labels)
		}
	}
	s.step("the DaemonSet is told", func() {
		s.event(agents, reasonDisabled, s.node)
		s.event(others, reasonDisabled, s.node)
	})
	if err := s.provider.Client.Get(t.Context(), client.ObjectKeyFromObject(s.shadow(agent.Name)), s.shadow(agent.Name)); !apierrors.IsNotFound(err) {
		t.Errorf("it was reflected (%v)", err)
	}
	s.step("nothing is written about a pod that stays", func() {
		later := s.pod(s.local, "later")
		eventually(s, s.provider, s.shadow(later.Name), exists)
		version := agent.ResourceVersion
		if got := eventually(s, s.consumer, agent, exists[*corev1.Pod]); got.ResourceVersion != version {
			t.Errorf("it was written again: %s", got.Status.Reason)
		}
		var events corev1.EventList
		if err := s.consumer.Client.List(s.t.Context(), &events, client.InNamespace(agents.Namespace)); err != nil {
			s.t.Fatal(err)
		}
		times := int32(0)
		for _, e := range events.Items {
			if e.InvolvedObject.UID == agents.UID && e.Reason == reasonDisabled {
				times += max(e.Count, 1)
			}
		}
		if times != 1 {
			s.t.Errorf("the DaemonSet was told %d times", times)
		}
	})
	s.step("its pods go with it", func() {
		if err := s.consumer.Client.Delete(t.Context(), agents, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
			t.Fatal(err)
		}
		if err := s.consumer.Client.Delete(t.Context(), agent); client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
		s.waitUntilDeleted(s.consumer, agent)
	})
}
