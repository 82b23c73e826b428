// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package replicator

import (
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
)

func TestHostileStatusPace(t *testing.T) {
	p := &copyPace{}
	allowed := 0
	for range 1000 {
		switch ok, lasting := p.allowCopy("resourceslices/busy"); {
		case ok:
			allowed++
		case lasting:
			t.Fatal("the peer misbehaves at the first occurrence")
		}
	}
	if allowed < statusBurst || allowed > statusBurst+5 {
		t.Errorf("%d of 1000 statuses at once are written", allowed)
	}
	if ok, _ := p.allowCopy("resourceslices/quiet"); !ok {
		t.Error("another object waits")
	}
}

func TestHostileStatusDuration(t *testing.T) {
	for name, c := range map[string]struct {
		pause time.Duration // between two bursts of 15 s
		last  time.Duration // of the test
		want  bool
	}{
		"a_minute":     {last: misbehavesAfter + 5*time.Second, want: true},
		"half_minute":  {last: misbehavesAfter / 2},
		"with_pauses":  {last: 10 * time.Minute, pause: 5*statusInterval + time.Second},
		"short_pauses": {last: 10 * time.Minute, pause: statusInterval, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &copyPace{}
				start, misbehaves := time.Now(), false
				for n := 1; time.Since(start) < c.last; n++ {
					_, lasting := p.allowCopy("resourceslices/busy")
					misbehaves = misbehaves || lasting
					time.Sleep(100 * time.Millisecond)
					if n%150 == 0 {
						time.Sleep(c.pause)
					}
				}
				if misbehaves != c.want {
					t.Errorf("misbehaves: %t", misbehaves)
				}
			})
		})
	}
}

func TestMisbehavesCondition(t *testing.T) {
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
