// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package replicator

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
)

func TestHostileStatusPace(t *testing.T) {
	p := &copyPace{}
	allowed := 0
	for range 1000 {
		if p.allowCopy("resourceslices/busy") {
			allowed++
		}
	}
	if allowed < statusBurst || allowed > statusBurst+5 {
		t.Errorf("%d of 1000 statuses at once are written", allowed)
	}
	if !p.allowCopy("resourceslices/quiet") {
		t.Error("another object waits")
	}
}

func TestPeerMisbehavesIsAConditionBesideTheOther(t *testing.T) {
	now, later := metav1.Unix(1, 0), metav1.Unix(2, 0)
	fine := *readyCondition("fine")
	bad := &liqov1beta1.Condition{Type: liqov1beta1.PeerMisbehaves, Status: liqov1beta1.ConditionError, Reason: "AnswerTooLarge", Message: "an answer has more than 8 bytes"}
	first, changed := withConditions(nil, fine, bad, now)
	if !changed || len(first) != 2 || first[1].Reason != "AnswerTooLarge" {
		t.Fatalf("conditions %+v", first)
	}
	again := *bad
	again.Message = "an answer has more than 9 bytes"
	if _, changed := withConditions(first, fine, &again, later); changed {
		t.Error("each answer is one more write")
	}
	if over, changed := withConditions(first, fine, nil, later); !changed || len(over) != 1 || !over[0].LastTransitionTime.Equal(&now) {
		t.Errorf("conditions %+v", over)
	}
}
