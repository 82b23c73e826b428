// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/liqo/internal/quota"
)

// entry is what one name takes. There is never more than one pod of a name, so it counts once.
type entry struct {
	book *book
	need corev1.ResourceList
	// seen is the pod that the watch shows, and gone the last one that it showed ending or going.
	seen, gone types.UID
	// held is when the share was given for a pod that the watch does not show yet; zero once it does.
	held time.Time
	// made is the UID of that pod, once the API server has told it.
	made types.UID
	// asked is set while a request to make or to change the pod may be under way. A share that is held without one is
	// offered: a waiter got it, and has not asked again yet.
	asked bool
	// ran is that of the waiter who got the share.
	ran bool
	// growing is what the pod was changed to take, until the watch shows that; shown is what it shows.
	growing, shown corev1.ResourceList
}

func (e *entry) grow(to corev1.ResourceList) {
	if e.growing = to; quota.Fit(to, nil, e.shown) == nil {
		e.growing = nil
	}
}

// now is what a pod counts that the watch shows.
func (e *entry) now() corev1.ResourceList {
	out := e.shown.DeepCopy()
	if out == nil {
		out = corev1.ResourceList{}
	}
	quota.AtLeast(out, e.growing)
	return out
}
