// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/multicluster"
	"liqo.io/liqo/internal/policy"
)

// remoteNamespaces knows which local namespaces have a twin in the provider, and tells the engines.
type remoteNamespaces struct {
	mu        sync.Mutex
	known     bool
	desired   map[string]string
	current   map[string]offv1beta1.RemoteNamespaceStatus
	followers []namespaceFollower
}

// namespaceFollower is told of all namespaces that have a twin, whenever they change.
type namespaceFollower interface {
	Set(pairs []multicluster.Pair)
}

// offloadingState is how far the offloading of a namespace is.
type offloadingState int

const (
	// unknown: the NamespaceMap was not read yet. Nothing is decided on that.
	unknown offloadingState = iota
	// absent: the namespace is not offloaded to this provider.
	absent
	// pending: it is asked for, or on its way out, or in trouble. Pods are left alone.
	pending
	// drained: the provider drained the Tenant of this cluster, and ended all pods of the namespace.
	drained
	// reflected: the engines look after its pods.
	reflected
)

// Set takes the present NamespaceMap, nil for none: then nothing is known, because one is made with the virtual node and
// goes with it. It tells whether anything changed.
func (t *remoteNamespaces) Set(nm *offv1beta1.NamespaceMap) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if nm == nil {
		changed := t.known
		t.known = false
		return changed
	}
	if t.known && maps.Equal(t.desired, nm.Spec.DesiredMapping) && maps.Equal(t.current, nm.Status.CurrentMapping) {
		return false
	}
	t.known = true
	t.desired, t.current = maps.Clone(nm.Spec.DesiredMapping), maps.Clone(nm.Status.CurrentMapping)
	for _, f := range t.followers {
		f.Set(t.syncedPairs())
	}
	return true
}

// Attach lets somebody follow the twins.
func (t *remoteNamespaces) Attach(f namespaceFollower) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.followers = append(t.followers, f)
	if t.known {
		f.Set(t.syncedPairs())
	}
}

// Detach ends what Attach began.
func (t *remoteNamespaces) Detach(f namespaceFollower) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.followers = slices.DeleteFunc(t.followers, func(o namespaceFollower) bool { return o == f })
}

// Synced tells whether an engine knows both sides of all twins, as far as a kind is concerned.
func (t *remoteNamespaces) Synced(e *multicluster.Engine, kind string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.known && !slices.ContainsFunc(t.syncedPairs(), func(pair multicluster.Pair) bool { return !e.Synced(pair, kind) })
}

func (t *remoteNamespaces) syncedPairs() []multicluster.Pair {
	var out []multicluster.Pair
	for _, local := range slices.Sorted(maps.Keys(t.desired)) {
		if twin, ok := t.twinOf(local); ok {
			out = append(out, multicluster.Pair{Local: local, Remote: twin})
		}
	}
	return out
}

// twinOf returns the twin of a local namespace. The provider writes what it has, so only what was asked for counts: it would get the
// objects of any namespace that it names otherwise.
func (t *remoteNamespaces) twinOf(local string) (string, bool) {
	return policy.TwinOf(&offv1beta1.NamespaceMap{
		Spec:   offv1beta1.NamespaceMapSpec{DesiredMapping: t.desired},
		Status: offv1beta1.NamespaceMapStatus{CurrentMapping: t.current},
	}, local)
}

// Pairs are the namespaces whose objects are reflected, with their twins.
func (t *remoteNamespaces) Pairs() []multicluster.Pair {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.syncedPairs()
}

// Remotes are the names of all twins.
func (t *remoteNamespaces) Remotes() []string {
	var out []string
	for _, pair := range t.Pairs() {
		out = append(out, pair.Remote)
	}
	return out
}

// Standing of a namespace, with the name of its twin as far as it is known.
func (t *remoteNamespaces) Standing(namespace string) (offloadingState, string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.known {
		return unknown, ""
	}
	current, answered := t.current[namespace]
	desired, wanted := t.desired[namespace]
	name := cmp.Or(current.RemoteNamespace, desired)
	twin, twinned := t.twinOf(namespace)
	switch {
	case twinned:
		return reflected, twin
	case wanted && current.Phase == offv1beta1.MappingCreationLoopBackOff && current.Reason == offv1beta1.MappingTenantDrained:
		return drained, name
	case answered || wanted:
		return pending, name
	}
	return absent, ""
}

// Twin is the remote namespace of a local one whose objects are reflected.
func (t *remoteNamespaces) Twin(namespace string) (string, bool) {
	state, name := t.Standing(namespace)
	return name, state == reflected
}
