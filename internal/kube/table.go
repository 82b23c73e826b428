// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kube

import "sync"

// Table is a map that is safe for concurrent use. The zero value is ready for use.
type Table[K comparable, V any] struct {
	mu sync.Mutex
	of map[K]V
}

// Put stores the value of a key.
func (t *Table[K, V]) Put(key K, value V) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of == nil {
		t.of = map[K]V{}
	}
	t.of[key] = value
}

// Get returns the value of a key, and false if the key is absent.
func (t *Table[K, V]) Get(key K) (V, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	value, ok := t.of[key]
	return value, ok
}

// Drop deletes a key.
func (t *Table[K, V]) Drop(key K) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.of, key)
}
