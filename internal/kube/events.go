// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Event tells a human that something changed. Type is corev1.EventTypeNormal or corev1.EventTypeWarning.
type Event struct{ Type, Reason, Message string }

// maxNote is below what the API accepts as the text of an event.
const maxNote = 1000

// defaultReport is what a controller without a Reporter tells: only what the user must fix.
func defaultReport(err error) []Event {
	reason, ok := InvalidReason(err)
	if !ok {
		return nil
	}
	return []Event{{Type: corev1.EventTypeWarning, Reason: reason, Message: err.Error()}}
}

// told remembers the last events of each object, so that one which is still true is not told again on every pass.
type told struct {
	mu   sync.Mutex
	last map[types.NamespacedName][]Event
}

func newTold() *told { return &told{last: map[types.NamespacedName][]Event{}} }

// news returns those of the events that the previous pass did not have.
func (t *told) news(key types.NamespacedName, events []Event) []Event {
	t.mu.Lock()
	defer t.mu.Unlock()
	previous := t.last[key]
	if len(events) == 0 {
		delete(t.last, key)
		return nil
	}
	t.last[key] = slices.Clone(events)
	var out []Event
	for _, e := range events {
		if slices.Contains(previous, e) {
			continue
		}
		if len(e.Message) > maxNote {
			e.Message = strings.ToValidUTF8(e.Message[:maxNote], "") + "…"
		}
		out = append(out, e)
	}
	return out
}

func (t *told) forget(key types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.last, key)
}
