// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package replicator

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/kube"
)

// problem is the problem of a Secret, as its event reports it; the zero value is none.
type problem struct{ reason, message string }

// recordedProblem is a problem and its Secret.
type recordedProblem struct {
	secret types.UID
	problem
}

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
	var now []recordedProblem
	for uid, p := range s.problems {
		now = append(now, recordedProblem{uid, p})
	}
	for _, news := range r.told.News(s.peer, now) {
		i := slices.IndexFunc(s.secrets, func(secret corev1.Secret) bool { return secret.UID == news.secret })
		if i < 0 {
			continue
		}
		secret := &s.secrets[i]
		r.recorder.Eventf(secret, nil, corev1.EventTypeWarning, news.reason, "Replicate", "%s", kube.Note(news.message))
		r.log.Info("credentials have a problem", "peer", s.peer, "secret", client.ObjectKeyFromObject(secret), "reason", news.reason, "detail", news.message)
	}
}
