// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/policy"
)

// Event describes a Kubernetes event. Type is corev1.EventTypeNormal or corev1.EventTypeWarning.
type Event struct {
	Type, Reason, Message string
	// State identifies the event instead of the message, for messages with details that change; may be empty.
	State string
}

func (e Event) isSame(other Event) bool {
	return e.Type == other.Type && e.Reason == other.Reason && cmp.Or(e.State, e.Message) == cmp.Or(other.State, other.Message)
}

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

// Warnings returns the events of a controller without a Reporter: one warning for each Invalid error, also within
// joined errors. Only the user can fix these.
func Warnings(err error) []Event {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var out []Event
		for _, one := range joined.Unwrap() {
			out = append(out, Warnings(one)...)
		}
		return out
	}
	reason, ok := InvalidReason(err)
	if !ok {
		return nil
	}
	return []Event{{Type: corev1.EventTypeWarning, Reason: reason, Message: err.Error()}}
}

// maxRecorded is the number of subjects with events remembered by an EventRecorder. Beyond this number, the least recently recorded
// subjects are forgotten: a repeated event is better than unbounded memory.
const maxRecorded = 20000

// EventRecorder records the events of a subject when they change: a persisting condition is not recorded again on every
// pass.
type EventRecorder struct {
	emit func(obj client.Object, e Event)
	mu   sync.Mutex
	last *lru.Cache // subject → []Event
}

// NewEventRecorder returns an EventRecorder that emits events by emit.
func NewEventRecorder(emit func(obj client.Object, e Event)) *EventRecorder {
	return &EventRecorder{emit: emit, last: lru.New(maxRecorded)}
}

// EmitBy returns the function that emits events with an action, without a related object.
func EmitBy(r events.EventRecorder, action string) func(obj client.Object, e Event) {
	return func(obj client.Object, e Event) {
		r.Eventf(obj, nil, e.Type, e.Reason, action, "%s", Note(e.Message))
	}
}

// Record takes all current events of an object, and emits and returns the new ones.
func (r *EventRecorder) Record(obj client.Object, now ...Event) []Event {
	return r.RecordAbout(obj.GetUID(), obj, now...)
}

// RecordAbout is Record for a subject other than the object of the events.
func (r *EventRecorder) RecordAbout(subject any, obj client.Object, now ...Event) []Event {
	fresh := r.replaceRecord(subject, now)
	for _, e := range fresh {
		r.emit(obj, e)
	}
	return fresh
}

// replaceRecord replaces the record of a subject, and returns the new events.
func (r *EventRecorder) replaceRecord(subject any, now []Event) []Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	previous, _ := r.last.Get(subject)
	if len(now) == 0 {
		r.last.Remove(subject)
		return nil
	}
	r.last.Add(subject, now)
	known, _ := previous.([]Event)
	return slices.DeleteFunc(slices.Clone(now), func(e Event) bool { return slices.ContainsFunc(known, e.isSame) })
}

// Restore initializes the record of a subject with the events that a previous process emitted, unless the subject has a
// record.
func (r *EventRecorder) Restore(subject any, then []Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.last.Get(subject); !known && len(then) > 0 {
		r.last.Add(subject, then)
	}
}

// Forget deletes the record of a subject, and reports whether there was any.
func (r *EventRecorder) Forget(subject any) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, was := r.last.Get(subject)
	r.last.Remove(subject)
	return was
}
