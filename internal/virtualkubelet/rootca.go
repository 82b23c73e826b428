// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"context"
	"maps"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/multicluster"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/virtualkubelet/translate"
)

// rootCAs tracks which remote namespaces have the certificate of this cluster's API server. In a new namespace the first pods would
// precede the certificate, and the remote kubelet would warn. The zero value is ready for use.
type rootCAs struct {
	mu sync.Mutex
	of map[multicluster.Pair]*rootCA
}

// rootCA is the state of one remote namespace, guarded by the lock of rootCAs.
type rootCA struct {
	begun time.Time
	// next is when a pod may query the provider, for all pods of the namespace. A waiting pod takes no worker from pods of
	// other namespaces.
	next time.Time
	// settled: no pod waits in this namespace any more.
	settled bool
}

const (
	// rootCADelay is the interval of queries for the root CA, once for all pods of a namespace.
	rootCADelay = 100 * time.Millisecond
	// rootCATimeout is how long the first pods wait for the root CA, and for one answer: the user may have excluded it from reflection.
	rootCATimeout = 3 * time.Second
)

// awaitRootCA returns a Wait for a pod whose namespace may still get the root CA. query asks the provider for it.
func (r *rootCAs) awaitRootCA(ctx context.Context, pair multicluster.Pair, now time.Time, query func(context.Context) error) error {
	known, remaining := r.reserveQuery(pair, now)
	switch {
	case known == nil:
		return nil
	case remaining > 0:
		return awaitingRootCA(remaining)
	}
	ctx, cancel := context.WithTimeout(ctx, rootCATimeout)
	defer cancel()
	err := query(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	if client.IgnoreNotFound(err) != nil {
		known.next = now
		return nil // the pod will show the error
	}
	known.next, known.settled = now.Add(rootCADelay), err == nil || now.Sub(known.begun) >= rootCATimeout
	if known.settled {
		return nil
	}
	return awaitingRootCA(rootCADelay)
}

func awaitingRootCA(remaining time.Duration) error {
	return kube.Wait(remaining, "the root CA is not in the provider yet")
}

// reserveQuery returns nil if no pod of the namespace waits any more, else how long the pod waits. 0 tells the pod to query the provider,
// while others wait.
func (r *rootCAs) reserveQuery(pair multicluster.Pair, now time.Time) (known *rootCA, remaining time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of == nil {
		r.of = map[multicluster.Pair]*rootCA{}
	}
	if r.of[pair] == nil {
		r.of[pair] = &rootCA{begun: now}
	}
	switch known = r.of[pair]; {
	case known.settled:
		return nil, 0
	case now.Before(known.next):
		return known, min(known.next.Sub(now), rootCADelay)
	}
	known.next = now.Add(rootCATimeout)
	return known, 0
}

// Set deletes the state of namespaces without a remote namespace: a later one of the same name is new.
func (r *rootCAs) Set(pairs []multicluster.Pair) {
	current := sets.New(pairs...)
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.of, func(pair multicluster.Pair, _ *rootCA) bool { return !current.Has(pair) })
}

// awaitRootCA makes a new pod wait for a mounted root CA.
func (k *podKind) awaitRootCA(ctx context.Context, it *podItem) error {
	if k.options.ConfigMaps.Workers <= 0 || !translate.UsesRootCA(it.local) {
		return nil
	}
	return k.roots.awaitRootCA(ctx, it.Pair, k.states.now(), func(ctx context.Context) error {
		live := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}}
		return it.Remote.Client().Get(ctx, client.ObjectKey{Namespace: it.Pair.Remote, Name: names.RootCA(string(k.options.ClusterID))}, live)
	})
}
