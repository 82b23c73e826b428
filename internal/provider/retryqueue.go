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

// retryQueue are the ShadowPods whose pods are refused, by namespace.
//
// Where something became free they are tried again, one after the other: whether a pod fits only the API server knows. A round
// begins with the one that was created first. When one is refused again, so would be all others that lack the same, and the
// next lacks something else; when one gets in, there may be room for another. So nobody waits behind one that never fits, and
// what is asked is about as much as what changed.
type retryQueue struct {
	wake func(types.NamespacedName)

	mu sync.Mutex
	in map[string]*refusedNamespace
}

type refusedNamespace struct {
	pods map[string]*refusedPod
	// tried is the last round in which somebody who lacks this was refused.
	tried  map[string]int
	rounds int
	round  *retryRound
}

type refusedPod struct {
	created time.Time
	// what it lacks, "" if that never becomes free.
	what string
}

// retryRound is one that is under way.
type retryRound struct {
	// pod is whose turn it is, and since when.
	pod   string
	since time.Time
	// left is how many may still be refused.
	left int
	// full is what nobody needs to ask for any more.
	full map[string]bool
	// again is set where more became free meanwhile.
	again int
}

// How many may be refused in a round: where a pod went, and where a limit was changed.
const (
	perRelease = 8
	everybody  = math.MaxInt
)

// turnLimit is when a turn is over that nobody has told the end of.
const turnLimit = 10 * time.Second

// Add remembers that a ShadowPod was refused, and what it lacks.
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

// Skip tells that a ShadowPod was tried, and neither refused nor let in.
func (r *retryQueue) Skip(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if here := r.in[key.Namespace]; here != nil && here.pods[key.Name] != nil {
		r.endRound(key.Namespace, key.Name, here.pods[key.Name].what)
	}
}

// Drop forgets one.
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

// In lists those of a namespace.
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

// Retry begins a round in a namespace where something became free, which ends when so many were refused again.
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

// endRound ends the turn of a pod, who still lacks what is given.
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

// nextTurn wakes the first of those who may get in.
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
