// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package consumer

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

// TestRemotePodPolicies has pods in a provider, and the controller as for a CNI plugin that knows pods by its own endpoints.
func TestRemotePodPolicies(t *testing.T) {
	s := newEndpointStory(t, "admitted")
	cfg, writes := testkit.RecordWrites(s.c.Config)
	run := func(setting string) (stop func()) {
		return testkit.Manager(t, cfg, kube.ManagerOptions{Name: "remote-pod-policies"}, func(mgr ctrl.Manager) error { return SetupRemotePodPolicies(mgr, setting) })
	}
	stop := run(AdmitAlways)
	client1, _ := s.pod("admitted-milan-1", "client1", "10.71.1.4")
	client2, _ := s.pod("admitted-turin-1", "client2", "10.69.1.4")
	local, _ := s.pod("worker", "local", "10.200.1.7")
	for _, pod := range []*corev1.Pod{client1, client2, local} {
		testkit.Update(t, s.c.Client, pod, func(p *corev1.Pod) { p.Labels = map[string]string{"role": "client"} })
	}
	byLabels := func(namespace, name string, peer networkingv1.NetworkPolicyPeer) *networkingv1.NetworkPolicy {
		np := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}},
			Ingress:     []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{peer}}},
		}}
		testkit.Create(t, s.c.Client, np)
		return np
	}
	clients := networkingv1.NetworkPolicyPeer{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"role": "client"}}}
	// admits waits until the policy for remote pods has these blocks, or is not there.
	admits := func(np *networkingv1.NetworkPolicy, blocks ...string) *networkingv1.NetworkPolicy {
		t.Helper()
		made := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: np.Namespace, Name: np.Name + "-remote-pods"}}
		testkit.Eventually(t, patience, func() error {
			err := s.c.Client.Get(t.Context(), client.ObjectKeyFromObject(made), made)
			if len(blocks) == 0 {
				if err != nil {
					return client.IgnoreNotFound(err)
				}
				return errors.New("it is still there")
			}
			if err != nil {
				return err
			}
			var got []string
			for _, rule := range made.Spec.Ingress {
				for _, from := range rule.From {
					got = append(got, from.IPBlock.CIDR)
				}
			}
			if want := strings.Join(blocks, " "); strings.Join(got, " ") != want {
				return fmt.Errorf("it admits %v, not %s", got, want)
			}
			return nil
		})
		return made
	}

	np := byLabels(s.namespace, "clients-only", clients)
	made := admits(np, "10.69.1.4/32", "10.71.1.4/32")
	if !metav1.IsControlledBy(made, np) || made.Annotations[names.SkipReflection] != "true" || made.Spec.PodSelector.MatchLabels["app"] != "db" {
		t.Errorf("%+v", made)
	}
	other := testkit.Namespace(t, s.c, "databases", nil)
	across := byLabels(other, "shops", networkingv1.NetworkPolicyPeer{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{names.SchedulingEnabled: "true"}}, PodSelector: clients.PodSelector})
	admits(across, "10.69.1.4/32", "10.71.1.4/32")

	t.Run("follows_pods", func(t *testing.T) {
		testkit.Update(t, s.c.Client, client1, func(p *corev1.Pod) { p.Labels = nil })
		admits(np, "10.69.1.4/32")
		testkit.Update(t, s.c.Client, client1, func(p *corev1.Pod) { p.Labels = map[string]string{"role": "client"} })
		admits(np, "10.69.1.4/32", "10.71.1.4/32")
		testkit.UpdateStatus(t, s.c.Client, client2, func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })
		admits(np, "10.71.1.4/32")
		admits(across, "10.71.1.4/32")
	})
	t.Run("edited_by_hand", func(t *testing.T) {
		testkit.Update(t, s.c.Client, admits(np, "10.71.1.4/32"), func(p *networkingv1.NetworkPolicy) { p.Spec.Ingress[0].From[0].IPBlock.CIDR = "0.0.0.0/0" })
		admits(np, "10.71.1.4/32")
		if err := s.c.Client.Delete(t.Context(), admits(np, "10.71.1.4/32")); err != nil {
			t.Fatal(err)
		}
		admits(np, "10.71.1.4/32")
	})
	t.Run("name_taken", func(t *testing.T) {
		mine := byLabels(s.namespace, "taken-remote-pods", networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: "192.0.2.0/24"}})
		taken := byLabels(s.namespace, "taken", clients)
		testkit.WantEvent(t, s.c, taken, "NameTaken", "taken-remote-pods already exists and is not of the NetworkPolicy")
		admits(taken, "192.0.2.0/24")
		if err := s.c.Client.Delete(t.Context(), mine); err != nil {
			t.Fatal(err)
		}
		testkit.Update(t, s.c.Client, taken, func(p *networkingv1.NetworkPolicy) { p.Spec.PodSelector.MatchLabels["app"] = "cache" })
		admits(taken, "10.71.1.4/32")
	})
	t.Run("deleted_policy", func(t *testing.T) {
		gone := byLabels(s.namespace, "gone", clients)
		admits(gone, "10.71.1.4/32")
		if err := s.c.Client.Delete(t.Context(), gone); err != nil {
			t.Fatal(err)
		}
		admits(gone)
	})
	stop()
	writes.To("/clients-only-remote-pods")
	stop = run(AdmitAlways)
	third, _ := s.pod("admitted-milan-1", "third", "10.71.1.9")
	testkit.Update(t, s.c.Client, third, func(p *corev1.Pod) { p.Labels = map[string]string{"role": "client"} })
	admits(np, "10.71.1.4/32", "10.71.1.9/32")
	admits(across, "10.71.1.4/32", "10.71.1.9/32")
	if got := writes.To("/clients-only-remote-pods"); len(got) != 1 {
		t.Errorf("after a restart one new pod takes the writes %q", got)
	}
	stop()
	run(AdmitDetected) // no CNI plugin is here
	admits(np)
	admits(across)
}
