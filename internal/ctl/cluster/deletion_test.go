// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestPodTerminationTime(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		end  time.Duration
		want time.Duration
	}{
		"some is left":                {10 * time.Second, 10 * time.Second},
		"none is left":                {-time.Second, 0},
		"our clock is an hour behind": {time.Hour, 30 * time.Second},
	} {
		at := metav1.NewTime(now.Add(tc.end))
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &at, DeletionGracePeriodSeconds: new(int64(30))}}
		if got := timeToEnd(pod, now); got != tc.want {
			t.Errorf("%s: %s", name, got)
		}
	}
}
