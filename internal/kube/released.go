// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
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
