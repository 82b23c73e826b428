// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const job = `
apiVersion: batch/v1
kind: Job
metadata: {name: many}
spec:
  completions: %d
  parallelism: 25
  completionMode: Indexed
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      terminationGracePeriodSeconds: 1
      containers:
      - name: c
        image: docker.io/library/busybox:latest
        imagePullPolicy: IfNotPresent
        command: [sh, -c, "sleep $((JOB_COMPLETION_INDEX %% 5 + 1))"]
`

// kills are what the killer may kill, by name.
var kills = []struct {
	name string
	do   func(ctx context.Context) error
}{
	{"controller-manager of the consumer", func(ctx context.Context) error {
		return killPod(ctx, consumer, "a1", "liqo", client.MatchingLabels{"app.kubernetes.io/name": "controller-manager"})
	}},
	{"controller-manager of the provider", func(ctx context.Context) error {
		return killPod(ctx, provider, "b1", "liqo", client.MatchingLabels{"app.kubernetes.io/name": "controller-manager"})
	}},
	{"replicator", func(ctx context.Context) error {
		return killPod(ctx, consumer, "a1", "liqo", client.MatchingLabels{"app.kubernetes.io/name": "crd-replicator"})
	}},
	{"virtual kubelet", func(ctx context.Context) error {
		return killPod(ctx, consumer, "a1", peering.ConsumerTenant, client.MatchingLabels{"liqo.io/virtual-node": peering.Slice})
	}},
	{"API server of the provider", func(context.Context) error {
		if err := playground("fail", "b/apiserver"); err != nil {
			return err
		}
		return playground("heal", "b/apiserver")
	}},
}

func TestEachIndexOfAJobRunsOnceWhateverIsKilled(t *testing.T) {
	pods, times := number(t, "LIQO_SOAK_PODS", 300), number(t, "LIQO_SOAK_KILLS", 20)
	seed := uint64(number(t, "LIQO_SOAK_SEED", int(time.Now().UnixNano()&0xffff)))
	t.Logf("seed %d (LIQO_SOAK_SEED): %d pods, %d kills", seed, pods, times)
	random := rand.New(rand.NewPCG(seed, 0))
	here, there := record(t, consumer, peering.Namespace), record(t, provider, peering.Twin())
	began := time.Now()
	if _, err := consumer.Kubectl(fmt.Sprintf(job, pods), "apply", "-n", peering.Namespace, "-f", "-"); err != nil {
		t.Fatal(err)
	}
	for range times {
		kill := kills[random.IntN(len(kills))]
		at := time.Since(began).Round(100 * time.Millisecond)
		eventually(t, "the end of the "+kill.name, 2*time.Minute, func(context.Context) error { return kill.do(t.Context()) })
		t.Logf("%s: killed the %s", at, kill.name)
		time.Sleep(time.Duration(random.IntN(3000)) * time.Millisecond) // a seeded part of the story, not a wait
	}
	var last batchv1.Job
	eventually(t, "the Job to be complete", 10*time.Minute, func(ctx context.Context) error {
		if err := consumer.Client.Get(ctx, client.ObjectKey{Namespace: peering.Namespace, Name: "many"}, &last); err != nil {
			return err
		}
		if last.Status.Succeeded+last.Status.Failed < int32(pods) {
			return fmt.Errorf("%d succeeded, %d failed, %d run", last.Status.Succeeded, last.Status.Failed, last.Status.Active)
		}
		return nil
	})
	t.Logf("complete after %s", time.Since(began).Round(time.Second))
	if want := fmt.Sprintf("0-%d", pods-1); last.Status.CompletedIndexes != want || last.Status.Failed > 0 {
		t.Errorf("completed are %s, failed %d; want %s and none", last.Status.CompletedIndexes, last.Status.Failed, want)
	}
	made := map[string]int{}
	for _, r := range requests(t, "b", func(r request) bool {
		return r.Verb == "create" && r.Ref.Resource == "pods" && r.Ref.Subresource == "" && r.Ref.Namespace == peering.Twin() && r.Response.Code == 201 && r.At.After(began)
	}) {
		made[r.Ref.Name]++
	}
	for name, n := range made {
		if n > 1 {
			t.Errorf("pod %s was made %d times", name, n)
		}
	}
	t.Logf("the audit log of the provider has %d pods made", len(made))
	here.check(t, "consumer")
	there.check(t, "provider")
	if _, err := consumer.Kubectl("", "delete", "job", "many", "-n", peering.Namespace, "--timeout=3m"); err != nil {
		t.Error(err)
	}
}

func number(t *testing.T, name string, fallback int) int {
	t.Helper()
	n, err := strconv.Atoi(cmp.Or(os.Getenv(name), strconv.Itoa(fallback)))
	if err != nil {
		t.Fatalf("reading %s: %v", name, err)
	}
	return n
}
