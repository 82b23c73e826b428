// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package replicate

import (
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
)

// problem is what is wrong with a Secret, as its events tell it; the zero value is nothing.
type problem struct{ reason, message string }

// told remembers what was last told about the Secrets of each peer, so that what is still true is not told again.
type told struct {
	mu   sync.Mutex
	last map[liqov1beta1.ClusterID]map[types.UID]problem
}

// news takes the problems of one peer's Secrets and returns those that are not what was told before.
func (t *told) news(id liqov1beta1.ClusterID, now map[types.UID]problem) map[types.UID]problem {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := map[types.UID]problem{}
	for uid, p := range now {
		if t.last[id][uid] != p {
			out[uid] = p
		}
	}
	if t.last == nil {
		t.last = map[liqov1beta1.ClusterID]map[types.UID]problem{}
	}
	t.last[id] = now
	if len(now) == 0 {
		delete(t.last, id)
	}
	return out
}

// tell emits an event on each Secret whose problem is another one than on the last pass.
func (r *reconciler) tell(s *situation, l *link) {
	for i := range s.secrets {
		secret := &s.secrets[i]
		if l == nil || l.secret != client.ObjectKeyFromObject(secret) {
			continue
		}
		if p, wrong := s.problems[secret.UID]; wrong && p.reason != reasonDraining {
			continue
		}
		if refusal := l.state().refusal; refusal != "" {
			s.problems[secret.UID] = problem{reasonRefused, fmt.Sprintf("%s refuses our calls: %s", s.peer, refusal)}
		}
	}
	news := r.told.news(s.peer, s.problems)
	for i := range s.secrets {
		secret := &s.secrets[i]
		if p, ok := news[secret.UID]; ok {
			r.recorder.Eventf(secret, nil, corev1.EventTypeWarning, p.reason, "Replicate", "%s", bounded(p.message))
			r.log.Info("credentials have a problem", "peer", s.peer, "secret", client.ObjectKeyFromObject(secret), "reason", p.reason, "detail", p.message)
		}
	}
}

// maxNote is what the API accepts as the text of an event.
const maxNote = 1000

func bounded(s string) string {
	if len(s) <= maxNote {
		return s
	}
	return s[:maxNote]
}
