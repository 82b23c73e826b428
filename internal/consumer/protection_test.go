// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package consumer

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/peer"
	"liqo.io/liqo/internal/policy"
	"liqo.io/liqo/internal/testkit"
)

func TestProtectionConditions(t *testing.T) {
	const policies, security = offv1beta1.NamespaceNetworkPoliciesEnforced, offv1beta1.NamespacePodSecuritySatisfied
	init := map[string]string{policy.PodSecurityBaseline: `meshed: container "istio-init" adds the capability NET_ADMIN`}
	for name, tc := range map[string]struct {
		has   podProtection
		level string
		able  string // capabilities of the provider
		want  map[offv1beta1.RemoteNamespaceConditionType]string
	}{
		"nothing":            {podProtection{}, policy.PodSecurityBaseline, "", nil},
		"policies":           {podProtection{policies: []string{"a", "b"}}, "", "", map[offv1beta1.RemoteNamespaceConditionType]string{policies: "in the remote cluster, its version of Liqo takes no NetworkPolicies: a, b"}},
		"many_policies":      {podProtection{policies: []string{"a", "b", "c", "d", "e"}}, "", "", map[offv1beta1.RemoteNamespaceConditionType]string{policies: ": a, b, c and 2 more"}},
		"mesh":               {podProtection{mesh: policy.MeshIstio}, policy.PodSecurityBaseline, "", map[offv1beta1.RemoteNamespaceConditionType]string{security: "Pods into which Istio injects"}},
		"mesh_allowed":       {podProtection{mesh: policy.MeshIstio}, policy.PodSecurityPrivileged, "", nil},
		"mesh_unknown_level": {podProtection{mesh: policy.MeshIstio}, "", "", nil},
		"pods_say_more":      {podProtection{mesh: policy.MeshIstio, forbidden: init}, policy.PodSecurityBaseline, "", map[offv1beta1.RemoteNamespaceConditionType]string{security: "such as meshed: container"}},
		"of_another_level":   {podProtection{forbidden: init}, policy.PodSecurityRestricted, "", nil},
		"both": {podProtection{policies: []string{"a"}, forbidden: init}, policy.PodSecurityBaseline, "", map[offv1beta1.RemoteNamespaceConditionType]string{policies: ": a",
			security: "by the label pod-security.kubernetes.io/enforce=privileged on that namespace, or by offloading.twinNamespaces.podSecurity"}},
		"policies_enforced": {podProtection{policies: []string{"a"}}, "", "enforced-network-policies network-policies", nil},
		"policies_kept":     {podProtection{policies: []string{"a"}, kept: []string{"b"}}, "", "enforced-network-policies network-policies", map[offv1beta1.RemoteNamespaceConditionType]string{policies: "they are not reflected: b"}},
		"policies_unenforced": {podProtection{policies: []string{"c"}, kept: []string{"b"}}, "", "network-policies", map[offv1beta1.RemoteNamespaceConditionType]string{
			policies: "its CNI plugin enforces none, or is not known to (networking.networkPoliciesEnforced): b, c"}},
	} {
		got := tc.has.protectionConditions("demo-home", tc.level, strings.Fields(tc.able))
		if len(got) != len(tc.want) {
			t.Errorf("%s: %+v", name, got)
		}
		for _, c := range got {
			if want := tc.want[c.Type]; want == "" || !strings.Contains(c.Message, want) || !isUnprotected(&c) || c.Reason == "" {
				t.Errorf("%s: %+v, %q is wanted", name, c, want)
			}
		}
	}
}

func TestProtectionForbids(t *testing.T) {
	pod := func(change func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-7d9-x", GenerateName: "web-7d9-"}}
		p.Spec.Containers = []corev1.Container{{Name: "app", SecurityContext: &corev1.SecurityContext{Privileged: new(true)}}}
		change(p)
		return p
	}
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		want string
	}{
		"of_a_deployment": {pod(func(*corev1.Pod) {}), `web-7d9: container "app" is privileged`},
		"of_a_daemonset": {pod(func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Controller: new(true)}}
		}), ""},
		"ended":              {pod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }), ""},
		"of_another_cluster": {pod(func(p *corev1.Pod) { p.Labels = map[string]string{"liqo.io/managed-by": "shadowpod"} }), ""},
	} {
		if got := forbiddenReason(policy.PodSecurityBaseline, tc.pod); got != tc.want {
			t.Errorf("%s: %q, not %q", name, got, tc.want)
		}
	}
}

// TestUnprotectedPods has a namespace whose sidecars and NetworkPolicies are not the same in the provider.
func TestUnprotectedPods(t *testing.T) {
	c := consumerCluster(t)
	vn := provide(t, c, "verona", "verona-1", "")
	nso := extend(t, c, func(s *offv1beta1.NamespaceOffloadingSpec) { s.ClusterSelector = choosing("name:verona-1") })
	desires(t, c, vn, nso.Namespace, nso.Namespace+"-home")
	level := func(level string) {
		t.Helper()
		nm := mapOf(vn)
		eventually(t, c, nm, func() error {
			before := nm.DeepCopy()
			nm.Status.CurrentMapping = map[string]offv1beta1.RemoteNamespaceStatus{nso.Namespace: {
				RemoteNamespace: nso.Namespace + "-home", Phase: offv1beta1.MappingAccepted, PodSecurity: level,
			}}
			return c.Client.Status().Patch(t.Context(), nm, client.MergeFrom(before))
		})
	}
	waitForCondition := func(of offv1beta1.RemoteNamespaceConditionType, want string) {
		t.Helper()
		eventually(t, c, nso, func() error {
			got := ""
			for _, c := range nso.Status.RemoteNamespacesConditions["verona"] {
				if c.Type == of {
					got = c.Message
				}
			}
			if (got == "") != (want == "") || !strings.Contains(got, want) {
				return fmt.Errorf("the condition %s says %q, not %q", of, got, want)
			}
			return nil
		})
	}
	event := func(reason string) {
		t.Helper()
		testkit.Eventually(t, patience, func() error {
			list := &eventsv1.EventList{}
			if err := c.Client.List(t.Context(), list, client.InNamespace(nso.Namespace)); err != nil {
				return err
			}
			for _, e := range list.Items {
				if e.Regarding.Name == nso.Name && e.Reason == reason && strings.Contains(e.Note, "Cluster verona: ") {
					return nil
				}
			}
			return fmt.Errorf("none of %d events is %s", len(list.Items), reason)
		})
	}
	level(policy.PodSecurityBaseline)
	phaseIs(t, c, nso, offv1beta1.ReadyOffloadingPhaseType)
	waitForCondition(offv1beta1.NamespacePodSecuritySatisfied, "")
	waitForCondition(offv1beta1.NamespaceNetworkPoliciesEnforced, "")

	denial := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: nso.Namespace, Name: "deny-all"}, Spec: networkingv1.NetworkPolicySpec{
		PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
	}}
	testkit.Create(t, c.Client, denial)
	waitForCondition(offv1beta1.NamespaceNetworkPoliciesEnforced, "its version of Liqo takes no NetworkPolicies: deny-all")
	event("NotReflected")
	capable := func(capabilities ...string) {
		t.Helper()
		nm := mapOf(vn)
		eventually(t, c, nm, func() error {
			before := nm.DeepCopy()
			nm.Status.ProviderCapabilities = capabilities
			return c.Client.Status().Patch(t.Context(), nm, client.MergeFrom(before))
		})
	}
	capable(peer.NetworkPolicies)
	waitForCondition(offv1beta1.NamespaceNetworkPoliciesEnforced, "its CNI plugin enforces none")
	event("NotEnforced")
	capable(peer.EnforcedNetworkPolicies, peer.NetworkPolicies)
	waitForCondition(offv1beta1.NamespaceNetworkPoliciesEnforced, "")
	testkit.Update(t, c.Client, denial, func(np *networkingv1.NetworkPolicy) { np.Annotations = map[string]string{names.SkipReflection: "true"} })
	waitForCondition(offv1beta1.NamespaceNetworkPoliciesEnforced, "they are not reflected: deny-all")
	phaseIs(t, c, nso, offv1beta1.ReadyOffloadingPhaseType)
	if err := c.Client.Delete(t.Context(), denial); err != nil {
		t.Fatal(err)
	}
	waitForCondition(offv1beta1.NamespaceNetworkPoliciesEnforced, "")

	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: nso.Namespace}}
	testkit.Update(t, c.Client, namespace, func(ns *corev1.Namespace) { ns.Labels["istio-injection"] = "enabled" })
	waitForCondition(offv1beta1.NamespacePodSecuritySatisfied, "Pods into which Istio injects an init container with NET_ADMIN are refused")
	event("SidecarsInjected")
	level(policy.PodSecurityPrivileged)
	waitForCondition(offv1beta1.NamespacePodSecuritySatisfied, "")

	// A pod that is there tells more than the label.
	pod := podOn(t, c, nso.Namespace, "meshed", "", func(pod *corev1.Pod) {
		pod.Spec.InitContainers = []corev1.Container{{Name: "istio-init", Image: "none", SecurityContext: &corev1.SecurityContext{
			Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"NET_ADMIN"}},
		}}}
	})
	level(policy.PodSecurityRestricted)
	waitForCondition(offv1beta1.NamespacePodSecuritySatisfied, `Pods of the namespace are refused, such as `+pod.Name+`: container "istio-init" adds the capability NET_ADMIN`)
	event("PodsForbidden")

	testkit.Update(t, c.Client, nso, func(nso *offv1beta1.NamespaceOffloading) {
		nso.Spec.PodOffloadingStrategy = offv1beta1.LocalPodOffloadingStrategyType
	})
	waitForCondition(offv1beta1.NamespacePodSecuritySatisfied, "")
}

func TestProtectionRecheck(t *testing.T) {
	status := func(s corev1.ConditionStatus) *offv1beta1.NamespaceOffloadingStatus {
		return &offv1beta1.NamespaceOffloadingStatus{RemoteNamespacesConditions: map[string]offv1beta1.RemoteNamespaceConditions{
			"verona": {{Type: offv1beta1.NamespacePodSecuritySatisfied, Status: s}},
		}}
	}
	if err := lookAgain(status(corev1.ConditionTrue)); err != nil {
		t.Errorf("satisfied: %v", err)
	}
	if _, after, ok := kube.WaitReason(lookAgain(status(corev1.ConditionFalse))); !ok || after != lookDelay {
		t.Errorf("not satisfied: again after %s", after)
	}
}

// TestFullNamespaceMap has a provider whose NamespaceMap takes no more namespaces, beside one that does.
func TestFullNamespaceMap(t *testing.T) {
	c := consumerCluster(t)
	full, free := provide(t, c, "padua", "padua-1", ""), provide(t, c, "pavia", "pavia-1", "")
	eventually(t, c, mapOf(full), func() error {
		desired := map[string]string{}
		for i := range 1000 {
			desired[fmt.Sprintf("other-%d", i)] = fmt.Sprintf("other-%d-home", i)
		}
		body, err := json.Marshal(map[string]any{"spec": map[string]any{"desiredMapping": desired}})
		if err != nil {
			return err
		}
		return c.Client.Patch(t.Context(), mapOf(full), client.RawPatch(types.MergePatchType, body))
	})
	nso := extend(t, c, func(s *offv1beta1.NamespaceOffloadingSpec) { s.ClusterSelector = choosing("name:padua-1|name:pavia-1") })
	desires(t, c, free, nso.Namespace, nso.Namespace+"-home")
	eventually(t, c, nso, func() error {
		if _, ok := nso.Status.RemoteNamespacesConditions["pavia"]; !ok {
			return fmt.Errorf("no condition of pavia: %+v", nso.Status)
		}
		return nil
	})
}
