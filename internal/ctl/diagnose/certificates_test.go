// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/names"
)

// signed returns credentials whose certificate is old by an age, and valid for the rest of a lifetime.
func signed(t *testing.T, age, lifetime time.Duration) *authv1beta1.AuthParams {
	t.Helper()
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: now.Add(-age), NotAfter: now.Add(lifetime - age)}
	der, err := x509.CreateCertificate(nil, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return &authv1beta1.AuthParams{SignedCRT: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

func TestCertificates(t *testing.T) {
	const day = 24 * time.Hour
	identity := func(age, lifetime time.Duration) []authv1beta1.Identity {
		return []authv1beta1.Identity{{ObjectMeta: ofMilan("controlplane-milan"), Spec: authv1beta1.IdentitySpec{ClusterID: "milan", AuthParams: *signed(t, age, lifetime)}}}
	}
	tenant := func(condition authv1beta1.TenantCondition, age, lifetime time.Duration) []authv1beta1.Tenant {
		return []authv1beta1.Tenant{{ObjectMeta: ofMilan("milan"), Spec: authv1beta1.TenantSpec{ClusterID: "milan", TenantCondition: condition}, Status: authv1beta1.TenantStatus{AuthParams: signed(t, age, lifetime)}}}
	}
	slice := func(status authv1beta1.ResourceSliceConditionStatus, age, lifetime time.Duration) []authv1beta1.ResourceSlice {
		meta := ofMilan("s")
		meta.Labels[names.Replicated] = "true"
		return []authv1beta1.ResourceSlice{{ObjectMeta: meta, Status: authv1beta1.ResourceSliceStatus{AuthParams: signed(t, age, lifetime),
			Conditions: []authv1beta1.ResourceSliceCondition{{Type: authv1beta1.ResourceSliceConditionTypeResources, Status: status}}}}}
	}
	leaving := tenant("", 89*day, 90*day)
	leaving[0].DeletionTimestamp = new(metav1.NewTime(now))
	for name, tc := range map[string]struct {
		facts Facts
		note  string
		want  []string
	}{
		"none":   {Facts{}, "", nil},
		"young":  {Facts{Identities: identity(29*day, 90*day)}, "ends in 61 d, 29 d old", nil},
		"second": {Facts{Identities: identity(29*day, 90*day), Tenants: tenant("", 3*time.Hour, 30*time.Hour)}, "the first of 2 ends in 27 h, 3 h old", nil},
		"tenant_late": {Facts{Tenants: tenant("", 80*day, 90*day)}, "ends in 10 d, 80 d old",
			[]string{"failed Tenant tenant/milan: the certificate that this cluster issued to milan ends at 2026-12-09T12:00:00Z and was not renewed"}},
		"of_others":      {Facts{Tenants: []authv1beta1.Tenant{{Spec: authv1beta1.TenantSpec{ClusterID: "turin"}, Status: authv1beta1.TenantStatus{AuthParams: signed(t, 89*day, 90*day)}}}}, "", nil},
		"tenant_drained": {Facts{Tenants: tenant(authv1beta1.TenantConditionDrained, 80*day, 90*day)}, "", nil},
		"tenant_deleted": {Facts{Tenants: leaving}, "ends in 24 h, 89 d old", nil},
		"slice_ended":    {Facts{Slices: slice(authv1beta1.ResourceSliceConditionAccepted, 91*day, 90*day+23*time.Hour)}, "ended 60 min ago, 91 d old", []string{"failed ResourceSlice tenant/s: the certificate that this cluster issued to milan ended at 2026-11-29T11:00:00Z"}},
		"slice_denied":   {Facts{Slices: slice(authv1beta1.ResourceSliceConditionDenied, 91*day, 90*day)}, "", nil},
		"slice_young":    {Facts{Slices: slice(authv1beta1.ResourceSliceConditionAccepted, 10*time.Minute, time.Hour)}, "ends in 50 min, 10 min old", nil},
	} {
		t.Run(name, func(t *testing.T) {
			tc.facts.Now = now
			certificates := tc.facts.certificatesByPeer()
			if got := tc.facts.certificateAges(certificates["milan"]); got != tc.note {
				t.Errorf("the note is %q, want %q", got, tc.note)
			}
			if diff := cmp.Diff(tc.want, lines(tc.facts.findIssued(certificates["milan"]))); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
