// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package consumer

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

func TestHostileRollouts(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	r := &rolloutLimiter{now: func() time.Time { return now }}
	with := func(class string) *corev1.PodTemplateSpec {
		return &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Args: []string{"--ingress-classes=" + class}}}}}
	}
	ask := func(class string) time.Duration {
		t.Helper()
		wait, err := r.allowRollout("node", with(class))
		if err != nil {
			t.Fatal(err)
		}
		return wait
	}
	rolled := 0
	for i := range 3600 { // an hour in which the provider offers another class each second
		if ask(fmt.Sprint("class-", i)) == 0 {
			rolled++
		}
		now = now.Add(time.Second)
	}
	if rolled < rolloutBurst || rolled > rolloutBurst+61 {
		t.Errorf("%d rollouts in an hour", rolled)
	}
	now = now.Add(2 * time.Hour)
	for i := range rolloutBurst {
		if wait := ask(fmt.Sprint("late-", i)); wait != 0 {
			t.Fatalf("change %d after a quiet time waits %s", i, wait)
		}
	}
	if wait := ask("late-4"); wait != 0 {
		t.Errorf("what runs already waits %s", wait)
	}
	if wait := ask("one more"); wait <= 0 || wait > rolloutInterval {
		t.Errorf("one more waits %s", wait)
	}
	if wait, _ := r.allowRollout("another", with("x")); wait != 0 {
		t.Errorf("another node waits %s", wait)
	}
}
