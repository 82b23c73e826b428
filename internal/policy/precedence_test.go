// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"liqo.io/liqo/internal/policy"
)

func TestPrecedenceOrder(t *testing.T) {
	at := func(second int64) time.Time { return time.Unix(second, 0) }
	want := []policy.Rank{
		{Since: at(1), Namespace: "b", Name: "b"},
		{Since: at(2), Namespace: "a", Name: "b"},
		{Since: at(2), Namespace: "b", Name: "a"},
		{Since: at(2), Namespace: "b", Name: "b"},
		{Idle: true, Since: at(0), Namespace: "a", Name: "a"},
		{Outside: true, Since: at(0), Namespace: "a", Name: "a"},
		{Outside: true, Idle: true, Since: at(0), Namespace: "a", Name: "a"},
		{Leaving: true, Since: at(0), Namespace: "a", Name: "a"},
		{Leaving: true, Idle: true, Since: at(0), Namespace: "a", Name: "a"},
	}
	rapid.Check(t, func(t *rapid.T) {
		got := rapid.Permutation(want).Draw(t, "order")
		slices.SortFunc(got, policy.Rank.Compare)
		if !slices.Equal(got, want) {
			t.Errorf("%+v", got)
		}
	})
}

func TestPrecedenceOldest(t *testing.T) {
	pod := func(name string, at int64, leaving bool) corev1.Pod {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.Unix(at, 0)}}
		if leaving {
			p.DeletionTimestamp = new(metav1.Unix(at, 0))
		}
		return p
	}
	all := []corev1.Pod{pod("c", 2, false), pod("d", 1, true), pod("b", 2, false), pod("other", 1, false)}
	if got := policy.Oldest(all, func(p *corev1.Pod) bool { return p.Name != "other" }); got != &all[2] {
		t.Errorf("%v", got)
	}
	if got := policy.Oldest(all, func(p *corev1.Pod) bool { return p.Name == "d" }); got != nil {
		t.Errorf("%v", got)
	}
}
