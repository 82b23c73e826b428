// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"encoding/json"
	"hash/maphash"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A ShadowPod is compared with its pod only if one of its inputs changed, which keeps a burst of pods cheap.

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
