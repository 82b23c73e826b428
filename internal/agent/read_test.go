// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

// placed makes a Configuration whose networks have their place here.
func placed(t *testing.T, c client.Client, namespace, name string, finalizers ...string) *networkingv1beta1.Configuration {
	t.Helper()
	of := networkingv1beta1.ClusterConfig{CIDR: networkingv1beta1.ClusterConfigCIDR{
		Pod: []networkingv1beta1.CIDR{"10.200.0.0/16"}, External: []networkingv1beta1.CIDR{"10.70.0.0/16"},
	}}
	out := &networkingv1beta1.Configuration{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Finalizers: finalizers, Labels: map[string]string{names.RemoteClusterID: namespace}},
		Spec:       networkingv1beta1.ConfigurationSpec{Remote: of},
	}
	testkit.Create(t, c, out)
	testkit.UpdateStatus(t, c, out, func(out *networkingv1beta1.Configuration) {
		out.Status.Remote, out.Status.ObservedRemote = &of, &of
		out.Status.Conditions = []metav1.Condition{{
			Type: networkingv1beta1.ConditionNetworkCIDRsConfigured, Status: metav1.ConditionTrue, Reason: "Placed", LastTransitionTime: metav1.Now(),
		}}
	})
	return out
}

func TestEffectiveConfiguration(t *testing.T) {
	c := testkit.Cluster(t)
	ns := testkit.Namespace(t, c, "rome", nil)
	const held = "test.liqo.io/held"
	leaving := placed(t, c.Client, ns, "a", held)
	placed(t, c.Client, ns, "b")
	counts := func(want string) {
		t.Helper()
		snapshot, err := Sources{}.Read(t.Context(), c.Client)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, p := range snapshot.Peers {
			if p.Key.ClusterID == ns {
				got = append(got, p.Of.Name)
			}
		}
		if len(got) != 1 || got[0] != want {
			t.Errorf("%q count, want %s", got, want)
		}
	}
	counts("a")
	if err := c.Client.Delete(t.Context(), leaving); err != nil {
		t.Fatal(err)
	}
	counts("b")
	testkit.Update(t, c.Client, leaving, func(l *networkingv1beta1.Configuration) { l.Finalizers = nil })
}
