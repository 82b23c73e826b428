// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package replicator

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/peer"
	"liqo.io/liqo/internal/policy"
)

// Reasons of the condition APIServerStatus.
const (
	reasonReady         = "APIServerReady"
	reasonNotReady      = "APIServerNotReady"
	reasonNoCredentials = "NoCredentials"
)

// peerCondition returns the condition about the peer's API server: nil if unknown, a condition without type if there are no
// credentials.
func (s *inputs) peerCondition(l *link) *liqov1beta1.Condition {
	if l == nil {
		for i := range s.secrets {
			if p, ok := s.problems[s.secrets[i].UID]; ok && s.secrets[i].DeletionTimestamp.IsZero() {
				return notReady(p.message)
			}
		}
		if len(s.stranded) > 0 {
			return orphanCondition(s.stranded[0])
		}
		return &liqov1beta1.Condition{}
	}
	switch state := l.currentState(); {
	case !state.looked:
		return nil
	case state.failure != "":
		return notReady(state.failure)
	case state.refusal != "" && state.some:
		return readyCondition(peer.RefusesSome + state.refusal)
	case state.refusal != "":
		return readyCondition(peer.RefusesCalls + state.refusal)
	case state.rejection != "":
		return readyCondition(peer.TakesNotAll + state.rejection)
	}
	return readyCondition(peer.Answers)
}

// lostCondition returns the condition of a peer declared as lost. Other controllers wait for an Established peer, and a peer
// that rejects our credentials must not be Established.
func (s *inputs) lostCondition(l *link) *liqov1beta1.Condition {
	if l != nil {
		if state := l.currentState(); state.failure == "" && state.refusal != "" {
			return notReady(refusesUs + state.refusal)
		}
	}
	return s.peerCondition(l)
}

// refusesUs is the prefix of the message about a lost peer that rejects our credentials.
const refusesUs = "the peer is marked as permanently unreachable, and its API server refuses our credentials: "

func readyCondition(message string) *liqov1beta1.Condition {
	return &liqov1beta1.Condition{Type: liqov1beta1.APIServerStatus, Status: liqov1beta1.ConditionEstablished, Reason: reasonReady, Message: message}
}

func notReady(message string) *liqov1beta1.Condition {
	return &liqov1beta1.Condition{Type: liqov1beta1.APIServerStatus, Status: liqov1beta1.ConditionError, Reason: reasonNotReady, Message: message}
}

func orphanCondition(obj client.Object) *liqov1beta1.Condition {
	return &liqov1beta1.Condition{
		Type: liqov1beta1.APIServerStatus, Status: liqov1beta1.ConditionError, Reason: reasonNoCredentials,
		Message: fmt.Sprintf("no credentials for this peer exist, and its replicas cannot be deleted without them: %s %s", kindOf(obj), obj.GetName()),
	}
}

// misbehaviourCondition returns the condition of a peer that recently exceeded a limit, or nil, and the delay until the next
// check.
func (l *link) misbehaviourCondition() (condition *liqov1beta1.Condition, again time.Duration) {
	if l == nil {
		return nil, 0
	}
	m := l.misbehaviours.Now()
	if m == nil {
		return nil, 0
	}
	return &liqov1beta1.Condition{
		Type: liqov1beta1.PeerMisbehaves, Status: liqov1beta1.ConditionError, Reason: m.Reason, Message: kube.Note(m.Message),
	}, time.Until(m.Until) + time.Second
}

// writeCondition writes the condition if it changed, and the condition of a misbehaving peer, nil for none. No other code writes
// status.conditions, and the patch contains nothing else: no conflict is possible.
func (r *reconciler) writeCondition(ctx context.Context, fc *liqov1beta1.ForeignCluster, want, misbehaves *liqov1beta1.Condition) error {
	if fc == nil || want == nil {
		return nil
	}
	conditions, changed := withConditions(fc.Status.Conditions, *want, misbehaves, metav1.Now())
	if !changed {
		return nil
	}
	body, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": conditions}})
	if err != nil {
		return fmt.Errorf("encoding conditions: %w", err)
	}
	target := &liqov1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: fc.Name}}
	if err := client.IgnoreNotFound(r.client.Status().Patch(ctx, target, client.RawPatch(types.MergePatchType, body))); err != nil {
		return fmt.Errorf("writing the conditions of ForeignCluster %s: %w", fc.Name, err)
	}
	return nil
}

// withConditions returns the desired conditions, nil for none. Changes in the text of a lasting failure are ignored: the
// text often contains a port number that differs on each attempt.
func withConditions(current []liqov1beta1.Condition, want liqov1beta1.Condition, misbehaves *liqov1beta1.Condition, now metav1.Time) ([]liqov1beta1.Condition, bool) {
	if want.Type == "" {
		return nil, len(current) > 0
	}
	want.Message = policy.CleanText(want.Message, maxConditionText)
	out := []liqov1beta1.Condition{settleCondition(current, want, now)}
	if misbehaves != nil {
		out = append(out, settleCondition(current, *misbehaves, now))
	}
	return out, !slices.Equal(out, current)
}

// maxConditionText is the maximum length of a peer's answer in the message.
const maxConditionText = 4096

// settleCondition returns the existing condition if nothing changed, and else the new one.
func settleCondition(current []liqov1beta1.Condition, want liqov1beta1.Condition, now metav1.Time) liqov1beta1.Condition {
	want.LastTransitionTime = now
	i := slices.IndexFunc(current, func(c liqov1beta1.Condition) bool { return c.Type == want.Type })
	if i < 0 || current[i].Status != want.Status || current[i].Reason != want.Reason {
		return want
	}
	sameFailure := want.Status == liqov1beta1.ConditionError && strings.HasPrefix(current[i].Message, refusesUs) == strings.HasPrefix(want.Message, refusesUs)
	if sameFailure {
		want.Message = current[i].Message
	}
	want.LastTransitionTime = current[i].LastTransitionTime
	return want
}

// problem is the problem of a Secret, for an event; the zero value is none.
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
