// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
)

func TestTenantSwitchWait(t *testing.T) {
	s := &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "big", UID: "u"}}
	cordoned := s.DeepCopy()
	cordoned.Annotations = map[string]string{names.Cordon: "true"}
	granted := s.DeepCopy()
	granted.Status.Conditions = []authv1beta1.ResourceSliceCondition{{Type: authv1beta1.ResourceSliceConditionTypeResources, Status: authv1beta1.ResourceSliceConditionAccepted}}
	quota := func(owner types.UID, cordoned *bool) []offv1beta1.Quota {
		return []offv1beta1.Quota{{
			ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{UID: owner, Controller: new(true)}}}, Spec: offv1beta1.QuotaSpec{Cordoned: cordoned},
		}}
	}
	const active, held, drained = authv1beta1.TenantConditionActive, authv1beta1.TenantConditionCordoned, authv1beta1.TenantConditionDrained
	for rule, tc := range map[string]struct {
		tenant  authv1beta1.TenantCondition
		slice   *authv1beta1.ResourceSlice
		quotas  []offv1beta1.Quota
		waiting bool
	}{
		"nothing was granted":                {held, s, nil, false},
		"another has a Quota":                {held, s, quota("v", nil), false},
		"its Quota does not follow yet":      {held, s, quota("u", nil), true},
		"its Quota follows the Tenant":       {held, s, quota("u", new(true)), false},
		"its Quota follows the slice":        {active, cordoned, quota("u", new(true)), false},
		"its Quota does not follow it yet":   {active, cordoned, quota("u", new(false)), true},
		"its Quota is held still":            {active, s, quota("u", new(true)), true},
		"it is let go":                       {active, s, quota("u", nil), false},
		"a drained one has its Quota still":  {drained, s, quota("u", new(true)), true},
		"a drained one has resources still":  {drained, granted, nil, true},
		"a drained one has nothing any more": {drained, s, nil, false},
	} {
		err := checkSwitched(tc.tenant, tc.slice, tc.quotas)
		if _, waiting := errors.AsType[kube.Pending](err); waiting != tc.waiting || (err != nil) != tc.waiting {
			t.Errorf("%s: %v", rule, err)
		}
	}
}
