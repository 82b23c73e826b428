// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/certissuer"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/pki"
	"liqo.io/liqo/internal/testkit"
)

func runTenant(t *testing.T, c *testkit.ControlPlane) {
	t.Helper()
	liqo := liqoNamespace(t, c)
	run(t, c, func(mgr ctrl.Manager) error {
		return SetupTenant(mgr, TenantOptions{ClusterID: "provider", LiqoNamespace: liqo, Server: certissuer.Server{Address: c.Config.Host}})
	})
}

// typedTenant is the Tenant that administrators are told to apply.
func typedTenant(namespace, id string) *authv1beta1.Tenant {
	return &authv1beta1.Tenant{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "tenant-" + id, Labels: map[string]string{names.RemoteClusterID: id}},
		Spec: authv1beta1.TenantSpec{
			ClusterID:       liqov1beta1.ClusterID(id),
			AuthzPolicy:     new(authv1beta1.TolerateNoHandshake),
			TenantCondition: authv1beta1.TenantConditionActive,
		},
	}
}

// wantReady waits for the condition, about the Tenant as it is now.
func wantReady(t *testing.T, c *testkit.ControlPlane, tenant *authv1beta1.Tenant, status metav1.ConditionStatus, reason, why string) *authv1beta1.Tenant {
	t.Helper()
	got := &authv1beta1.Tenant{}
	testkit.Eventually(t, patient, func() error {
		if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(tenant), got); err != nil {
			return err
		}
		ready := apimeta.FindStatusCondition(got.Status.Conditions, authv1beta1.TenantReady)
		if ready == nil || ready.ObservedGeneration != got.Generation || ready.Status != status || ready.Reason != reason || !strings.Contains(ready.Message, why) {
			return fmt.Errorf("the condition is %+v, want %s %s with %q", ready, status, reason, why)
		}
		return nil
	})
	return got
}

func consumerBinding(id string) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: names.ClusterRoleBinding(names.RoleVirtualKubeletRemoteWide, id)}}
}

func wantBound(t *testing.T, c *testkit.ControlPlane, id string, bound bool) {
	t.Helper()
	testkit.Eventually(t, patient, func() error {
		got := consumerBinding(id)
		err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(got), got)
		if !bound {
			if !apierrors.IsNotFound(err) {
				return fmt.Errorf("the binding is still there: %v", err)
			}
			return nil
		}
		if err != nil {
			return err
		}
		want := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: id}}
		if diff := cmp.Diff(want, got.Subjects); diff != "" {
			return errors.New(diff)
		}
		if got.RoleRef.Name != names.RoleVirtualKubeletRemoteWide {
			return fmt.Errorf("it binds %s", got.RoleRef.Name)
		}
		return nil
	})
}

func TestTenantAsTyped(t *testing.T) {
	c := cluster(t)
	runTenant(t, c)
	id := testkit.UniqueID()
	ns := tenantNamespace(t, c, id)
	tenant := typedTenant(ns, id)
	testkit.Create(t, c.Client, tenant)
	got := wantReady(t, c, tenant, metav1.ConditionTrue, reasonReady, "")
	if got.Status.TenantNamespace != ns {
		t.Errorf("status.tenantNamespace is %q", got.Status.TenantNamespace)
	}
	wantBound(t, c, id, true)
	testkit.WantEvent(t, c, tenant, reasonReady, "")

	t.Run("has its binding put right", func(t *testing.T) {
		testkit.Update(t, c.Client, consumerBinding(id), func(b *rbacv1.ClusterRoleBinding) { b.Subjects[0].Name = "somebody-else" })
		wantBound(t, c, id, true)
	})
	t.Run("binding to other role is replaced", func(t *testing.T) {
		if err := c.Client.Delete(t.Context(), consumerBinding(id)); err != nil {
			t.Fatal(err)
		}
		other := consumerBinding(id)
		other.Labels = map[string]string{names.RemoteClusterID: id}
		other.RoleRef = rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"}
		if err := c.Client.Create(t.Context(), other); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
		wantBound(t, c, id, true)
	})
	t.Run("can be cordoned", func(t *testing.T) {
		testkit.Update(t, c.Client, tenant, func(tn *authv1beta1.Tenant) { tn.Spec.TenantCondition = authv1beta1.TenantConditionCordoned })
		wantReady(t, c, tenant, metav1.ConditionTrue, reasonCordoned, "")
		wantBound(t, c, id, true)
	})
	t.Run("can be drained", func(t *testing.T) {
		testkit.Update(t, c.Client, tenant, func(tn *authv1beta1.Tenant) { tn.Spec.TenantCondition = authv1beta1.TenantConditionDrained })
		wantReady(t, c, tenant, metav1.ConditionFalse, reasonDrained, "")
		wantBound(t, c, id, false)
	})
	t.Run("can be made active again", func(t *testing.T) {
		testkit.Update(t, c.Client, tenant, func(tn *authv1beta1.Tenant) { tn.Spec.TenantCondition = authv1beta1.TenantConditionActive })
		wantReady(t, c, tenant, metav1.ConditionTrue, reasonReady, "")
		wantBound(t, c, id, true)
	})
	t.Run("loses its rights when it goes", func(t *testing.T) {
		if err := c.Client.Delete(t.Context(), tenant); err != nil {
			t.Fatal(err)
		}
		wantBound(t, c, id, false)
		testkit.Eventually(t, patient, func() error {
			err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(tenant), &authv1beta1.Tenant{})
			if !apierrors.IsNotFound(err) {
				return fmt.Errorf("it is still there: %v", err)
			}
			return nil
		})
	})
}

func TestTenantRejected(t *testing.T) {
	c := cluster(t)
	runTenant(t, c)
	group := func(id string) []rbacv1.Subject {
		return []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: id}}
	}
	viewer := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"}

	t.Run("no tenant namespace", func(t *testing.T) {
		id := testkit.UniqueID()
		ns := testkit.Namespace(t, c, "plain", nil)
		tenant := typedTenant(ns, id)
		testkit.Create(t, c.Client, tenant)
		wantReady(t, c, tenant, metav1.ConditionFalse, reasonWrongNamespace, names.TenantNamespace)
		testkit.Update(t, c.Client, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, func(n *corev1.Namespace) {
			n.Labels[names.TenantNamespace], n.Labels[names.RemoteClusterID] = "true", id
		})
		wantReady(t, c, tenant, metav1.ConditionTrue, reasonReady, "")
	})
	t.Run("namespace of other cluster", func(t *testing.T) {
		id := testkit.UniqueID()
		tenant := typedTenant(tenantNamespace(t, c, id+"-other"), id)
		testkit.Create(t, c.Client, tenant)
		wantReady(t, c, tenant, metav1.ConditionFalse, reasonWrongNamespace, "other")
	})
	t.Run("second Tenant in namespace", func(t *testing.T) {
		id := testkit.UniqueID()
		ns := tenantNamespace(t, c, id)
		first, second := typedTenant(ns, id), typedTenant(ns, id)
		second.Name = "second-" + id
		testkit.Create(t, c.Client, first)
		nextSecond(t, first)
		testkit.Create(t, c.Client, second)
		wantReady(t, c, second, metav1.ConditionFalse, reasonNotUnique, first.Name)
		wantReady(t, c, first, metav1.ConditionTrue, reasonReady, "")
		wantBound(t, c, id, true)
		if err := c.Client.Delete(t.Context(), first); err != nil {
			t.Fatal(err)
		}
		wantReady(t, c, second, metav1.ConditionTrue, reasonReady, "")
		wantBound(t, c, id, true)
	})
	t.Run("cluster ID is a group with permissions", func(t *testing.T) {
		id := testkit.UniqueID()
		admins := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "admins-" + id}, RoleRef: viewer, Subjects: group(id)}
		testkit.Create(t, c.Client, admins)
		tenant := typedTenant(tenantNamespace(t, c, id), id)
		testkit.Create(t, c.Client, tenant)
		wantReady(t, c, tenant, metav1.ConditionFalse, reasonIDTaken, admins.Name)
		wantBound(t, c, id, false)
		if err := c.Client.Delete(t.Context(), admins); err != nil {
			t.Fatal(err)
		}
		wantReady(t, c, tenant, metav1.ConditionTrue, reasonReady, "")
	})
	t.Run("cluster ID of this cluster", func(t *testing.T) {
		tenant := typedTenant(tenantNamespace(t, c, "provider"), "provider")
		testkit.Create(t, c.Client, tenant)
		wantReady(t, c, tenant, metav1.ConditionFalse, reasonIDTaken, `"provider" is the ID of this cluster`)
		wantBound(t, c, "provider", false)
	})
	t.Run("cluster ID becomes a group with permissions", func(t *testing.T) {
		id := testkit.UniqueID()
		ns := testkit.Namespace(t, c, "unlabelled", nil)
		tenant := typedTenant(ns, id)
		testkit.Create(t, c.Client, tenant)
		wantReady(t, c, tenant, metav1.ConditionFalse, reasonWrongNamespace, "")
		nextSecond(t, tenant)
		devops := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "devops-" + id}, RoleRef: viewer, Subjects: group(id)}
		testkit.Create(t, c.Client, devops)
		testkit.Update(t, c.Client, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, func(n *corev1.Namespace) {
			n.Labels[names.TenantNamespace], n.Labels[names.RemoteClusterID] = "true", id
		})
		wantReady(t, c, tenant, metav1.ConditionFalse, reasonIDTaken, devops.Name)
		if err := c.Client.Delete(t.Context(), devops); err != nil {
			t.Fatal(err)
		}
		wantReady(t, c, tenant, metav1.ConditionTrue, reasonReady, "")
		nextSecond(t, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.Now()}})
		testkit.Create(t, c.Client, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: devops.Name}, RoleRef: viewer, Subjects: group(id)})
		testkit.Update(t, c.Client, tenant, func(o *authv1beta1.Tenant) { o.Spec.TenantCondition = authv1beta1.TenantConditionCordoned })
		wantReady(t, c, tenant, metav1.ConditionTrue, reasonCordoned, "")
	})
	t.Run("cluster ID is a user with permissions", func(t *testing.T) {
		id := testkit.UniqueID()
		somewhere := testkit.Namespace(t, c, "somewhere", nil)
		user := &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: somewhere, Name: "user"}, RoleRef: viewer,
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: id}},
		}
		testkit.Create(t, c.Client, user)
		tenant := typedTenant(tenantNamespace(t, c, id), id)
		testkit.Create(t, c.Client, tenant)
		wantReady(t, c, tenant, metav1.ConditionFalse, reasonIDTaken, somewhere+"/user")
		testkit.Update(t, c.Client, user, func(b *rbacv1.RoleBinding) { b.Labels = map[string]string{names.RemoteClusterID: id} })
		wantReady(t, c, tenant, metav1.ConditionTrue, reasonReady, "")
	})
	t.Run("binding of the guide is allowed", func(t *testing.T) {
		id := testkit.UniqueID()
		ns := tenantNamespace(t, c, id)
		testkit.Create(t, c.Client, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: names.RoleBinding(names.RoleRemoteControlPlane)},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: names.RoleRemoteControlPlane},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: id}},
		})
		tenant := typedTenant(ns, id)
		testkit.Create(t, c.Client, tenant)
		wantReady(t, c, tenant, metav1.ConditionTrue, reasonReady, "")
	})
}

// The hashes of these two IDs begin with the same 48 bits, which are all that names of users of slices have of them.
func TestUserPrecedence(t *testing.T) {
	const first, second = "cluster-953a586cf47b", "cluster-0521d40e54c8"
	if a, b := pki.SliceSubject("slice", first), pki.SliceSubject("slice", second); a.CommonName != b.CommonName {
		t.Fatalf("their users are %s and %s", a.CommonName, b.CommonName)
	}
	older, newer, another := typedTenant("older", first), typedTenant("newer", second), typedTenant("another", first+"-bis")
	in := &tenantInputs{}
	for n, tenant := range []*authv1beta1.Tenant{older, newer, another} {
		tenant.UID, tenant.CreationTimestamp = types.UID(tenant.Namespace), metav1.Unix(int64(n), 0)
		in.tenants = append(in.tenants, *tenant)
	}
	for tenant, want := range map[*authv1beta1.Tenant]string{older: "", newer: reasonIDTaken, another: ""} {
		in.namespace.Labels = map[string]string{names.TenantNamespace: "true", names.RemoteClusterID: string(tenant.Spec.ClusterID)}
		err := in.refusalReason(tenant)
		reason, refused := kube.InvalidReason(err)
		if reason != want || refused && !strings.Contains(err.Error(), `the users of slices of "`+second+`" and of "`+first+`" could have the same name`) {
			t.Errorf("%s: %q: %v", tenant.Namespace, reason, err)
		}
	}
}

// The user of a control plane is the ID itself, which the cluster chose. The default slice is named after the provider.
func TestUserConflictWithSlice(t *testing.T) {
	victim := "cluster-" + testkit.UniqueID()
	attacker := pki.SliceSubject("provider", victim).CommonName
	for _, order := range [][2]string{{victim, attacker}, {attacker, victim}} {
		in := &tenantInputs{}
		var both []*authv1beta1.Tenant
		for n, id := range order {
			tenant := typedTenant("tenant-"+id, id)
			tenant.UID, tenant.CreationTimestamp = types.UID(id), metav1.Unix(int64(n), 0)
			both, in.tenants = append(both, tenant), append(in.tenants, *tenant)
		}
		for n, tenant := range both {
			in.namespace.Labels = map[string]string{names.TenantNamespace: "true", names.RemoteClusterID: string(tenant.Spec.ClusterID)}
			err := in.refusalReason(tenant)
			if reason, _ := kube.InvalidReason(err); (n == 1) != (reason == reasonIDTaken) {
				t.Errorf("of %v, %s: %q: %v", order, tenant.Spec.ClusterID, reason, err)
			}
		}
	}
}

func TestUncachedBindingRevoked(t *testing.T) {
	c := cluster(t)
	id := testkit.UniqueID()
	tenant := typedTenant(tenantNamespace(t, c, id), id)
	late := &tenants{client: testkit.Unaware(c.Client, &rbacv1.ClusterRoleBinding{}), direct: c.Client}
	if err := late.bindRoles(t.Context(), tenant); err != nil {
		t.Fatal(err)
	}
	if err := late.Cleanup(t.Context(), tenant); err != nil {
		t.Fatal(err)
	}
	wantBound(t, c, id, false)
}
