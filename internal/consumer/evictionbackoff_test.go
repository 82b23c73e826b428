// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package consumer

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/liqo/internal/policy"
)

// misplaced is a pod of an owner, made at that second.
func misplaced(name, owner string, made int64, remedy policy.Remedy) victim {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), CreationTimestamp: metav1.Unix(made, 0)}}
	if owner != "" {
		pod.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: owner, UID: types.UID(owner), Controller: new(true)}}
	}
	return victim{pod: pod, remedy: remedy}
}

func showPlan(p evictionPlan) string {
	var out []string
	for _, pod := range p.tolerate {
		out = append(out, "tolerate "+pod.Name)
	}
	for _, one := range p.remove {
		out = append(out, fmt.Sprintf("%s %s", one.remedy, one.pod.Name))
	}
	for _, c := range p.tell {
		out = append(out, "tell "+c.pod.Name)
	}
	if p.again > 0 {
		out = append(out, "again in "+p.again.String())
	}
	return strings.Join(out, ", ")
}

func TestEvictionPlan(t *testing.T) {
	now := time.Unix(1000, 0)
	for name, tc := range map[string]struct {
		found []victim
		want  string
	}{
		"nothing to do": {},
		"each pod gets its remedy": {
			found: []victim{misplaced("a", "", 1, policy.Tolerate), misplaced("b", "web", 1, policy.Recreate), misplaced("c", "", 1, policy.Tell), misplaced("d", "db", 1, policy.Evict)},
			want:  "tolerate a, recreate b, evict d, tell c",
		},
		"all pods that an owner has are one round": {
			found: []victim{misplaced("a", "web", 1, policy.Recreate), misplaced("b", "web", 900, policy.Recreate)}, want: "recreate a, recreate b",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := showPlan(evictionBackoff{}.planEvictions(tc.found, 1, now)); got != tc.want {
				t.Errorf("plan = %q, want %q", got, tc.want)
			}
		})
	}
}

func TestEvictionBackoff(t *testing.T) {
	r := evictionBackoff{}
	step := func(at, made, generation int64, want string) {
		t.Helper()
		found := []victim{misplaced(fmt.Sprintf("web-%d", made), "web", made, policy.Recreate)}
		if got := showPlan(r.planEvictions(found, generation, time.Unix(at, 0))); got != want {
			t.Errorf("after %d s: %q, want %q", at, got, want)
		}
	}
	step(100, 50, 1, "recreate web-50")
	step(101, 50, 1, "recreate web-50") // it is still there: the deletion did not get through
	step(102, 101, 1, "tell web-101, again in 3s")
	step(105, 101, 1, "recreate web-101")
	step(106, 106, 1, "tell web-106, again in 9s")
	step(106, 106, 2, "recreate web-106") // another strategy is another reason
	step(115, 106, 1, "recreate web-106")
	step(116, 116, 1, "tell web-116, again in 19s")
}

func TestEvictionBackoffReset(t *testing.T) {
	r := evictionBackoff{}
	r.planEvictions([]victim{misplaced("a", "web", 1, policy.Recreate)}, 1, time.Unix(1000, 0))
	r.planEvictions([]victim{misplaced("b", "db", 1, policy.Recreate)}, 1, time.Unix(1000, 0).Add(forgotten+time.Second))
	if len(r) != 1 {
		t.Errorf("%d rounds are remembered, want that of db alone", len(r))
	}
}

func TestEvictionBackoffLimit(t *testing.T) {
	begun := time.Unix(0, 0)
	for number, want := range map[int]time.Duration{1: 5 * time.Second, 2: 10 * time.Second, 7: 320 * time.Second, 8: 10 * time.Minute, 99: 10 * time.Minute} {
		if got := (evictionRound{number: number, begun: begun}).nextTime().Sub(begun); got != want {
			t.Errorf("round %d is followed after %s, want %s", number, got, want)
		}
	}
}

func TestEvictionBackoffRefused(t *testing.T) {
	s := &podSteering{held: map[string]backoffState{}}
	now := time.Unix(0, 0)
	step := func(done planResult, want time.Duration) {
		t.Helper()
		if got := s.nextDelay("shop", done, now); got != want {
			t.Errorf("after %s: again in %s, want %s", now.Sub(time.Unix(0, 0)), got, want)
		}
		now = now.Add(want)
	}
	refused := planResult{held: 1, evicted: true}
	for _, want := range []time.Duration{5, 10, 20, 40, 80, 160, 300, 300} {
		step(refused, want*time.Second)
	}
	now = now.Add(-100 * time.Second) // an event, before the last pause is over
	step(planResult{held: 20, evicted: true, limited: true}, 100*time.Second)
	step(planResult{held: 1, moved: 1, evicted: true}, firstHeld)
	step(refused, firstHeld)
	step(planResult{limited: true}, limitDelay)
	step(planResult{}, 0)
	if len(s.held) != 0 {
		t.Error("a namespace without refusals is remembered")
	}
}
