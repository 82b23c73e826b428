// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

// addressedPod has a pod of this cluster with an address.
func (s *testEnv) addressedPod(name, app, ip string) *corev1.Pod {
	s.t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.local, Name: name, Labels: map[string]string{"app": app}},
		Spec: corev1.PodSpec{
			NodeName: "local-node", AutomountServiceAccountToken: new(false), TerminationGracePeriodSeconds: new(int64(0)),
			Containers: []corev1.Container{{Name: "c", Image: "i"}},
		},
	}
	s.create(s.consumer, pod)
	testkit.UpdateStatus(s.t, s.consumer.Client, pod, func(p *corev1.Pod) {
		p.Status.Phase, p.Status.PodIP, p.Status.PodIPs = corev1.PodRunning, ip, []corev1.PodIP{{IP: ip}}
	})
	return pod
}

func policyCopy(s *testEnv, name string) *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: s.remoteNamespace, Name: name}}
}

// admits reports what the first ingress rule admits besides selected pods.
func admits(want ...string) func(*networkingv1.NetworkPolicy) error {
	return func(np *networkingv1.NetworkPolicy) error {
		var got []string
		for _, rule := range np.Spec.Ingress {
			for _, from := range rule.From {
				if from.IPBlock != nil {
					got = append(got, from.IPBlock.CIDR)
				}
			}
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("admitted are %q, want %q", got, want)
		}
		return nil
	}
}

func TestNetworkPolicyReflection(t *testing.T) {
	t.Parallel()
	s, configuration := networked(t, nil)
	s.place(configuration, "10.71.0.0/16")
	networks := func(of ...offv1beta1.TranslatedNetwork) {
		s.t.Helper()
		testkit.UpdateStatus(s.t, s.consumer.Client, &offv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.tenant, Name: string(s.providerID)}},
			func(nm *offv1beta1.NamespaceMap) { nm.Status.ConsumerNetworks = of })
	}
	networks(offv1beta1.TranslatedNetwork{CIDR: "10.200.0.0/16", TranslatedCIDR: "10.81.0.0/16"})
	first, second := s.addressedPod("first", "client", "10.200.1.4"), s.addressedPod("second", "client", "10.200.1.5")
	s.addressedPod("other", "other", "10.200.1.6")
	stop := s.run()
	local := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: s.local, Name: "clients"}}
	local.Spec.PodSelector = metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	local.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{
		{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "client"}}},
		{IPBlock: &networkingv1.IPBlock{CIDR: "10.71.4.0/24"}},
	}}}
	s.create(s.consumer, local)

	s.step("pods are the prefixes that the provider sees, and those in the provider stay selected", func() {
		copied := eventually(s, s.provider, policyCopy(s, "clients"), admits("10.7.4.0/24", "10.81.1.4/31"))
		if from := copied.Spec.Ingress[0].From[0]; from.PodSelector == nil || from.NamespaceSelector != nil || copied.Spec.PodSelector.MatchLabels["app"] != "web" {
			s.t.Errorf("%+v", copied.Spec)
		}
	})
	s.step("pods come and go", func() {
		if err := s.consumer.Client.Delete(s.t.Context(), first); err != nil {
			s.t.Fatal(err)
		}
		eventually(s, s.provider, policyCopy(s, "clients"), admits("10.7.4.0/24", "10.81.1.5/32"))
		s.patch(s.consumer, second, `{"metadata":{"labels":{"app":"other"}}}`)
		eventually(s, s.provider, policyCopy(s, "clients"), admits("10.7.4.0/24"))
		s.patch(s.consumer, second, `{"metadata":{"labels":{"app":"client"}}}`)
		eventually(s, s.provider, policyCopy(s, "clients"), admits("10.7.4.0/24", "10.81.1.5/32"))
	})
	s.step("the provider sees other prefixes, or none", func() {
		networks(offv1beta1.TranslatedNetwork{CIDR: "10.200.0.0/16", TranslatedCIDR: "10.82.0.0/16"})
		eventually(s, s.provider, policyCopy(s, "clients"), admits("10.7.4.0/24", "10.82.1.5/32"))
		networks()
		eventually(s, s.provider, policyCopy(s, "clients"), admits("10.7.4.0/24"))
		testkit.Eventually(s.t, limit, func() error {
			var events corev1.EventList
			if err := s.consumer.Client.List(s.t.Context(), &events, client.InNamespace(s.local)); err != nil {
				return err
			}
			if !slices.ContainsFunc(events.Items, func(e corev1.Event) bool {
				return e.Reason == reasonNarrowed && strings.Contains(e.Message, "does not know the addresses of 1 pods")
			}) {
				return fmt.Errorf("no event %s", reasonNarrowed)
			}
			return nil
		})
	})
	s.step("a change there is put back, and an annotation removes the copy", func() {
		s.patch(s.provider, policyCopy(s, "clients"), `{"spec":{"ingress":[{}]}}`)
		eventually(s, s.provider, policyCopy(s, "clients"), admits("10.7.4.0/24"))
		s.patch(s.consumer, local, fmt.Sprintf(`{"metadata":{"annotations":{%q:"true"}}}`, names.SkipReflection))
		testkit.Eventually(s.t, limit, func() error {
			if err := s.provider.Client.Get(s.t.Context(), client.ObjectKeyFromObject(policyCopy(s, "clients")), policyCopy(s, "clients")); client.IgnoreNotFound(err) != nil || err == nil {
				return fmt.Errorf("the copy is there: %w", err)
			}
			return nil
		})
	})
	stop()
	_ = s.consumer.Client.Delete(context.WithoutCancel(t.Context()), second)
}
