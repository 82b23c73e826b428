// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
)

// SliceCaps bound the sum of the grants of one tenant. The zero value is unbounded.
type SliceCaps struct {
	// Slices is the number of slices; 0 is any.
	Slices int
	// Tenant bounds the sum of resources granted to the ResourceSlices of one tenant, Provider the sum for all tenants. A resource
	// without an entry is unbounded.
	Tenant, Provider corev1.ResourceList
}

// Bounded reports whether sums of resources are bounded.
func (c SliceCaps) Bounded() bool { return len(c.Tenant)+len(c.Provider) > 0 }

// CheckSums returns an error that names a resource beyond the caps. requested is the new grant, tenant and provider are the sums of
// the other ResourceSlices of its tenant, and of all others.
func (c SliceCaps) CheckSums(requested, tenant, provider corev1.ResourceList) error {
	for _, sum := range []struct {
		of        string
		cap, used corev1.ResourceList
	}{{"the slices of a tenant", c.Tenant, tenant}, {"all slices", c.Provider, provider}} {
		for _, name := range slices.Sorted(maps.Keys(sum.cap)) {
			amount, limit, total := requested[name], sum.cap[name], sum.used[name].DeepCopy()
			if amount.Sign() <= 0 {
				continue
			}
			if total.Add(amount); total.Cmp(limit) > 0 {
				return fmt.Errorf("%s may have %s %s together: the slice asks for %s, and too little of that is left", sum.of, limit.String(), name, amount.String())
			}
		}
	}
	return nil
}

// Count returns why the ResourceSlice exceeds the number permitted for its tenant, or nil. Granted ResourceSlices take
// precedence, then older ResourceSlices: a new ResourceSlice never displaces a granted one.
func (c SliceCaps) Count(slice *authv1beta1.ResourceSlice, all []authv1beta1.ResourceSlice) error {
	if c.Slices <= 0 {
		return nil
	}
	older := 0
	for i := range all {
		if all[i].UID != slice.UID && ComesBefore(&all[i], slice) {
			older++
		}
	}
	if older >= c.Slices {
		return fmt.Errorf("the tenant may have %d slices and has %d older ones", c.Slices, older)
	}
	return nil
}

// CheckSliceAmounts returns why the requested amounts are invalid for any consumer.
func CheckSliceAmounts(requested corev1.ResourceList) error {
	for name, quantity := range requested {
		if quantity.Sign() < 0 {
			return fmt.Errorf("the slice asks for %s %s: an amount cannot be negative", quantity.String(), name)
		}
	}
	return nil
}

// ComesBefore reports the precedence of another ResourceSlice: granted before new, then older, then by name.
func ComesBefore(other, slice *authv1beta1.ResourceSlice) bool {
	if has := isGranted(other); has != isGranted(slice) {
		return has
	}
	return !IsOlder(slice, other)
}

func isGranted(slice *authv1beta1.ResourceSlice) bool {
	return IsAccepted(slice, authv1beta1.ResourceSliceConditionTypeAuthentication)
}

// IsOlder reports whether a takes precedence over b: created earlier, or in the same second and first by name.
func IsOlder(a, b *authv1beta1.ResourceSlice) bool { return byAge(a, b) < 0 }

func byAge(a, b *authv1beta1.ResourceSlice) int {
	return cmp.Or(
		a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
		strings.Compare(a.Namespace, b.Namespace),
		strings.Compare(a.Name, b.Name),
	)
}
