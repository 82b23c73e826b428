// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// released are the objects whose finalizer we took off, until the cache knows that they are gone. Cleanup must not run
// again for an object that a late cache still shows: what it would hold anew, nobody would ever release.
type released struct {
	mu  sync.Mutex
	uid map[types.NamespacedName]types.UID
}

func (r *released) add(key types.NamespacedName, uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.uid == nil {
		r.uid = map[types.NamespacedName]types.UID{}
	}
	r.uid[key] = uid
}

func (r *released) has(key types.NamespacedName, uid types.UID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.uid[key] == uid
}

func (r *released) forget(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.uid, key)
}

// held are the objects that were synced under our finalizer, as last seen.
type held[T client.Object] struct {
	mu  sync.Mutex
	obj map[types.NamespacedName]T
}

func (h *held[T]) set(key types.NamespacedName, obj T) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.obj == nil {
		h.obj = map[types.NamespacedName]T{}
	}
	h.obj[key] = obj
}

func (h *held[T]) get(key types.NamespacedName) (T, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	obj, ok := h.obj[key]
	return obj, ok
}

func (h *held[T]) forget(key types.NamespacedName) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.obj, key)
}
