// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"liqo.io/liqo/internal/quota"
)

// reservation is what one name takes. There is never more than one pod of a name, so it counts once.
type reservation struct {
	book *usage
	need corev1.ResourceList
	// seen is the pod that the watch shows, and gone the last one that it showed ending or going.
	seen, gone types.UID
	// held is when the share was given for a pod that the watch does not show yet; zero once it does.
	held time.Time
	// made is the UID of that pod, once the API server has told it.
	made types.UID
	// asked is set while a request to make or to change the pod may be under way.
	asked bool
	// lost are the times since when it is known that nobody answers a request to make the pod: each may have made one, or may still.
	lost []time.Time
	// from is the version that the pod had when a change was asked for that nobody answered: it was made of that version, or never
	// is. version is the one that the watch shows.
	from, version string
	// ran is that of the waiter who got the share.
	ran bool
	// growing is what the pod was changed to take, until the watch shows that; shown is what it shows.
	growing, shown corev1.ResourceList
}

// isDoubtful tells whether a request may have done something, or may still, of which neither an answer nor the watch told.
func (e *reservation) isDoubtful() bool { return len(e.lost) > 0 || e.from != "" }

// isBusy tells whether the pod may be there, or may have changed, as it was asked for. A share that is held, and is not busy and
// not of a pod that was made, is offered: a waiter got it, and has not asked again yet.
func (e *reservation) isBusy() bool { return e.asked || e.isDoubtful() }

// clearDoubt ends every doubt.
func (e *reservation) clearDoubt() { e.asked, e.lost, e.from = false, nil, "" }

// confirm takes a pod of which nothing told before: one of the requests made it. The one under way is taken first: whatever it is
// answered, too many are in doubt then, and not too few.
func (e *reservation) confirm() {
	if !e.asked && len(e.lost) > 0 {
		e.lost = e.lost[1:]
	}
	e.asked = false
}

// isOfPod tells whether the watch or an answer told of a pod.
func (e *reservation) isOfPod(pod types.UID) bool {
	return e.made == pod || e.seen == pod || e.gone == pod
}

func (e *reservation) growTo(to corev1.ResourceList) {
	if e.growing = to; quota.Fit(to, nil, e.shown) == nil {
		e.growing = nil
	}
}

// currentNeed is what a pod counts that the watch shows.
func (e *reservation) currentNeed() corev1.ResourceList {
	out := e.shown.DeepCopy()
	if out == nil {
		out = corev1.ResourceList{}
	}
	quota.AtLeast(out, e.growing)
	return out
}

// isNewer tells whether a version of a pod came after another.
func isNewer(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err == nil && order > 0
}
