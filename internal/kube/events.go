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

// Event tells a human that something changed. Type is corev1.EventTypeNormal or corev1.EventTypeWarning.
type Event struct{ Type, Reason, Message string }

// Note shortens a text to what the API accepts as that of an event, without what commands a terminal: it may be of a peer.
func Note(text string) string { return policy.CleanText(text, policy.MaxForeignMessage) }

// Some names the first few of a list, for messages that would have no end.
func Some(of []string) string {
	const few = 5
	if len(of) <= few {
		return strings.Join(of, ", ")
	}
	return strings.Join(of[:few], ", ") + " and others"
}

// Complaints are what a controller without a Reporter tells: only what the user must fix, each of several that are joined.
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

// Told remembers what was last told about each subject, so that what is still true is not told again on every pass. The
// zero value is ready for use.
type Told[K, E comparable] struct {
	mu   sync.Mutex
	last map[K][]E
}

// News takes all that is true of a subject, and returns what was not so before.
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

// Forget lets go of a subject that is gone.
func (t *Told[K, E]) Forget(subject K) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.last, subject)
}

// Recall says what was told about a subject by whoever ran before, unless something is known of it.
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
