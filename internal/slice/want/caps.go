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
func Older(a, b *authv1beta1.ResourceSlice) bool { return byAge(a, b) < 0 }

func byAge(a, b *authv1beta1.ResourceSlice) int {
	return cmp.Or(
		a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
		strings.Compare(a.Namespace, b.Namespace),
		strings.Compare(a.Name, b.Name),
	)
}
