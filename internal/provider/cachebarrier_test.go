// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/testkit"
)

// countedLists counts the lists that are read, of one namespace: other tests use the same API server.
type countedLists struct {
	client.Reader
	namespace string
	count     int
}

func (c *countedLists) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	c.count++
	return c.Reader.List(ctx, list, append(opts, client.InNamespace(c.namespace))...)
}

func TestCacheBarrier(t *testing.T) {
	c := testkit.Cluster(t)
	namespace := testkit.Namespace(t, c, "barrier", nil)
	live := &countedLists{Reader: c.Client, namespace: namespace}
	s := &shadowPods{live: live, pods: c.Client, quotas: newQuotaCache(true, nil)}
	var pods []*corev1.Pod
	for i := range 3 {
		sp := asked(namespace, fmt.Sprint("p", i), "grey", "user", "1")
		pod := &corev1.Pod{Spec: sp.Spec.Pod}
		pod.Namespace, pod.Name, pod.Labels = sp.Namespace, sp.Name, podLabels(sp)
		if err := c.Client.Create(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		pods = append(pods, pod)
	}
	waits := func() {
		t.Helper()
		for range 5 {
			if err := s.passBarrier(t.Context()); !kube.IsWait(err) {
				t.Fatalf("it does not wait: %v", err)
			}
		}
	}
	waits()
	s.quotas.ObservePod(pods[0])
	waits()
	if err := c.Client.Delete(t.Context(), pods[1], client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	waits()
	s.quotas.ObservePod(pods[2])
	for range 2 {
		if err := s.passBarrier(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if live.count != 1 {
		t.Errorf("the pods were listed %d times", live.count)
	}
}
