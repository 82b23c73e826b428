// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/liqo/internal/kube"
)

// bunched is a pod that is told from others by its name.
func bunched(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
}

// Statuses become due at the given milliseconds, one pod each; each goes at the time beside it.
func TestStatusesGoTogether(t *testing.T) {
	for name, c := range map[string]struct{ due, gone []int }{
		"one alone":                   {[]int{100}, []int{100}},
		"far apart":                   {[]int{0, 500, 1700}, []int{0, 500, 1700}},
		"the second waits":            {[]int{0, 10}, []int{0, 500}},
		"all that follow go at once":  {[]int{0, 10, 200, 499}, []int{0, 500, 500, 500}},
		"a trickle":                   {[]int{0, 300, 600, 900, 1200, 1550, 1800}, []int{0, 500, 1000, 1000, 1500, 2000, 2000}},
		"a silence ends the interval": {[]int{0, 400, 1100, 1150}, []int{0, 500, 1100, 1600}},
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Unix(1000, 0)
			at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
			now := start
			m := newMemory(func() time.Time { return now })
			gone := make([]time.Time, len(c.due))
			for ms := range 3000 {
				now = at(ms)
				for i, due := range c.due {
					if due > ms || !gone[i].IsZero() {
						continue
					}
					err := m.batchUpdate(bunched(fmt.Sprint(i)))
					if err == nil {
						gone[i] = now
					} else if v := kube.Judge(err); v.Failed() || v.After <= 0 || v.After > bunchTime {
						t.Fatalf("pod %d at %d ms: %+v", i, ms, v)
					}
				}
			}
			for i, want := range c.gone {
				if !gone[i].Equal(at(want)) {
					t.Errorf("pod %d, due at %d ms, went at %v, want %d ms", i, c.due[i], gone[i].Sub(start), want)
				}
			}
		})
	}
}

func TestAStatusWaitsOnceForOthers(t *testing.T) {
	now := time.Unix(1000, 0)
	m := newMemory(func() time.Time { return now })
	if err := m.batchUpdate(bunched("first")); err != nil {
		t.Fatal(err)
	}
	if err := m.batchUpdate(bunched("second")); err == nil {
		t.Fatal("the second does not wait")
	}
	now = now.Add(bunchTime)
	if err := m.batchUpdate(bunched("third")); err != nil { // which begins a new interval
		t.Fatal(err)
	}
	now = now.Add(bunchTime / 2)
	if err := m.batchUpdate(bunched("second")); err != nil {
		t.Errorf("the second waits again: %v", err)
	}
}

// A machine with too much to do takes longer than a bunch until it is a pod's turn again, and has others to write all the time.
func TestAStatusThatIsLateGoes(t *testing.T) {
	now := time.Unix(1000, 0)
	m := newMemory(func() time.Time { return now })
	_, waits := m.batchUpdate(bunched("first")), m.batchUpdate(bunched("late"))
	if waits == nil {
		t.Fatal("the second does not wait")
	}
	for i := range 4 {
		now = now.Add(2 * bunchTime / 3)
		_ = m.batchUpdate(bunched(fmt.Sprint("other ", i)))
	}
	if err := m.batchUpdate(bunched("late")); err != nil {
		t.Errorf("it waits again: %v", err)
	}
}

func TestAPodWithNothingToSayWaitsNoMore(t *testing.T) {
	now := time.Unix(1000, 0)
	m := newMemory(func() time.Time { return now })
	_, waits := m.batchUpdate(bunched("first")), m.batchUpdate(bunched("second"))
	if waits == nil {
		t.Fatal("the second does not wait")
	}
	m.endBatch(bunched("second"))
	now = now.Add(bunchTime)
	if err := m.batchUpdate(bunched("first")); err != nil {
		t.Fatal(err)
	}
	if err := m.batchUpdate(bunched("second")); err == nil {
		t.Error("its next status does not go with others")
	}
}

func TestAStatusThatNeverWentIsForgotten(t *testing.T) {
	now := time.Unix(1000, 0)
	m := newMemory(func() time.Time { return now })
	_, waits := m.batchUpdate(bunched("first")), m.batchUpdate(bunched("second"))
	if waits == nil {
		t.Fatal("the second does not wait")
	}
	now = now.Add(time.Minute)
	if err := m.batchUpdate(bunched("second")); err != nil {
		t.Fatal(err)
	}
	if err := m.batchUpdate(bunched("third")); err == nil {
		t.Error("the second began no interval")
	}
}
