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

// reservation is the quota reserved for one name. At most one pod of a name exists at a time, so each name counts once.
type reservation struct {
	book *usage
	need corev1.ResourceList
	// seen is the UID of the pod that the watch shows; gone is that of the last pod that the watch showed as ended or deleted.
	seen, gone types.UID
	// held is the time of reservation for a pod that the watch does not show yet; zero once the watch shows it.
	held time.Time
	// made is the UID of that pod, as returned by the API server.
	made types.UID
	// asked is true while a create or update request may be under way.
	asked bool
	// lost are the times at which create requests were found unanswered: each of these requests may have created a pod, or
	// still may.
	lost []time.Time
	// from is the resourceVersion on which an unanswered update is based: the API server applies the update to that version or
	// never. version is the resourceVersion that the watch shows.
	from, version string
	// ran is copied from the pending pod that got the reservation.
	ran bool
	// growing are the requests after an accepted update, until the watch shows them; shown are those that the watch shows.
	growing, shown corev1.ResourceList
}

// isDoubtful reports whether the outcome of a request is unknown: neither an answer nor the watch has shown it yet.
func (e *reservation) isDoubtful() bool { return len(e.lost) > 0 || e.from != "" }

// isBusy reports whether the pod may exist, or may have changed, as requested. A held reservation that is neither busy nor of a
// created pod is an offer: a pending pod got it and has not requested it again yet.
func (e *reservation) isBusy() bool { return e.asked || e.isDoubtful() }

// clearDoubt ends all doubts.
func (e *reservation) clearDoubt() { e.asked, e.lost, e.from = false, nil, "" }

// confirm assigns a newly reported pod to one of the requests, first to the one under way: in the worst case one doubt too many
// remains, and never one too few.
func (e *reservation) confirm() {
	if !e.asked && len(e.lost) > 0 {
		e.lost = e.lost[1:]
	}
	e.asked = false
}

// isOfPod reports whether the watch or an answer has reported the pod.
func (e *reservation) isOfPod(pod types.UID) bool {
	return e.made == pod || e.seen == pod || e.gone == pod
}

func (e *reservation) growTo(to corev1.ResourceList) {
	if e.growing = to; quota.Fit(to, nil, e.shown) == nil {
		e.growing = nil
	}
}

// currentNeed returns the requests that a pod shown by the watch counts with.
func (e *reservation) currentNeed() corev1.ResourceList {
	out := e.shown.DeepCopy()
	if out == nil {
		out = corev1.ResourceList{}
	}
	quota.AtLeast(out, e.growing)
	return out
}

// isNewer reports whether a resourceVersion is newer than another.
func isNewer(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err == nil && order > 0
}
