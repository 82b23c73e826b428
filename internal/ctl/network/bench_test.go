// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/internal/benchmark"
	"liqo.io/liqo/internal/kube"
)

func TestChoosePlaces(t *testing.T) {
	for name, tc := range map[string]struct {
		nodes []string
		want  string
		first string
		other string
		err   string
	}{
		"the first":              {[]string{"a", "b", "c"}, "", "a", "b", ""},
		"the one that is wanted": {[]string{"a", "b", "c"}, "c", "c", "a", ""},
		"the only one":           {[]string{"a"}, "", "a", "a", ""},
		"one that is not there":  {[]string{"a", "b"}, "x", "", "", `node "x" does not exist, or takes no pods`},
	} {
		var nodes []corev1.Node
		for _, node := range tc.nodes {
			nodes = append(nodes, corev1.Node{
				ObjectMeta: metav1.ObjectMeta{Name: node},
				Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
			})
		}
		got, err := choosePlaces(partyOf("rome", nodes...), tc.want)
		if tc.err != "" {
			if err == nil || err.Error() != tc.err {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if want := (benchPlaces{{"rome", tc.first}, {"rome", tc.other}}); err != nil || got != want {
			t.Errorf("%s: %v, %v, want %v", name, got, err, want)
		}
	}
}

func TestBenchLimits(t *testing.T) {
	valid := benchOptions{duration: time.Second, maxSize: "1Gi", pods: 1, timeout: time.Minute, streams: []int{1, 4}, roundTrips: true, offloading: true}
	for name, tc := range map[string]struct {
		change func(*benchOptions)
		want   string
	}{
		"all is well":               {func(*benchOptions) {}, ""},
		"too long":                  {func(o *benchOptions) { o.duration = 2 * time.Minute }, "--duration: "},
		"no time":                   {func(o *benchOptions) { o.duration = 0 }, "--duration: "},
		"no time, but for pods":     {func(o *benchOptions) { o.duration, o.streams, o.roundTrips = 0, nil, false }, ""},
		"no data":                   {func(o *benchOptions) { o.maxSize = "0" }, "--max-size: "},
		"no data, but for latency":  {func(o *benchOptions) { o.maxSize, o.streams = "", nil }, ""},
		"too many pods":             {func(o *benchOptions) { o.pods = mostPods + 1 }, "--pods: "},
		"no pods":                   {func(o *benchOptions) { o.pods = 0 }, "--pods: "},
		"more time than there is":   {func(o *benchOptions) { o.timeout = 18 * time.Second }, "the measurements alone take 18s, and --timeout is 18s"},
		"as much time as is needed": {func(o *benchOptions) { o.timeout = 19 * time.Second }, ""},
	} {
		o := valid
		tc.change(&o)
		l, err := o.parseLimits()
		if tc.want == "" && (err != nil || o.streams != nil && l != benchmark.Limits{Time: time.Second, Bytes: 1 << 30}) || tc.want != "" && (err == nil || !strings.HasPrefix(err.Error(), tc.want)) {
			t.Errorf("%s: %+v, %v, want %q", name, l, err, tc.want)
		}
	}
}

// TestStarts has each pod counted from its own creation until it is first seen to be ready.
func TestStarts(t *testing.T) {
	at := func(seconds int) time.Time { return time.Date(2026, 1, 1, 0, 0, seconds, 0, time.UTC) }
	pod := func(name string, ready corev1.ConditionStatus) corev1.Pod {
		return corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Status:     corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}},
		}
	}
	s := &starts{created: map[string]time.Time{}, ready: map[string]float64{}}
	s.recordCreation("a", at(0))
	s.recordCreation("b", at(1))
	if err := s.recordReady([]corev1.Pod{pod("a", corev1.ConditionTrue), pod("b", corev1.ConditionFalse), pod("of-another-client", corev1.ConditionTrue)}, 2, at(3)); !errors.Is(err, kube.Pending("1 of 2 pods are ready")) {
		t.Errorf("with one of two: %v", err)
	}
	if err := s.recordReady([]corev1.Pod{pod("a", corev1.ConditionTrue), pod("b", corev1.ConditionTrue)}, 2, at(9)); err != nil {
		t.Errorf("with both: %v", err)
	}
	if diff := cmp.Diff(&benchmark.Spread{Count: 2, P50: 3, P90: 8, P99: 8}, s.sumUp()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
