// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/ctl/ctltest"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/pki"
)

func TestLockedOut(t *testing.T) {
	ended, key := ctltest.ExpiredCertificate(t)
	identity := func(certificate []byte) client.Object {
		return &authv1beta1.Identity{Spec: authv1beta1.IdentitySpec{AuthParams: authv1beta1.AuthParams{SignedCRT: certificate}}}
	}
	tenant := func(edit func(*authv1beta1.Tenant)) client.Object {
		out := &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Generation: 2}}
		edit(out)
		return out
	}
	ready := func(status metav1.ConditionStatus, generation int64) client.Object {
		return tenant(func(tn *authv1beta1.Tenant) {
			tn.Status.Conditions = []metav1.Condition{{Type: authv1beta1.TenantReady, Status: status, ObservedGeneration: generation}}
		})
	}
	served, refused := ready(metav1.ConditionTrue, 2), ready(metav1.ConditionFalse, 2)
	known := []client.Object{identity(nil)}
	kubeconfig := func(controlled bool, certificate []byte) []corev1.Secret {
		data, err := pki.Kubeconfig{Server: "https://milan:6443", Certificate: certificate, Key: key, Cluster: "milan", User: "rome"}.Encode()
		if err != nil {
			t.Fatal(err)
		}
		return []corev1.Secret{{
			ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{Kind: "Identity", Controller: &controlled}}},
			Data:       map[string][]byte{names.KubeconfigKey: data},
		}}
	}
	for name, tc := range map[string]struct {
		identities  []client.Object
		kubeconfigs []corev1.Secret
		tenants     []client.Object
		want        bool
	}{
		"it was never let in":                          {nil, nil, nil, false},
		"its Tenant is served":                         {known, nil, []client.Object{served}, false},
		"one of its Tenants is":                        {known, nil, []client.Object{refused, served}, false},
		"nobody looked at its Tenant":                  {known, nil, []client.Object{tenant(func(*authv1beta1.Tenant) {})}, false},
		"it was refused before":                        {known, nil, []client.Object{ready(metav1.ConditionFalse, 1)}, false},
		"its Tenant is refused":                        {known, nil, []client.Object{refused}, true},
		"its Tenant is drained":                        {known, nil, []client.Object{tenant(func(tn *authv1beta1.Tenant) { tn.Spec.TenantCondition = authv1beta1.TenantConditionDrained })}, true},
		"its Tenant goes":                              {known, nil, []client.Object{tenant(func(tn *authv1beta1.Tenant) { tn.DeletionTimestamp = new(metav1.Now()) })}, true},
		"its Tenant is gone":                           {known, nil, nil, true},
		"its certificate has ended":                    {[]client.Object{identity(ended)}, nil, []client.Object{served}, true},
		"its Identity went first":                      {nil, kubeconfig(true, nil), []client.Object{served}, false},
		"its Identity went first, and its Tenant then": {nil, kubeconfig(true, nil), nil, true},
		"Identity deleted, certificate expired":        {nil, kubeconfig(true, ended), []client.Object{served}, true},
		"its kubeconfig was made by hand":              {nil, kubeconfig(false, ended), nil, false},
	} {
		if got := (&deauthentication{identities: tc.identities, kubeconfigs: tc.kubeconfigs, tenants: tc.tenants}).isLockedOut(time.Now()); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
