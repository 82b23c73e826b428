// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"cmp"
	"math"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

// retryQueue holds the ShadowPods with refused pods, by namespace.
//
// When capacity becomes free, the pods are retried one after the other, because only the API server knows whether a pod fits. A
// round begins with the oldest pod. If it is refused again, all others with the same shortage would be too, and the next pod is
// one with another shortage; if it is admitted, there may be capacity for another. So no pod waits behind one that never fits,
// and the number of requests is about that of changes.
type retryQueue struct {
	wake func(types.NamespacedName)

	mu sync.Mutex
	in map[string]*refusedNamespace
}

type refusedNamespace struct {
	pods map[string]*refusedPod
	// tried is the last round in which a pod with this shortage was refused.
	tried  map[string]int
	rounds int
	round  *retryRound
}

type refusedPod struct {
	created time.Time
	// what is the shortage of the pod, "" if it never becomes free.
	what string
}

// retryRound is the current round of a namespace.
type retryRound struct {
	// pod is the name of the pod being retried, since when it was woken.
	pod   string
	since time.Time
	// left is the number of pods that may still be refused in this round.
	left int
	// full are the shortages that need no further attempt in this round.
	full map[string]bool
	// again is the number of refusals for the next round, set if more capacity became free during this one.
	again int
}

// Maximum numbers of refusals in a round: after a pod was deleted, and after a limit was changed.
const (
	perRelease = 8
	everybody  = math.MaxInt
)

// turnLimit is the timeout of an attempt whose result is never reported.
const turnLimit = 10 * time.Second

// Add records a refused ShadowPod and its shortage.
func (r *retryQueue) Add(sp *offv1beta1.ShadowPod, what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.in == nil {
		r.in = map[string]*refusedNamespace{}
	}
	here := r.in[sp.Namespace]
	if here == nil {
		here = &refusedNamespace{pods: map[string]*refusedPod{}, tried: map[string]int{}}
		r.in[sp.Namespace] = here
	}
	lacked := what
	if before := here.pods[sp.Name]; before != nil {
		lacked = before.what
		here.tried[what] = max(here.tried[what], here.tried[lacked])
	}
	here.pods[sp.Name] = &refusedPod{created: sp.CreationTimestamp.Time, what: what}
	r.endRound(sp.Namespace, sp.Name, lacked, what)
}

// Skip records that the attempt of a ShadowPod ended without refusal and without admission.
func (r *retryQueue) Skip(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if here := r.in[key.Namespace]; here != nil && here.pods[key.Name] != nil {
		r.endRound(key.Namespace, key.Name, here.pods[key.Name].what)
	}
}

// Drop removes a ShadowPod.
func (r *retryQueue) Drop(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	here := r.in[key.Namespace]
	if here == nil {
		return
	}
	if delete(here.pods, key.Name); len(here.pods) == 0 {
		delete(r.in, key.Namespace)
		return
	}
	r.endRound(key.Namespace, key.Name)
}

// In lists the refused ShadowPods of a namespace.
func (r *retryQueue) In(namespace string) []types.NamespacedName {
	r.mu.Lock()
	defer r.mu.Unlock()
	here := r.in[namespace]
	if here == nil {
		return nil
	}
	var out []types.NamespacedName
	for name := range here.pods {
		out = append(out, types.NamespacedName{Namespace: namespace, Name: name})
	}
	return out
}

// Retry begins a round in a namespace where capacity became free. The round ends after the given number of refusals.
func (r *retryQueue) Retry(namespace string, refusals int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	here := r.in[namespace]
	switch {
	case here == nil:
	case here.round != nil && time.Since(here.round.since) < turnLimit:
		here.round.again = max(here.round.again, refusals)
	default:
		r.beginRound(namespace, here, refusals)
	}
}

func (r *retryQueue) beginRound(namespace string, here *refusedNamespace, refusals int) {
	here.rounds++
	here.round = &retryRound{left: refusals, full: map[string]bool{}}
	tried := map[string]int{}
	for _, pod := range here.pods {
		if at := here.tried[pod.what]; at > 0 {
			tried[pod.what] = at
		}
	}
	here.tried = tried
	r.nextTurn(namespace, here, func(a, b *refusedPod) bool { return a.created.Before(b.created) })
}

// endRound ends the attempt of a pod that still has the shortages lacks, and starts the next one.
func (r *retryQueue) endRound(namespace, name string, lacks ...string) {
	here := r.in[namespace]
	if here == nil || here.round == nil || here.round.pod != name {
		return
	}
	for _, what := range lacks {
		here.round.full[what], here.tried[what] = true, here.rounds
	}
	if len(lacks) > 0 {
		here.round.left--
	}
	r.nextTurn(namespace, here, func(a, b *refusedPod) bool {
		return cmp.Or(cmp.Compare(here.tried[a.what], here.tried[b.what]), a.created.Compare(b.created)) < 0
	})
}

// nextTurn wakes the first pod whose shortage has not been refused in this round.
func (r *retryQueue) nextTurn(namespace string, here *refusedNamespace, before func(a, b *refusedPod) bool) {
	name, next := "", (*refusedPod)(nil)
	for n, pod := range here.pods {
		if pod.what == "" || here.round.full[pod.what] {
			continue
		}
		if next == nil || before(pod, next) || !before(next, pod) && n < name {
			name, next = n, pod
		}
	}
	switch again := here.round.again; {
	case next != nil && here.round.left > 0:
		here.round.pod, here.round.since = name, time.Now()
		r.wake(types.NamespacedName{Namespace: namespace, Name: name})
	case again > 0:
		r.beginRound(namespace, here, again)
	default:
		here.round = nil
	}
}
