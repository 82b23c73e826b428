// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"encoding/json"
	"hash/maphash"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/virtualkubelet/translate"
)

// podStates is this process's own state of the local pods.
type podStates struct {
	now func() time.Time

	mu   sync.Mutex
	pods map[types.NamespacedName]*podState
	// batch is when the last batch of statuses was due.
	batch time.Time
}

// podState is the state of one local pod; another pod of the same name gets a new state.
type podState struct {
	uid types.UID
	// since is when the pod was first about to be sent, and both clusters answered; zero while it has a ShadowPod.
	since time.Time
	// prioritized is when the pod last had the objects it waits for copied first.
	prioritized time.Time

	restarts translate.Restarts
	// end is the last status, until the cache shows its write.
	end *corev1.PodStatus
	// starting is since when a "starting" status waits; zero when none does.
	starting time.Time
	// applied identifies the inputs that the ShadowPod matches.
	applied comparisonBasis
	// due is when a status is to be written with others; zero if none waits.
	due     time.Time
	written writtenStatus
	// tokens is the state of the pod's tokens in the provider.
	tokens tokenMemory
}

func newPodStates(now func() time.Time) *podStates {
	return &podStates{now: now, pods: map[types.NamespacedName]*podState{}}
}

// withState lets use read and change the state of a pod.
func (m *podStates) withState(local *corev1.Pod, use func(*podState)) {
	key := client.ObjectKeyFromObject(local)
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.pods[key]
	if known == nil || known.uid != local.UID {
		known = &podState{uid: local.UID}
		m.pods[key] = known
	}
	use(known)
}

// restartWait restarts, at the next attempt, the time that a pod may wait for its references.
func (m *podStates) restartWait(local *corev1.Pod) {
	m.withState(local, func(known *podState) { known.since = time.Time{} })
}

// endOf returns the end of a pod until the cache shows the end, or nil.
func (m *podStates) endOf(local *corev1.Pod) (end *corev1.PodStatus) {
	m.withState(local, func(known *podState) { end = known.end })
	return end
}

func (m *podStates) countRestarts(local, remote *corev1.Pod) (restarts translate.Restarts) {
	m.withState(local, func(known *podState) {
		known.restarts = known.restarts.Count(local, remote)
		restarts = known.restarts
	})
	return restarts
}

// expiringTokens returns the pods whose tokens are to be replaced by now.
func (m *podStates) expiringTokens() []types.NamespacedName {
	now := m.now()
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []types.NamespacedName
	for key, known := range m.pods {
		if at := known.tokens.renew; !at.IsZero() && !now.Before(at) {
			out = append(out, key)
		}
	}
	return out
}

// forgetPod deletes the state of a deleted pod.
func (m *podStates) forgetPod(local types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.pods, local)
}

// A ShadowPod is compared with its pod only after a change of an input: a burst of pods stays cheap.

var seed = maphash.MakeSeed()

// comparisonBasis identifies all inputs of a ShadowPod, short enough to be cached for each pod.
type comparisonBasis struct {
	pod, shadow, node int64 // generations
	metadata          uint64
	// spec is a digest of the pod's spec if the API server counts no generations of pods, as before 1.33.
	spec uint64
}

// isUpToDate reports whether the present ShadowPod was made from, or found equal to, the present inputs.
func (k *podKind) isUpToDate(it *podItem, shadow metav1.Object) (right bool) {
	if basis, ok := it.comparisonBasis(shadow); ok {
		k.states.withState(it.local, func(m *podState) { right = m.applied == basis })
	}
	return right
}

func (k *podKind) setComparisonBasis(it *podItem, shadow metav1.Object) {
	if basis, ok := it.comparisonBasis(shadow); ok {
		k.states.withState(it.local, func(m *podState) { m.applied = basis })
	}
}

// comparisonBasis returns false if no field distinguishes two versions of the pod.
func (it *podItem) comparisonBasis(shadow metav1.Object) (comparisonBasis, bool) {
	b := comparisonBasis{pod: it.local.Generation, shadow: shadow.GetGeneration(), node: it.generation}
	for i, m := range []map[string]string{it.local.Labels, it.local.Annotations, shadow.GetLabels(), shadow.GetAnnotations()} {
		b.metadata = b.metadata*31 + digestOf(m) + uint64(i)
	}
	if b.pod > 0 {
		return b, true
	}
	spec, err := json.Marshal(it.local.Spec)
	b.spec = maphash.Bytes(seed, spec)
	return b, err == nil
}

// digestOf returns a digest that does not depend on the order of the entries.
func digestOf(m map[string]string) (sum uint64) {
	for key, value := range m {
		sum += maphash.Comparable(seed, [2]string{key, value})
	}
	return sum
}
