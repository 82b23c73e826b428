// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package peer_test

import (
	"errors"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/peer"
	"liqo.io/liqo/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func tenantLabels(id string) map[string]string {
	return map[string]string{names.RemoteClusterID: id, names.TenantNamespace: "true"}
}

func TestTenantNamespaceByLabels(t *testing.T) {
	c := testkit.Cluster(t)
	milan := testkit.Namespace(t, c, "any-name", tenantLabels("milan"))
	testkit.Namespace(t, c, "twin", map[string]string{names.RemoteClusterID: "milan"})
	testkit.Namespace(t, c, "double", tenantLabels("turin"))
	testkit.Namespace(t, c, "double", tenantLabels("turin"))

	for id, test := range map[liqov1beta1.ClusterID]struct {
		want string
		err  error
	}{
		"milan": {want: milan},
		"rome":  {err: peer.ErrNotFound},
		"turin": {err: peer.ErrAmbiguous},
	} {
		got, err := peer.TenantNamespace(t.Context(), c.Client, id)
		if got != test.want || !errors.Is(err, test.err) {
			t.Errorf("%s: got %q, %v; want %q, %v", id, got, err, test.want, test.err)
		}
	}
}

func TestLocalClusterID(t *testing.T) {
	c := testkit.Cluster(t)
	ns := testkit.Namespace(t, c, "liqo", nil)
	if _, err := peer.LocalClusterID(t.Context(), c.Client, ns); !errors.Is(err, peer.ErrNotFound) {
		t.Fatalf("without a ConfigMap: got %v, want %v", err, peer.ErrNotFound)
	}
	if err := c.Client.Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "named-by-a-user", Labels: map[string]string{names.AppName: names.ClusterIDApp}},
		Data:       map[string]string{names.ClusterIDKey: "rome"},
	}); err != nil {
		t.Fatal(err)
	}
	got, err := peer.LocalClusterID(t.Context(), c.Client, ns)
	if err != nil || got != "rome" {
		t.Errorf("got %q, %v; want rome", got, err)
	}
}

func TestOfNamespace(t *testing.T) {
	for name, test := range map[string]struct {
		labels map[string]string
		want   liqov1beta1.ClusterID
	}{
		"a tenant namespace":              {tenantLabels("milan"), "milan"},
		"a twin namespace is none":        {map[string]string{names.RemoteClusterID: "milan"}, ""},
		"a namespace without ID is none":  {map[string]string{names.TenantNamespace: "true"}, ""},
		"a namespace said not to be none": {map[string]string{names.RemoteClusterID: "milan", names.TenantNamespace: "false"}, ""},
	} {
		got, ok := peer.OfNamespace(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Labels: test.labels}})
		if got != test.want || ok != (test.want != "") {
			t.Errorf("%s: got %q, %t; want %q", name, got, ok, test.want)
		}
	}
}

func TestIsReplica(t *testing.T) {
	for labels, want := range map[[2]string]bool{
		{names.Replicated, "true"}:       true,
		{names.Replicated, "false"}:      false,
		{names.Replication, "false"}:     false,
		{names.ReplicationOrigin, "rom"}: false,
	} {
		obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{labels[0]: labels[1]}}}
		if got := peer.IsReplica(obj); got != want {
			t.Errorf("%s=%s: got %t, want %t", labels[0], labels[1], got, want)
		}
	}
}

func TestTenantPrecedence(t *testing.T) {
	tenant := func(name string, at int64) authv1beta1.Tenant {
		return authv1beta1.Tenant{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), CreationTimestamp: metav1.Unix(at, 0)},
			Spec:       authv1beta1.TenantSpec{ClusterID: "rome"},
		}
	}
	first, second, third := tenant("a", 5), tenant("b", 5), tenant("c", 9)
	leaving, other := tenant("d", 1), tenant("e", 1)
	leaving.DeletionTimestamp = new(metav1.Unix(2, 0))
	other.Spec.ClusterID = "milan"
	all := []authv1beta1.Tenant{leaving, first, second, third, other}
	for range 2 {
		if got := peer.Tenant(all, "rome"); got == nil || got.Name != "a" {
			t.Errorf("counts: %v", got)
		}
		slices.Reverse(all)
	}
	if got := peer.Tenant(all, "turin"); got != nil {
		t.Errorf("of nobody: %v", got)
	}
}

func TestConfigurationPrecedence(t *testing.T) {
	configuration := func(name string, at int64, reason string) networkingv1beta1.Configuration {
		out := networkingv1beta1.Configuration{ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID(name), CreationTimestamp: metav1.Unix(at, 0), Labels: map[string]string{names.RemoteClusterID: "rome"},
		}}
		if reason != "" {
			out.Status.Conditions = []metav1.Condition{{Type: networkingv1beta1.ConditionNetworkCIDRsConfigured, Reason: reason}}
		}
		return out
	}
	second, first, later := configuration("a", 1, networkingv1beta1.ReasonAnotherConfiguration), configuration("b", 2, ""), configuration("c", 3, "NetworkCIDRsConfigured")
	all := []networkingv1beta1.Configuration{second, first, later}
	for range 2 {
		if got := peer.Configuration(all, "rome"); got == nil || got.Name != "b" {
			t.Errorf("counts: %v", got)
		}
		slices.Reverse(all)
	}
	if got := peer.Configuration(all[:1], "rome"); got == nil || got.Name != "a" {
		t.Errorf("while there is no other: %v", got)
	}
}

func TestNetworksChanged(t *testing.T) {
	const placed = networkingv1beta1.ConditionNetworkCIDRsConfigured
	networks := &networkingv1beta1.ClusterConfig{CIDR: networkingv1beta1.ClusterConfigCIDR{Pod: []networkingv1beta1.CIDR{"10.71.0.0/16"}}}
	for name, test := range map[string]struct {
		edit func(*networkingv1beta1.Configuration)
		want bool
	}{
		"reported": {func(c *networkingv1beta1.Configuration) { c.Status.ReportedRemote = networks }, false},
		"agreed":   {func(c *networkingv1beta1.Configuration) { c.Status.AgreedRemote = networks }, false},
		"applied":  {func(c *networkingv1beta1.Configuration) { c.Status.Conditions[0].Status = metav1.ConditionFalse }, false},
		"message":  {func(c *networkingv1beta1.Configuration) { c.Status.Conditions[1].Message = "another" }, false},
		"reason": {func(c *networkingv1beta1.Configuration) {
			c.Status.Conditions[1].Reason = networkingv1beta1.ReasonAnotherConfiguration
		}, true},
		"placed":   {func(c *networkingv1beta1.Configuration) { c.Status.Conditions[1].Status = metav1.ConditionFalse }, true},
		"local":    {func(c *networkingv1beta1.Configuration) { c.Status.Remote = networks }, true},
		"observed": {func(c *networkingv1beta1.Configuration) { c.Status.ObservedRemote = networks }, true},
		"spec":     {func(c *networkingv1beta1.Configuration) { c.Generation++ }, true},
		"label":    {func(c *networkingv1beta1.Configuration) { c.Labels = map[string]string{"a": "b"} }, true},
		"deletion": {func(c *networkingv1beta1.Configuration) { c.DeletionTimestamp = new(metav1.Now()) }, true},
	} {
		before := &networkingv1beta1.Configuration{Status: networkingv1beta1.ConfigurationStatus{Conditions: []metav1.Condition{
			{Type: "Applied", Status: metav1.ConditionTrue}, {Type: placed, Status: metav1.ConditionTrue},
		}}}
		after := before.DeepCopy()
		test.edit(after)
		if got := peer.NetworksPredicate.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
}
