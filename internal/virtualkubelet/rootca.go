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
// precede it, and the remote kubelet would warn that they lack it. The zero value is ready for use.
type rootCAs struct {
	mu sync.Mutex
	of map[multicluster.Pair]*rootCA
}

// rootCA is the state of one remote namespace.
type rootCA struct {
	mu           sync.Mutex
	begun, asked time.Time
	// asking: one pod queries for all. The others wait without a worker, which pods of other namespaces need.
	asking bool
	// settled: no pod waits in this namespace any more.
	settled bool
}

const (
	// rootCADelay is the interval of queries for the root CA, once for all pods of a namespace.
	rootCADelay = 100 * time.Millisecond
	// rootCAPatience is how long the first pods wait for it: the user may have excluded it from reflection.
	rootCAPatience = 3 * time.Second
)

// awaitRootCA returns a Wait for a pod whose namespace may still get the root CA. there queries the provider.
func (r *rootCAs) awaitRootCA(ctx context.Context, pair multicluster.Pair, now time.Time, there func(context.Context) error) error {
	known := r.rootCAOf(pair, now)
	left, ask := known.nextAttempt(now)
	if ask {
		left = known.askProvider(ctx, now, there)
	}
	if left > 0 {
		return kube.Wait(left, "the root CA is not in the provider yet")
	}
	return nil
}

// nextAttempt returns how long a pod waits, and whether the pod queries the provider instead.
func (r *rootCA) nextAttempt(now time.Time) (left time.Duration, ask bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch left = rootCADelay - now.Sub(r.asked); {
	case r.settled:
		return 0, false
	case r.asking:
		return rootCADelay, false
	case left > 0:
		return left, false
	}
	r.asking = true
	return 0, true
}

// askProvider queries for all pods, and returns how long they wait. An answer after their timeout counts as none: they retry meanwhile.
func (r *rootCA) askProvider(ctx context.Context, now time.Time, there func(context.Context) error) time.Duration {
	defer r.setAnswered()
	ctx, cancel := context.WithTimeout(ctx, rootCAPatience)
	defer cancel()
	err := there(ctx)
	if client.IgnoreNotFound(err) != nil {
		return 0 // the pod will show the error
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.asked, r.settled = now, err == nil || now.Sub(r.begun) >= rootCAPatience; r.settled {
		return 0
	}
	return rootCADelay
}

func (r *rootCA) setAnswered() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asking = false
}

// Set deletes the state of namespaces without a remote namespace: a later one of the same name is new.
func (r *rootCAs) Set(pairs []multicluster.Pair) {
	there := sets.New(pairs...)
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.of, func(pair multicluster.Pair, _ *rootCA) bool { return !there.Has(pair) })
}

func (r *rootCAs) rootCAOf(pair multicluster.Pair, now time.Time) *rootCA {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of == nil {
		r.of = map[multicluster.Pair]*rootCA{}
	}
	if r.of[pair] == nil {
		r.of[pair] = &rootCA{begun: now}
	}
	return r.of[pair]
}

// awaitRootCA makes a new pod wait for the root CA that it mounts.
func (k *podKind) awaitRootCA(ctx context.Context, it *podItem) error {
	if k.options.ConfigMaps.Workers <= 0 || !translate.UsesRootCA(it.local) {
		return nil
	}
	return k.roots.awaitRootCA(ctx, it.Pair, k.memory.now(), func(ctx context.Context) error {
		live := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}}
		return it.Remote.Client().Get(ctx, client.ObjectKey{Namespace: it.Pair.Remote, Name: names.RootCA(string(k.options.ClusterID))}, live)
	})
}
