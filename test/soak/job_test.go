// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"cmp"
	"context"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/test/story"
)

// kills are what the killer may kill, by name.
var kills = []struct {
	name string
	do   func(ctx context.Context) error
}{
	{"controller-manager of the consumer", func(ctx context.Context) error {
		return story.KillPod(ctx, consumer, "liqo", client.MatchingLabels{"app.kubernetes.io/name": "controller-manager"}, story.AnyPod)
	}},
	{"controller-manager of the provider", func(ctx context.Context) error {
		return story.KillPod(ctx, provider, "liqo", client.MatchingLabels{"app.kubernetes.io/name": "controller-manager"}, story.AnyPod)
	}},
	{"replicator", func(ctx context.Context) error {
		return story.KillPod(ctx, consumer, "liqo", client.MatchingLabels{"app.kubernetes.io/name": "crd-replicator"}, story.AnyPod)
	}},
	{"virtual kubelet", func(ctx context.Context) error {
		return story.KillPod(ctx, consumer, peering.ConsumerTenant, client.MatchingLabels{"liqo.io/virtual-node": peering.Slice}, story.AnyPod)
	}},
	{"API server of the provider", func(context.Context) error {
		if err := story.Playground("fail", "b/apiserver"); err != nil {
			return err
		}
		return story.Playground("heal", "b/apiserver")
	}},
}

func TestJobIndexesOnce(t *testing.T) {
	pods, times := number(t, "LIQO_SOAK_PODS", 300), number(t, "LIQO_SOAK_KILLS", 20)
	seed := uint64(number(t, "LIQO_SOAK_SEED", int(time.Now().UnixNano()&0xffff)))
	t.Logf("seed %d (LIQO_SOAK_SEED): %d pods, %d kills", seed, pods, times)
	random := rand.New(rand.NewPCG(seed, 0))
	all := story.Job{Consumer: consumer, Provider: provider, Namespace: peering.Namespace, Twin: peering.Twin(), Pods: pods, Parallel: 25}
	all.RunsEachIndexOnce(t, func(t *testing.T) {
		start := time.Now()
		for range times {
			kill := kills[random.IntN(len(kills))]
			at := time.Since(start).Round(100 * time.Millisecond)
			story.Eventually(t, "the end of the "+kill.name, 2*time.Minute, func(context.Context) error { return kill.do(t.Context()) })
			t.Logf("%s: killed the %s", at, kill.name)
			time.Sleep(time.Duration(random.IntN(3000)) * time.Millisecond) // a seeded part of the story, not a wait
		}
	})
}

func number(t *testing.T, name string, fallback int) int {
	t.Helper()
	n, err := strconv.Atoi(cmp.Or(os.Getenv(name), strconv.Itoa(fallback)))
	if err != nil {
		t.Fatalf("reading %s: %v", name, err)
	}
	return n
}
