// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package want

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
)

// Caps bound what one tenant gets in all. The zero value bounds nothing.
type Caps struct {
	// Slices is the number of slices; 0 is any.
	Slices int
	// Resources are sums over all slices; a resource that is not listed is not bounded.
	Resources corev1.ResourceList
}

// Count tells why the slice is one too many of its tenant's, nil if it is not. The older slices come first, so that a
// new one never takes the place of one that was granted.
func (c Caps) Count(slice *authv1beta1.ResourceSlice, all []authv1beta1.ResourceSlice) error {
	if c.Slices <= 0 {
		return nil
	}
	if older := len(before(slice, all)); older >= c.Slices {
		return fmt.Errorf("the tenant may have %d slices and has %d older ones", c.Slices, older)
	}
	return nil
}

// Sum tells why what the slice would be granted is too much beside the tenant's other slices, nil if it is not. Older
// slices that are not decided yet count with what they ask for, so that the order of decisions does not matter.
func (c Caps) Sum(slice *authv1beta1.ResourceSlice, granted corev1.ResourceList, all []authv1beta1.ResourceSlice) error {
	for name, most := range c.Resources {
		sum := granted[name].DeepCopy()
		for i := range all {
			if all[i].UID != slice.UID {
				sum.Add(holds(&all[i], slice)[name])
			}
		}
		if sum.Cmp(most) > 0 {
			return fmt.Errorf("the tenant may have %s %s in all, with this slice it would have %s", most.String(), name, sum.String())
		}
	}
	return nil
}

func holds(other, slice *authv1beta1.ResourceSlice) corev1.ResourceList {
	undecided := Condition(other, authv1beta1.ResourceSliceConditionTypeResources) == ""
	if undecided && Older(other, slice) {
		return other.Spec.Resources
	}
	return other.Status.Resources
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

// before returns the slices that are older than the slice; of equal age, those whose names come first.
func before(slice *authv1beta1.ResourceSlice, all []authv1beta1.ResourceSlice) []authv1beta1.ResourceSlice {
	return slices.DeleteFunc(slices.Clone(all), func(other authv1beta1.ResourceSlice) bool {
		return other.UID == slice.UID || Older(slice, &other)
	})
}

// Older tells whether a comes before b: it was created earlier, or at the same second and sorts first.
func Older(a, b *authv1beta1.ResourceSlice) bool {
	return cmp.Or(
		a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
		strings.Compare(a.Namespace, b.Namespace),
		strings.Compare(a.Name, b.Name),
	) < 0
}
