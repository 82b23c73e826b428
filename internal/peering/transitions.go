// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/peer"
)

// establishingTime is the time after the creation of a ForeignCluster in which a failing part of the peering counts as new, if an earlier
// process saw the beginning of the failure.
const establishingTime = 10 * time.Minute

// maxFailures is the number of remembered failures. Beyond this number, the earliest failures heal without an event.
const maxFailures = 10000

// failures remembers the parts of peerings that worked and do not work now.
type failures struct {
	started time.Time  // of this process
	known   *lru.Cache // failedPart → failure
}

// failedPart is a condition of a ForeignCluster.
type failedPart struct {
	of        types.UID
	condition liqov1beta1.ConditionType
}

// failure is since when and why a part does not work.
type failure struct {
	since  time.Time
	reason string
}

func newFailures(started time.Time) *failures {
	return &failures{started: started, known: lru.New(maxFailures)}
}

// isWorking reports whether a part of a peering works.
func isWorking(s liqov1beta1.ConditionStatus) bool {
	return s == liqov1beta1.ConditionEstablished || s == liqov1beta1.ConditionReady
}

// findEvents returns the events about a status: parts that worked and fail, and parts that failed and work again. A new part, or a part
// no longer used, is neither.
func (f *failures) findEvents(fc *liqov1beta1.ForeignCluster, before, after liqov1beta1.Modules, now time.Time) []kube.Event {
	var events []kube.Event
	for _, m := range []struct{ before, after liqov1beta1.Module }{
		{before.Networking, after.Networking}, {before.Authentication, after.Authentication}, {before.Offloading, after.Offloading},
	} {
		for _, c := range m.after.Conditions {
			i := slices.IndexFunc(m.before.Conditions, func(old liqov1beta1.Condition) bool { return old.Type == c.Type })
			if i < 0 {
				continue
			}
			old, part := m.before.Conditions[i], failedPart{fc.UID, c.Type}
			switch {
			case isWorking(old.Status) && !isWorking(c.Status):
				reason := cmp.Or(c.Reason, string(c.Status))
				f.known.Add(part, failure{now, reason})
				events = append(events, kube.Event{Type: corev1.EventTypeWarning, Reason: reason, Message: fmt.Sprintf("%s is %s: %s", c.Type, c.Status, c.Message)})
			case !isWorking(old.Status) && isWorking(c.Status):
				if failed, known := f.endFailure(part, fc.CreationTimestamp, old); known {
					events = append(events, kube.Event{Type: corev1.EventTypeNormal, Reason: peer.ReasonHealed, Message: fmt.Sprintf(
						"%s is %s again, after %s of %s", c.Type, c.Status, now.Sub(failed.since).Round(time.Second), failed.reason,
					)})
				}
			}
		}
	}
	return joinEvents(append(events, f.findMisbehaviour(fc, after.Offloading, now)...))
}

// findMisbehaviour returns the event about a peer that begins to exceed a limit, or no longer does. The condition is present meanwhile
// only; a condition older than this process was reported by an earlier process.
func (f *failures) findMisbehaviour(fc *liqov1beta1.ForeignCluster, offloading liqov1beta1.Module, now time.Time) []kube.Event {
	part := failedPart{fc.UID, liqov1beta1.PeerMisbehaves}
	known, lasts := f.known.Get(part)
	conditions := slices.Concat(fc.Status.Conditions, offloading.Conditions)
	i := slices.IndexFunc(conditions, func(c liqov1beta1.Condition) bool { return c.Type == liqov1beta1.PeerMisbehaves })
	switch {
	case i >= 0 && !lasts:
		c := conditions[i]
		f.known.Add(part, failure{c.LastTransitionTime.Time, c.Reason})
		if c.LastTransitionTime.Time.Before(f.started.Truncate(time.Second)) {
			return nil
		}
		return []kube.Event{{Type: corev1.EventTypeWarning, Reason: c.Reason, Message: c.Message}}
	case i < 0 && lasts:
		f.known.Remove(part)
		began := known.(failure)
		return []kube.Event{{Type: corev1.EventTypeNormal, Reason: peer.ReasonHealed, Message: fmt.Sprintf(
			"the peer keeps to its limits again, %s after %s", now.Sub(began.since).Round(time.Second), began.reason,
		)}}
	}
	return nil
}

// endFailure returns the failure of a part that works again. A failure older than this process is known from the condition.
func (f *failures) endFailure(part failedPart, created metav1.Time, old liqov1beta1.Condition) (failure, bool) {
	if known, ok := f.known.Get(part); ok {
		f.known.Remove(part)
		return known.(failure), true
	}
	since := old.LastTransitionTime.Time
	return failure{since, cmp.Or(old.Reason, string(old.Status))}, since.Before(f.started) && since.Sub(created.Time) > establishingTime
}

// joinEvents merges events with the same reason: the API counts events of one object with the same reason as one repeated event,
// also with different messages.
func joinEvents(events []kube.Event) (joined []kube.Event) {
	for _, e := range events {
		if i := slices.IndexFunc(joined, func(other kube.Event) bool { return other.Reason == e.Reason }); i >= 0 {
			joined[i].Message += "; " + e.Message
			continue
		}
		joined = append(joined, e)
	}
	return joined
}
