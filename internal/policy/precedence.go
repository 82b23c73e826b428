// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Rank is the precedence among objects of which only one is permitted. The oldest wins: a later object cannot displace
// it. Of objects created in the same second, the first by name wins. An object being deleted comes last.
type Rank struct {
	// Leaving is true for an object being deleted, Outside for an object in an unusable place, Idle for an inactive object
	// while another may be active: a gateway that does not run.
	Leaving, Outside, Idle bool

	Since           time.Time
	Namespace, Name string
}

// RankOf returns the rank of an object.
func RankOf(o metav1.Object) Rank {
	return Rank{Leaving: o.GetDeletionTimestamp() != nil, Since: o.GetCreationTimestamp().Time, Namespace: o.GetNamespace(), Name: o.GetName()}
}

// Compare returns a number below 0 if r takes precedence over o.
func (r Rank) Compare(o Rank) int {
	return cmp.Or(number(r.Leaving)-number(o.Leaving), number(r.Outside)-number(o.Outside), number(r.Idle)-number(o.Idle), r.Since.Compare(o.Since),
		cmp.Compare(r.Namespace, o.Namespace), cmp.Compare(r.Name, o.Name))
}

func number(is bool) int {
	if is {
		return 1
	}
	return 0
}

// Oldest returns the object with the highest precedence for which meant is true, or nil. Objects being deleted are
// excluded.
func Oldest[T any, P interface {
	*T
	metav1.Object
}](all []T, meant func(P) bool) P {
	var first P
	for i := range all {
		o := P(&all[i])
		if o.GetDeletionTimestamp() == nil && meant(o) && (first == nil || RankOf(o).Compare(RankOf(first)) < 0) {
			first = o
		}
	}
	return first
}
