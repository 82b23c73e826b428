// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

// A user of the provider who may make namespaces is nobody who decides about peers.
func TestNamespacesPolicy(t *testing.T) {
	c := install(t)
	portal := clientOf(t, c.User(t, "portal", "staff", "system:authenticated"))
	liqo := clientOf(t, c.User(t, "liqo-admin", "staff", "system:authenticated"))
	for user, rules := range map[string][]rbacv1.PolicyRule{
		"portal": {{APIGroups: []string{""}, Resources: []string{"namespaces", "namespaces/status", "namespaces/finalize"}, Verbs: []string{"get", "create", "update", "patch"}}},
		"liqo-admin": {
			{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get", "create", "update", "patch"}},
			{APIGroups: []string{"authentication.liqo.io"}, Resources: []string{"tenants"}, Verbs: []string{"originate"}},
		},
	} {
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-" + user + "-"}, Rules: rules}
		testkit.Create(t, c.Client, role)
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: role.Name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
		}
		testkit.Create(t, c.Client, binding)
		t.Cleanup(func() {
			_ = c.Client.Delete(context.Background(), role)
			_ = c.Client.Delete(context.Background(), binding)
		})
	}
	plain := testkit.Namespace(t, c, "plain", nil)
	tenant := testkit.Namespace(t, c, "tenant", map[string]string{names.TenantNamespace: "true", names.RemoteClusterID: "milan"})
	allowed := testkit.Namespace(t, c, "allowed", map[string]string{names.AllowVirtualNodes: "true"})
	// In the namespace of its team it may do everything.
	bind(t, c, plain, "cluster-admin", "portal")
	for _, user := range []client.Client{portal, liqo} {
		rights(t, func() error { return user.Get(t.Context(), client.ObjectKey{Name: plain}, &corev1.Namespace{}) })
	}
	const refused = "only users that may originate tenants.authentication.liqo.io"
	for name, tc := range map[string]struct {
		user   client.Client
		labels map[string]string
		want   string
	}{
		"portal_plain":                {portal, map[string]string{"team": "a"}, ""},
		"portal_as_tenant":            {portal, map[string]string{names.TenantNamespace: "true", names.RemoteClusterID: "milan"}, refused},
		"portal_allows_virtual_nodes": {portal, map[string]string{names.AllowVirtualNodes: "true"}, refused},
		"portal_allows_none":          {portal, map[string]string{names.AllowVirtualNodes: "false"}, ""},
		"liqo_allows_virtual_nodes":   {liqo, map[string]string{names.AllowVirtualNodes: "true"}, ""},
		"portal_not_true":             {portal, map[string]string{names.TenantNamespace: "false"}, ""},
		"liqo_as_tenant":              {liqo, map[string]string{names.TenantNamespace: "true", names.RemoteClusterID: "milan"}, ""},
	} {
		t.Run("create/"+name, func(t *testing.T) {
			namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "policy-of-namespaces", Labels: tc.labels}}
			expect(t, tc.user.Create(t.Context(), namespace, client.DryRunAll), tc.want)
		})
	}
	for name, tc := range map[string]struct {
		user         client.Client
		of           string
		subresource  string
		patch, wants string
	}{
		"portal_other_label":           {portal, tenant, "", `{"metadata":{"labels":{"team":"a"}}}`, ""},
		"portal_makes_tenant":          {portal, plain, "", `{"metadata":{"labels":{"liqo.io/tenant-namespace":"true"}}}`, refused},
		"portal_allows_virtual_nodes":  {portal, plain, "", `{"metadata":{"labels":{"liqo.io/allow-virtual-nodes":"true"}}}`, refused},
		"portal_allows_by_status":      {portal, plain, "status", `{"metadata":{"labels":{"liqo.io/allow-virtual-nodes":"true"}}}`, refused},
		"portal_forbids_virtual_nodes": {portal, allowed, "", `{"metadata":{"labels":{"liqo.io/allow-virtual-nodes":null}}}`, refused},
		"portal_other_label_there":     {portal, allowed, "", `{"metadata":{"labels":{"team":"a"}}}`, ""},
		"liqo_allows_virtual_nodes":    {liqo, plain, "", `{"metadata":{"labels":{"liqo.io/allow-virtual-nodes":"true"}}}`, ""},
		"portal_by_status":             {portal, plain, "status", `{"metadata":{"labels":{"liqo.io/tenant-namespace":"true"}}}`, refused},
		"portal_other_cluster":         {portal, tenant, "", `{"metadata":{"labels":{"liqo.io/remote-cluster-id":"turin"}}}`, refused},
		"portal_takes_it_off":          {portal, tenant, "", `{"metadata":{"labels":{"liqo.io/tenant-namespace":null}}}`, refused},
		"liqo_takes_it_off":            {liqo, tenant, "", `{"metadata":{"labels":{"liqo.io/tenant-namespace":null}}}`, ""},
		"cluster_of_no_tenant":         {portal, plain, "", `{"metadata":{"labels":{"liqo.io/remote-cluster-id":"turin"}}}`, ""},
	} {
		t.Run("update/"+name, func(t *testing.T) {
			namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tc.of}}
			patch := client.RawPatch("application/merge-patch+json", []byte(tc.patch))
			var err error
			if tc.subresource == "" {
				err = tc.user.Patch(t.Context(), namespace, patch, client.DryRunAll)
			} else {
				err = tc.user.SubResource(tc.subresource).Patch(t.Context(), namespace, patch, client.DryRunAll)
			}
			expect(t, err, tc.wants)
		})
	}
}
