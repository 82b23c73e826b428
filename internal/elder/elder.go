// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package elder says which of several objects counts where one is allowed: the one that was there first, so that none is
// unseated by one that comes later; of those of one second the first by name. What is being deleted leaves its place to others.
package elder

import (
	"cmp"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Rank is what decides for an object.
type Rank struct {
	// Leaving is true for what is being deleted, Outside for what cannot be used where it is, Idle for what does nothing while
	// another may: a gateway that does not run.
	Leaving, Outside, Idle bool

	Since           time.Time
	Namespace, Name string
}

// Of is the rank of an object.
func Of(o metav1.Object) Rank {
	return Rank{Leaving: o.GetDeletionTimestamp() != nil, Since: o.GetCreationTimestamp().Time, Namespace: o.GetNamespace(), Name: o.GetName()}
}

// Compare is below 0 if r counts before o.
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

// First returns the one that counts among those that are meant, nil if there is none that stays.
func First[T any, P interface {
	*T
	metav1.Object
}](all []T, meant func(P) bool) P {
	var first P
	for i := range all {
		o := P(&all[i])
		if o.GetDeletionTimestamp() == nil && meant(o) && (first == nil || Of(o).Compare(Of(first)) < 0) {
			first = o
		}
	}
	return first
}
