// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package want

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
)

// Caps bound what one tenant gets in all. The zero value bounds nothing.
type Caps struct {
	// Slices is the number of slices; 0 is any.
	Slices int
	// Tenant is the sum of resources that the slices of one tenant may be granted, Provider that of the slices of all. What is not
	// named is not bounded.
	Tenant, Provider corev1.ResourceList
}

// Bounded reports whether sums of resources are bounded.
func (c Caps) Bounded() bool { return len(c.Tenant)+len(c.Provider) > 0 }

// CheckSums returns an error that names a resource of which a slice would get more than the caps leave. asked is what it would be
// granted, tenant and provider what the other slices of its tenant and all other slices were.
func (c Caps) CheckSums(asked, tenant, provider corev1.ResourceList) error {
	for _, sum := range []struct {
		of        string
		cap, used corev1.ResourceList
	}{{"the slices of a tenant", c.Tenant, tenant}, {"all slices", c.Provider, provider}} {
		for _, name := range slices.Sorted(maps.Keys(sum.cap)) {
			amount, limit, total := asked[name], sum.cap[name], sum.used[name].DeepCopy()
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

// Count tells why the slice is one too many of its tenant's, nil if it is not. Those that were granted come first, then the older
// ones, so that a new one never takes the place of one that was granted.
func (c Caps) Count(slice *authv1beta1.ResourceSlice, all []authv1beta1.ResourceSlice) error {
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

// CheckAmounts tells why the amounts asked for cannot be granted to anybody.
func CheckAmounts(asked corev1.ResourceList) error {
	for name, quantity := range asked {
		if quantity.Sign() < 0 {
			return fmt.Errorf("the slice asks for %s %s: an amount cannot be negative", quantity.String(), name)
		}
	}
	return nil
}

// ComesBefore reports whether another slice is served first: one that was granted, or the older one; of equal age, that whose name
// comes first.
func ComesBefore(other, slice *authv1beta1.ResourceSlice) bool {
	if has := isGranted(other); has != isGranted(slice) {
		return has
	}
	return !Older(slice, other)
}

func isGranted(slice *authv1beta1.ResourceSlice) bool {
	return Accepted(slice, authv1beta1.ResourceSliceConditionTypeAuthentication)
}

// Older tells whether a comes before b: it was created earlier, or at the same second and sorts first.
func Older(a, b *authv1beta1.ResourceSlice) bool { return byAge(a, b) < 0 }

func byAge(a, b *authv1beta1.ResourceSlice) int {
	return cmp.Or(
		a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
		strings.Compare(a.Namespace, b.Namespace),
		strings.Compare(a.Name, b.Name),
	)
}
