// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package consumer

import (
	"encoding/json"
	"fmt"
	"hash/maphash"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Limits of rollouts of a virtual kubelet: a burst, for an administrator who edits options, and then a low rate. The classes
// of a provider are arguments of the kubelet, and the provider may change them at any rate.
const (
	rolloutBurst    = 5
	rolloutInterval = time.Minute
	maxRollouts     = 10_000
)

// rolloutLimiter counts the new pod templates of each virtual kubelet. The zero value is ready for use.
type rolloutLimiter struct {
	now func() time.Time

	mu     sync.Mutex
	byNode map[types.UID]*rollout
}

type rollout struct {
	template uint64
	left     float64
	at       time.Time
}

var rolloutSeed = maphash.MakeSeed()

// allowRollout returns the wait of a template, 0 if it may be rolled out now. The template allowed last is always allowed.
func (r *rolloutLimiter) allowRollout(node types.UID, template *corev1.PodTemplateSpec) (time.Duration, error) {
	raw, err := json.Marshal(template)
	if err != nil {
		return 0, fmt.Errorf("encoding the virtual kubelet's pods: %w", err)
	}
	sum := maphash.Bytes(rolloutSeed, raw)
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if r.now != nil {
		now = r.now()
	}
	known, ok := r.byNode[node]
	if !ok {
		if r.byNode == nil || len(r.byNode) >= maxRollouts {
			r.byNode = map[types.UID]*rollout{} // better too often than remembered for ever
		}
		known = &rollout{left: rolloutBurst, at: now}
		r.byNode[node] = known
	}
	if known.template == sum {
		return 0, nil
	}
	known.left = min(rolloutBurst, known.left+now.Sub(known.at).Seconds()/rolloutInterval.Seconds())
	known.at = now
	if known.left < 1 {
		return time.Duration((1 - known.left) * float64(rolloutInterval)), nil
	}
	known.left--
	known.template = sum
	return 0, nil
}
