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
	"liqo.io/liqo/internal/prefix"
)

// remoteNamespaces tracks which local namespaces have a remote namespace, and notifies the engines.
type remoteNamespaces struct {
	mu        sync.Mutex
	known     bool
	desired   map[string]string
	current   map[string]offv1beta1.RemoteNamespaceStatus
	networks  []offv1beta1.TranslatedNetwork
	followers []namespaceFollower
}

// namespaceFollower receives all namespaces that have a remote namespace, at each change.
type namespaceFollower interface {
	Set(pairs []multicluster.Pair)
}

// offloadingState is the state of the offloading of a namespace.
type offloadingState int

const (
	// unknown: the NamespaceMap was not read yet. No decision is made in this state.
	unknown offloadingState = iota
	// absent: the namespace is not offloaded to this provider.
	absent
	// pending: the remote namespace is requested, terminating or failed. Pods are left alone.
	pending
	// drained: the provider drained the Tenant of this cluster, and terminated all pods of the namespace.
	drained
	// reflected: the engines handle its pods.
	reflected
)

// Set takes the present NamespaceMap, nil for none: then nothing is known, because a NamespaceMap is created with the virtual node
// and deleted with it. Set reports whether anything changed.
func (t *remoteNamespaces) Set(nm *offv1beta1.NamespaceMap) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if nm == nil {
		changed := t.known
		t.known = false
		return changed
	}
	if t.known && maps.Equal(t.desired, nm.Spec.DesiredMapping) && maps.Equal(t.current, nm.Status.CurrentMapping) && slices.Equal(t.networks, nm.Status.ConsumerNetworks) {
		return false
	}
	t.known = true
	t.desired, t.current = maps.Clone(nm.Spec.DesiredMapping), maps.Clone(nm.Status.CurrentMapping)
	t.networks = slices.Clone(nm.Status.ConsumerNetworks)
	for _, f := range t.followers {
		f.Set(t.syncedPairs())
	}
	return true
}

// Attach registers a follower of the remote namespaces.
func (t *remoteNamespaces) Attach(f namespaceFollower) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.followers = append(t.followers, f)
	if t.known {
		f.Set(t.syncedPairs())
	}
}

// Detach unregisters a follower.
func (t *remoteNamespaces) Detach(f namespaceFollower) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.followers = slices.DeleteFunc(t.followers, func(o namespaceFollower) bool { return o == f })
}

// Synced reports whether an engine has synced both sides of all remote namespaces for a kind.
func (t *remoteNamespaces) Synced(e *multicluster.Engine, kind string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.known && !slices.ContainsFunc(t.syncedPairs(), func(pair multicluster.Pair) bool { return !e.Synced(pair, kind) })
}

func (t *remoteNamespaces) syncedPairs() []multicluster.Pair {
	var out []multicluster.Pair
	for _, local := range slices.Sorted(maps.Keys(t.desired)) {
		if remoteNamespace, ok := t.mappedRemote(local); ok {
			out = append(out, multicluster.Pair{Local: local, Remote: remoteNamespace})
		}
	}
	return out
}

// mappedRemote returns the remote namespace of a local one. The provider writes the status: only names requested by the spec count.
// Otherwise the provider would get the objects of any namespace named in the status.
func (t *remoteNamespaces) mappedRemote(local string) (string, bool) {
	return policy.TwinOf(&offv1beta1.NamespaceMap{
		Spec:   offv1beta1.NamespaceMapSpec{DesiredMapping: t.desired},
		Status: offv1beta1.NamespaceMapStatus{CurrentMapping: t.current},
	}, local)
}

// Pairs returns the namespaces whose objects are reflected, with their remote namespaces.
func (t *remoteNamespaces) Pairs() []multicluster.Pair {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.syncedPairs()
}

// Remotes returns the names of all remote namespaces.
func (t *remoteNamespaces) Remotes() []string {
	var out []string
	for _, pair := range t.Pairs() {
		out = append(out, pair.Remote)
	}
	return out
}

// Standing returns the state of a namespace, with the name of its remote namespace if known.
func (t *remoteNamespaces) Standing(namespace string) (offloadingState, string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.known {
		return unknown, ""
	}
	current, answered := t.current[namespace]
	desired, wanted := t.desired[namespace]
	name := cmp.Or(current.RemoteNamespace, desired)
	remoteNamespace, twinned := t.mappedRemote(namespace)
	switch {
	case twinned:
		return reflected, remoteNamespace
	case wanted && current.Phase == offv1beta1.MappingCreationLoopBackOff && current.Reason == offv1beta1.MappingTenantDrained:
		return drained, name
	case answered || wanted:
		return pending, name
	}
	return absent, ""
}

// RemoteOf returns the remote namespace of a local one whose objects are reflected.
func (t *remoteNamespaces) RemoteOf(namespace string) (string, bool) {
	state, name := t.Standing(namespace)
	return name, state == reflected
}

// Networks returns the networks of this cluster, with the prefixes that stand for them in the provider.
func (t *remoteNamespaces) Networks() []prefix.Pair {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []prefix.Pair
	for _, n := range t.networks {
		local, err := prefix.ParsePrefix(n.CIDR)
		remote, also := prefix.ParsePrefix(n.TranslatedCIDR)
		if err == nil && also == nil {
			out = append(out, prefix.Pair{Local: local, Remote: remote})
		}
	}
	return out
}
