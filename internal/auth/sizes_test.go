// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"bytes"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/testkit"
)

// What a peer writes is copied into requests, Secrets and statuses: keys, requests and signatures are small.
func TestPeerObjectSizes(t *testing.T) {
	c := cluster(t)
	ns := testkit.Namespace(t, c, "sizes", nil)
	meta := metav1.ObjectMeta{Namespace: ns, Name: "large"}
	large := bytes.Repeat([]byte("x"), 16<<10)
	for field, obj := range map[string]client.Object{
		"spec.publicKey":  &authv1beta1.Tenant{ObjectMeta: meta, Spec: authv1beta1.TenantSpec{ClusterID: "rome", PublicKey: large}},
		"spec.csr":        &authv1beta1.Tenant{ObjectMeta: meta, Spec: authv1beta1.TenantSpec{ClusterID: "rome", CSR: large}},
		"spec.signature":  &authv1beta1.Tenant{ObjectMeta: meta, Spec: authv1beta1.TenantSpec{ClusterID: "rome", Signature: large}},
		"spec.proxyURL":   &authv1beta1.Tenant{ObjectMeta: meta, Spec: authv1beta1.TenantSpec{ClusterID: "rome", ProxyURL: new("http://" + strings.Repeat("x", 3000))}},
		"spec.csr ":       &authv1beta1.ResourceSlice{ObjectMeta: meta, Spec: authv1beta1.ResourceSliceSpec{CSR: large}},
		"spec.csr  ":      &authv1beta1.Renew{ObjectMeta: meta, Spec: authv1beta1.RenewSpec{CSR: large}},
		"spec.publicKey ": &authv1beta1.Renew{ObjectMeta: meta, Spec: authv1beta1.RenewSpec{PublicKey: large}},
	} {
		if err := c.Client.Create(t.Context(), obj, client.DryRunAll); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), strings.TrimSpace(field)+": Too long") {
			t.Errorf("%T with a large %s: %v", obj, field, err)
		}
	}
}
