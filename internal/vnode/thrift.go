// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package vnode

import (
	"encoding/json"
	"fmt"
	"hash/maphash"

	corev1 "k8s.io/api/core/v1"
)

// What keeps a burst of pods cheap: nothing is compared twice, and nothing is sent twice.

var seed = maphash.MakeSeed()

// basis is all that a ShadowPod follows from, short enough to be kept for each pod.
type basis struct {
	pod, shadow, node int64 // generations
	metadata          uint64
}

// basis returns false where the API server counts no generations of pods.
func (it *podItem) basis() (basis, bool) {
	if it.shadow == nil || it.local.Generation == 0 {
		return basis{}, false
	}
	b := basis{pod: it.local.Generation, shadow: it.shadow.Generation, node: it.generation}
	for i, m := range []map[string]string{it.local.Labels, it.local.Annotations, it.shadow.Labels, it.shadow.Annotations} {
		b.metadata = b.metadata*31 + digest(m) + uint64(i)
	}
	return b, true
}

// digest does not depend on the order of the entries.
func digest(m map[string]string) (sum uint64) {
	for key, value := range m {
		sum += maphash.Comparable(seed, [2]string{key, value})
	}
	return sum
}

// sent is the last status that was written: onto which version of the pod, what, and which version that made.
type sent struct {
	onto, made string
	what       uint64
}

func sentOf(onto, want *corev1.Pod) (sent, error) {
	status, err := json.Marshal(want.Status)
	if err != nil {
		return sent{}, fmt.Errorf("encoding the status: %w", err)
	}
	return sent{onto: onto.ResourceVersion, what: maphash.Bytes(seed, status) + digest(want.Labels)}, nil
}
