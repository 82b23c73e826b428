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

// Sum tells why what the slice asks for is too much beside the tenant's older slices, nil if it is not. asks says what
// a slice would be given if there was no cap. Only that and the ages count, and no earlier decision: so it does not matter
// in which order slices are decided, nor that the last decision about another one has not been seen yet.
func (c Caps) Sum(slice *authv1beta1.ResourceSlice, all []authv1beta1.ResourceSlice, asks func(*authv1beta1.ResourceSlice) corev1.ResourceList) error {
	if len(c.Resources) == 0 {
		return nil
	}
	older := before(slice, all)
	slices.SortFunc(older, func(a, b authv1beta1.ResourceSlice) int { return byAge(&a, &b) })
	held := corev1.ResourceList{}
	for i := range older {
		if amounts := asks(&older[i]); c.exceeded(held, amounts) == "" {
			add(held, amounts)
		}
	}
	amounts := asks(slice)
	name := c.exceeded(held, amounts)
	if name == "" {
		return nil
	}
	most, has, more := c.Resources[name], held[name], amounts[name]
	return fmt.Errorf("the tenant may have %s %s in all, and with %s in older slices this one asks for %s", most.String(), name, has.String(), more.String())
}

// exceeded names a resource of which there would be too much, "" for none.
func (c Caps) exceeded(held, more corev1.ResourceList) corev1.ResourceName {
	for _, name := range slices.Sorted(maps.Keys(c.Resources)) {
		sum := held[name].DeepCopy()
		sum.Add(more[name])
		if sum.Cmp(c.Resources[name]) > 0 {
			return name
		}
	}
	return ""
}

func add(to, amounts corev1.ResourceList) {
	for name, quantity := range amounts {
		sum := to[name].DeepCopy()
		sum.Add(quantity)
		to[name] = sum
	}
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
