// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package replicator

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/kube"
)

// problem is the problem of a Secret, as its event reports it; the zero value is none.
type problem struct{ reason, message string }

// recordProblems emits an event on each Secret whose problem changed since the last run.
func (r *reconciler) recordProblems(s *inputs, l *link) {
	for i := range s.secrets {
		secret := &s.secrets[i]
		if l == nil || l.secret != client.ObjectKeyFromObject(secret) {
			continue
		}
		if p, wrong := s.problems[secret.UID]; wrong && p.reason != reasonDraining {
			continue
		}
		if refusal := l.currentState().refusal; refusal != "" {
			s.problems[secret.UID] = problem{reasonRefused, fmt.Sprintf("%s refuses our calls: %s", s.peer, refusal)}
		}
	}
	for i := range s.secrets {
		secret := &s.secrets[i]
		var now []kube.Event
		if p, wrong := s.problems[secret.UID]; wrong {
			now = append(now, kube.Event{Type: corev1.EventTypeWarning, Reason: p.reason, Message: p.message})
		}
		for _, news := range r.problems.Record(secret, now...) {
			r.log.Info("credentials have a problem", "peer", s.peer, "secret", client.ObjectKeyFromObject(secret), "reason", news.Reason, "detail", news.Message)
		}
	}
}
