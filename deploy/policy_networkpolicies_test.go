// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"fmt"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

// networkPolicy has as many rules of each direction, with as many peers each.
func networkPolicy(namespace, name, origin string, ingress, egress, peers int) *networkingv1.NetworkPolicy {
	out := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if origin != "" {
		out.Labels = map[string]string{names.OffloadingOrigin: origin}
	}
	out.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress}
	var to []networkingv1.NetworkPolicyPeer
	for i := range peers {
		to = append(to, networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: fmt.Sprintf("10.%d.%d.0/24", i/256, i%256)}})
	}
	for range ingress {
		out.Spec.Ingress = append(out.Spec.Ingress, networkingv1.NetworkPolicyIngressRule{From: to})
	}
	for range egress {
		out.Spec.Egress = append(out.Spec.Egress, networkingv1.NetworkPolicyEgressRule{To: to})
	}
	return out
}

func TestNetworkPoliciesPolicy(t *testing.T) {
	c := install(t)
	free := testkit.Namespace(t, c, "free", map[string]string{names.RemoteClusterID: "milan"})
	restricted := testkit.Namespace(t, c, "restricted", map[string]string{names.RemoteClusterID: "milan"})
	peer := clientOf(t, c.User(t, "gold-policies", "milan", "system:authenticated"))
	bind(t, c, free, names.RoleVirtualKubeletRemote, "gold-policies")
	bind(t, c, restricted, names.RoleVirtualKubeletRemote, "gold-policies")
	rights(t, func() error {
		return peer.Get(t.Context(), client.ObjectKey{Namespace: restricted, Name: "x"}, &networkingv1.NetworkPolicy{})
	})
	ours := networkPolicy(restricted, "no-egress", "", 0, 0, 0)
	ours.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeEgress}
	earlier := networkPolicy(restricted, "earlier", "milan", 0, 0, 0)
	testkit.Create(t, c.Client, ours, earlier)
	testkit.Eventually(t, 3*time.Minute, func() error { // parameters are watched
		return refused(peer.Create(t.Context(), networkPolicy(restricted, "a", "milan", 0, 1, 1), client.DryRunAll), "no-egress of the provider")
	})
	for name, tc := range map[string]struct {
		policy *networkingv1.NetworkPolicy
		want   string
	}{
		"opens_what_is_free":      {networkPolicy(free, "a", "milan", 1, 1, 1), ""},
		"closes":                  {networkPolicy(restricted, "a", "milan", 0, 0, 0), ""},
		"opens_another_direction": {networkPolicy(restricted, "a", "milan", 1, 0, 1), ""},
		"opens_to_all":            {networkPolicy(restricted, "a", "milan", 0, 1, 0), "the NetworkPolicy no-egress of the provider restricts this namespace"},
		"without_origin":          {networkPolicy(free, "a", "", 0, 0, 0), "has no label offloading.liqo.io/origin"},
		"as_many_peers_as_may":    {networkPolicy(free, "a", "milan", 1, 1, 1000), ""},
		"too_many_peers":          {networkPolicy(free, "a", "milan", 1, 2, 1000), "at most 2000 peers"},
		"too_many_rules":          {networkPolicy(free, "a", "milan", 100, 101, 0), "at most 2000 peers and 200 rules"},
	} {
		t.Run(name, func(t *testing.T) {
			expect(t, peer.Create(t.Context(), tc.policy, client.DryRunAll), tc.want)
		})
	}
	t.Run("of_the_provider", func(t *testing.T) {
		expect(t, peer.Delete(t.Context(), ours.DeepCopy(), client.DryRunAll), "is the provider's")
		adopt := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"`+names.OffloadingOrigin+`":"milan"}}}`))
		expect(t, peer.Patch(t.Context(), ours.DeepCopy(), adopt, client.DryRunAll), "is the provider's")
	})
	t.Run("of_its_own", func(t *testing.T) {
		release := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":null}}`))
		expect(t, peer.Patch(t.Context(), earlier.DeepCopy(), release, client.DryRunAll), "has no label")
		expect(t, peer.Delete(t.Context(), earlier.DeepCopy(), client.DryRunAll), "")
	})
}
