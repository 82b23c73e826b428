// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"errors"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

// handMade is a binding of the name of ours that an administrator made.
func handMade(namespace, role, user string) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "liqo-binding-liqo-remote-controlplane"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}},
	}
}

func TestBindingNotApplied(t *testing.T) {
	c := cluster(t)
	for name, test := range map[string]struct {
		policy           authv1beta1.AuthzPolicy
		applied, foreign bool
		gone             bool
	}{
		"stays without a handshake":                 {policy: authv1beta1.TolerateNoHandshake},
		"goes without a handshake if there was one": {policy: authv1beta1.TolerateNoHandshake, applied: true, gone: true},
		"goes with the handshake":                   {policy: authv1beta1.KeysExchange, gone: true},
		"stays in any case if it is of somebody":    {policy: authv1beta1.KeysExchange, foreign: true},
		"shared binding stays":                      {policy: authv1beta1.KeysExchange, foreign: true, applied: true},
	} {
		t.Run(name, func(t *testing.T) {
			id := testkit.UniqueID()
			tenant := typedTenant(tenantNamespace(t, c, id), id)
			tenant.Spec.AuthzPolicy = &test.policy
			testkit.Create(t, c.Client, tenant)
			got := handMade(tenant.Namespace, names.RoleRemoteControlPlane, id)
			if !test.foreign {
				got.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(tenant, authv1beta1.GroupVersion.WithKind("Tenant"))}
			}
			if test.applied {
				got.Annotations = map[string]string{names.AppliedHash: "1"}
			}
			testkit.Create(t, c.Client, got)
			direct := &tenants{client: c.Client, direct: c.Client}
			if err := direct.unbindControlPlane(t.Context(), c.Client, tenant); err != nil {
				t.Fatal(err)
			}
			err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(got), got)
			if client.IgnoreNotFound(err) != nil {
				t.Fatal(err)
			}
			if gone := apierrors.IsNotFound(err); gone != test.gone {
				t.Errorf("it is gone: %t, want %t", gone, test.gone)
			}
		})
	}
}

func TestBindingOfAdministrator(t *testing.T) {
	c := cluster(t)
	runTenant(t, c)
	p := newClaimant(t, c)
	foreign := handMade(p.ns, "view", "somebody")
	testkit.Create(t, c.Client, foreign)
	tenant := p.tenant(t)
	testkit.Create(t, c.Client, tenant)
	wantReady(t, c, tenant, metav1.ConditionTrue, reasonReady, "")
	wantCertificate(t, c, tenant, metav1.ConditionTrue, reasonBindingTaken, foreign.Name)
	testkit.WantEvent(t, c, tenant, reasonBindingTaken, foreign.Name)
	testkit.Update(t, c.Client, tenant, func(tn *authv1beta1.Tenant) { tn.Spec.TenantCondition = authv1beta1.TenantConditionDrained })
	wantReady(t, c, tenant, metav1.ConditionFalse, reasonDrained, "")
	testkit.Update(t, c.Client, tenant, func(tn *authv1beta1.Tenant) { tn.Spec.TenantCondition = authv1beta1.TenantConditionActive })
	wantReady(t, c, tenant, metav1.ConditionTrue, reasonReady, "")
	got := &rbacv1.RoleBinding{}
	if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(foreign), got); err != nil {
		t.Fatal(err)
	}
	if got.UID != foreign.UID || got.ResourceVersion != foreign.ResourceVersion {
		t.Errorf("it was changed: %+v", got)
	}
	if err := c.Client.Delete(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	p.wantControlPlane(t, true)
	wantCertificate(t, c, tenant, metav1.ConditionTrue, reasonIssued, "")
}

func TestBindingOfEarlierTenant(t *testing.T) {
	c := cluster(t)
	p := newClaimantWithoutNonce(t, c)
	tenant := typedTenant(p.ns, p.id)
	testkit.Create(t, c.Client, tenant)
	before := tenant.DeepCopy()
	before.UID = "of-before"
	got := handMade(p.ns, names.RoleRemoteControlPlane, p.id)
	got.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(before, authv1beta1.GroupVersion.WithKind("Tenant"))}
	testkit.Create(t, c.Client, got)
	direct := &tenants{client: c.Client, direct: c.Client}
	testkit.Eventually(t, patient, func() error {
		taken, err := direct.bindControlPlane(t.Context(), tenant)
		if taken != "" {
			t.Fatal(taken)
		}
		if kube.IsWait(err) {
			return errors.New("it is being replaced")
		}
		return err
	})
	p.wantControlPlane(t, true)
}
