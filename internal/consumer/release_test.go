// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package consumer

import (
	"context"
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/policy"
	"liqo.io/liqo/internal/testkit"
)

// steeredPod is made as if it had passed through the webhook.
func steeredPod(t *testing.T, c *testkit.ControlPlane, nso *offv1beta1.NamespaceOffloading, name string, change func(*corev1.Pod)) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: nso.Namespace, Name: name}, Spec: template("web", corev1.RestartPolicyAlways).Spec}
	change(pod)
	policy.SteerPod(pod, nso, "")
	create(t, c, pod)
	return pod
}

// deleted wants the pod to go, once no new one of its namespace is steered.
func deleted(t *testing.T, c *testkit.ControlPlane, pod *corev1.Pod) {
	t.Helper()
	testkit.Eventually(t, patience, func() error {
		current := &corev1.Pod{}
		err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), current)
		if client.IgnoreNotFound(err) != nil || err == nil && current.DeletionTimestamp == nil {
			return fmt.Errorf("pod %s waits for a node of an offloading that is over (%v)", pod.Name, err)
		}
		return nil
	})
	namespace := &corev1.Namespace{}
	if err := c.Client.Get(t.Context(), client.ObjectKey{Name: pod.Namespace}, namespace); err != nil {
		t.Fatal(err)
	}
	if _, open := namespace.Labels[names.SchedulingEnabled]; open {
		t.Error("a pod was made anew while the webhook still steers")
	}
}

func bare(*corev1.Pod) {}

func TestReleasePendingPods(t *testing.T) {
	c := consumerCluster(t)
	vn := provide(t, c, "unreached", "unreached-1", "")
	nso := extend(t, c, func(s *offv1beta1.NamespaceOffloadingSpec) {
		s.PodOffloadingStrategy, s.ClusterSelector = offv1beta1.RemotePodOffloadingStrategyType, choosing("name:nobody")
	})
	phaseIs(t, c, nso, offv1beta1.NoClusterSelectedOffloadingPhaseType)
	web, lonely := steeredPod(t, c, nso, "web", owned), steeredPod(t, c, nso, "lonely", bare)
	tolerant := steeredPod(t, c, nso, "tolerant", func(p *corev1.Pod) {
		owned(p)
		p.Spec.Tolerations, p.Spec.Affinity = []corev1.Toleration{policy.VirtualNodeToleration()}, &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: choosing("name:worker liqo.io/type=virtual-node"),
		}}
	})
	own := steeredPod(t, c, nso, "own", func(p *corev1.Pod) {
		owned(p)
		p.Spec.NodeName = "worker-x"
	})
	// A provider that still removes its twin keeps the NamespaceOffloading, and no pod waiting.
	answerUnasked(t, c, vn, nso.Namespace, nso.Namespace+"-home")
	if err := c.Client.Delete(t.Context(), nso); err != nil {
		t.Fatal(err)
	}
	deleted(t, c, web)
	deleted(t, c, tolerant)
	if note := eventOn(t, c, lonely, "Misplaced").Note; note != explainPending(lonely) {
		t.Errorf("event = %q", note)
	}
	misplacedAre(t, c, nso, 1)
	answer(t, c, vn, nso.Namespace, nso.Namespace+"-home", "")
	waitUntilDeleted(t, c, nso)
	for _, pod := range []*corev1.Pod{lonely, own} {
		if exists(t, c, pod); pod.DeletionTimestamp != nil {
			t.Errorf("%s was deleted", pod.Name)
		}
	}
}

func TestReleaseEarlierStrategy(t *testing.T) {
	c := consumerCluster(t)
	provide(t, c, "changing", "changing-1", "")
	for name, change := range map[string]func(*offv1beta1.NamespaceOffloadingSpec){
		"local": func(s *offv1beta1.NamespaceOffloadingSpec) {
			s.PodOffloadingStrategy = offv1beta1.LocalPodOffloadingStrategyType
		},
		"local and remote": func(s *offv1beta1.NamespaceOffloadingSpec) {
			s.PodOffloadingStrategy, s.ClusterSelector = offv1beta1.LocalAndRemotePodOffloadingStrategyType, nil
		},
		"without a selector": func(s *offv1beta1.NamespaceOffloadingSpec) { s.ClusterSelector = nil },
	} {
		t.Run(name, func(t *testing.T) {
			nso := extend(t, c, func(s *offv1beta1.NamespaceOffloadingSpec) {
				s.PodOffloadingStrategy, s.ClusterSelector = offv1beta1.RemotePodOffloadingStrategyType, choosing("name:nobody")
			})
			phaseIs(t, c, nso, offv1beta1.NoClusterSelectedOffloadingPhaseType)
			web, lonely := steeredPod(t, c, nso, "web", owned), steeredPod(t, c, nso, "lonely", bare)
			testkit.Update(t, c.Client, nso, func(n *offv1beta1.NamespaceOffloading) { change(&n.Spec) })
			testkit.Eventually(t, patience, func() error {
				current := &corev1.Pod{}
				if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(web), current); err == nil && current.DeletionTimestamp == nil {
					return fmt.Errorf("it waits for a node of the strategy before")
				} else {
					return client.IgnoreNotFound(err)
				}
			})
			eventOn(t, c, lonely, "Misplaced")
			misplacedAre(t, c, nso, 1)
		})
	}
}

// keep forbids the deletion of the pods of a namespace whose names begin with "kept".
func keep(t *testing.T, c *testkit.ControlPlane, namespace string) {
	t.Helper()
	policy := &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}},
				ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Delete},
					Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
				}}},
			},
			Validations: []admissionv1.Validation{{
				Expression: "!oldObject.metadata.name.startsWith('kept')", Message: "ask the owner first", Reason: new(metav1.StatusReasonForbidden),
			}},
		},
	}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: namespace, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		},
	}
	for _, obj := range []client.Object{policy, binding} {
		testkit.Create(t, c.Client, obj)
		t.Cleanup(func() { _ = c.Client.Delete(context.Background(), obj) })
	}
	probe := podOn(t, c, namespace, "kept-probe", "", bare)
	testkit.Eventually(t, patience, func() error {
		if err := c.Client.Delete(t.Context(), probe, client.DryRunAll); !apierrors.IsForbidden(err) {
			return fmt.Errorf("the policy is not in force: %w", err)
		}
		return nil
	})
}

func TestReleaseUndeletablePod(t *testing.T) {
	c := consumerCluster(t)
	vn := provide(t, c, "keeping", "keeping-1", "")
	run(t, c, vn)
	nso := extend(t, c, func(s *offv1beta1.NamespaceOffloadingSpec) {
		s.PodOffloadingStrategy, s.ClusterSelector = offv1beta1.RemotePodOffloadingStrategyType, choosing("name:nobody")
	})
	phaseIs(t, c, nso, offv1beta1.NoClusterSelectedOffloadingPhaseType)
	keep(t, c, nso.Namespace)
	waiting := steeredPod(t, c, nso, "kept-waiting", owned)
	stranded := steeredPod(t, c, nso, "kept-stranded", func(p *corev1.Pod) {
		owned(p)
		p.Spec.NodeName = vn.Name
	})
	if err := c.Client.Delete(t.Context(), nso); err != nil {
		t.Fatal(err)
	}
	waitUntilDeleted(t, c, nso)
	for _, pod := range []*corev1.Pod{waiting, stranded} {
		if note := eventOn(t, c, pod, "Misplaced").Note; !strings.Contains(note, "ask the owner first") {
			t.Errorf("the event on %s says %q", pod.Name, note)
		}
		if exists(t, c, pod); pod.DeletionTimestamp != nil {
			t.Errorf("%s was deleted", pod.Name)
		}
	}
}
