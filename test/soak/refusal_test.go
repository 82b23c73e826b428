// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/test/story"
)

const refusalWithin = 2 * time.Second

// The time begins when the provider knows: for a pod that it does not even make, when the consumer's pod is made.
func TestRejectionVisible(t *testing.T) {
	for _, r := range story.Refusals(peering.Slice) {
		t.Run(r.Name, func(t *testing.T) {
			if _, err := consumer.Kubectl(r.Manifest(), "apply", "-n", peering.Namespace, "-f", "-"); err != nil {
				t.Fatal(err)
			}
			known := time.Now()
			t.Cleanup(func() {
				if _, err := consumer.Kubectl("", "delete", "pod", r.Pod(), "-n", peering.Namespace, "--timeout=1m"); err != nil {
					t.Error(err)
				}
			})
			if r.There {
				story.Eventually(t, "the provider's own pod to say so", time.Minute, func(ctx context.Context) error {
					var pod corev1.Pod
					if err := provider.Client.Get(ctx, client.ObjectKey{Namespace: peering.Twin(), Name: r.Pod()}, &pod); err != nil {
						return err
					}
					known = time.Now()
					return r.Told(&pod)
				})
			}
			story.Eventually(t, "the consumer's pod to say so", time.Minute, func(ctx context.Context) error {
				var pod corev1.Pod
				var events corev1.EventList
				if err := consumer.Client.Get(ctx, client.ObjectKey{Namespace: peering.Namespace, Name: r.Pod()}, &pod); err != nil {
					return err
				}
				if err := consumer.Client.List(ctx, &events, client.InNamespace(peering.Namespace)); err != nil {
					return err
				}
				return r.Shown(&pod, events.Items)
			})
			checkLimit(t, "seen after", time.Since(known).Round(10*time.Millisecond), refusalWithin)
		})
	}
}
