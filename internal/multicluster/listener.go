// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package multicluster

import (
	"slices"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// listener is one source of one kind of one pair.
type listener struct {
	source  Source
	changed func(name string)
	retry   func()

	mu sync.Mutex
	// members are the objects of each item, for sources with Keys. The map may contain objects that no longer belong to the item, because the
	// initial list and the informer events are not ordered: readers check each object again.
	members map[string]map[client.ObjectKey]struct{}
}

func newListener(s Source, changed func(name string), retry func()) *listener {
	return &listener{source: s, changed: changed, retry: retry, members: map[string]map[client.ObjectKey]struct{}{}}
}

// handleChange enqueues the items to which an object belongs now or belonged before.
func (l *listener) handleChange(old, now client.Object) {
	var before, after []string
	if old != nil {
		before = l.source.keysOf(old)
	}
	if now != nil {
		after = l.source.keysOf(now)
	}
	for _, name := range before {
		stays := slices.Contains(after, name)
		if !stays {
			l.removeObject(name, old)
		}
		if !stays || !l.source.Members {
			l.changed(name)
		}
	}
	for _, name := range after {
		l.addObject(name, now)
		if !slices.Contains(before, name) {
			l.changed(name)
		}
	}
}

func (l *listener) addObject(name string, obj client.Object) {
	if l.source.Keys == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.members[name] == nil {
		l.members[name] = map[client.ObjectKey]struct{}{}
	}
	l.members[name][client.ObjectKeyFromObject(obj)] = struct{}{}
}

func (l *listener) removeObject(name string, obj client.Object) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.members[name], client.ObjectKeyFromObject(obj))
	if len(l.members[name]) == 0 {
		delete(l.members, name)
	}
}

func (l *listener) objectsOf(name string) []client.ObjectKey {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]client.ObjectKey, 0, len(l.members[name]))
	for key := range l.members[name] {
		out = append(out, key)
	}
	return out
}
