// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/liqo/internal/policy"
)

// Event describes a Kubernetes event. Type is corev1.EventTypeNormal or corev1.EventTypeWarning.
type Event struct{ Type, Reason, Message string }

// Note truncates a text to the maximum length of an event message and removes terminal control sequences: the text may
// come from a peer.
func Note(text string) string { return policy.CleanText(text, policy.MaxForeignMessage) }

// Some joins the first few entries of a list, to bound the length of messages.
func Some(of []string) string {
	const few = 5
	if len(of) <= few {
		return strings.Join(of, ", ")
	}
	return strings.Join(of[:few], ", ") + " and others"
}

// Complaints returns the events of a controller without a Reporter: one warning for each Invalid error, also within
// joined errors. Only the user can fix these.
func Complaints(err error) []Event {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var out []Event
		for _, one := range joined.Unwrap() {
			out = append(out, Complaints(one)...)
		}
		return out
	}
	reason, ok := InvalidReason(err)
	if !ok {
		return nil
	}
	return []Event{{Type: corev1.EventTypeWarning, Reason: reason, Message: err.Error()}}
}

// Told records the last events of each subject, so that a condition that persists is not recorded again on every pass.
// The zero value is ready for use.
type Told[K, E comparable] struct {
	mu   sync.Mutex
	last map[K][]E
}

// News takes all current events of a subject and returns the new ones.
func (t *Told[K, E]) News(subject K, now []E) []E {
	t.mu.Lock()
	defer t.mu.Unlock()
	previous := t.last[subject]
	if len(now) == 0 {
		delete(t.last, subject)
		return nil
	}
	if t.last == nil {
		t.last = map[K][]E{}
	}
	t.last[subject] = slices.Clone(now)
	return slices.DeleteFunc(slices.Clone(now), func(e E) bool { return slices.Contains(previous, e) })
}

// Forget deletes the record of a subject that is gone.
func (t *Told[K, E]) Forget(subject K) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.last, subject)
}

// Recall initializes the record of a subject with the events that a previous process recorded, unless the subject has a
// record.
func (t *Told[K, E]) Recall(subject K, then []E) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, known := t.last[subject]; known || len(then) == 0 {
		return
	}
	if t.last == nil {
		t.last = map[K][]E{}
	}
	t.last[subject] = then
}
