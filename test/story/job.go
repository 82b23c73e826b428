// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package story

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/test/clusters"
)

const jobYAML = `
apiVersion: batch/v1
kind: Job
metadata: {name: many}
spec:
  completions: %d
  parallelism: %d
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

// Job is a Job of many short pods in an offloaded namespace whose pods all run in the provider.
type Job struct {
	Consumer, Provider *clusters.Cluster
	Namespace, Twin    string
	Pods, Parallel     int
}

// RunsEachIndexOnce runs the Job, has something go on meanwhile, and looks at both clusters and at the provider's audit log:
// each index completes, no pod existed twice, none went back.
func (j Job) RunsEachIndexOnce(t *testing.T, meanwhile func(t *testing.T)) {
	t.Helper()
	here, there := Record(t, j.Consumer, j.Namespace), Record(t, j.Provider, j.Twin)
	start := time.Now()
	if _, err := j.Consumer.Kubectl(fmt.Sprintf(jobYAML, j.Pods, j.Parallel), "apply", "-n", j.Namespace, "-f", "-"); err != nil {
		t.Fatal(err)
	}
	meanwhile(t)
	last := j.Completes(t, j.Pods)
	t.Logf("complete after %s", time.Since(start).Round(time.Second))
	if want := fmt.Sprintf("0-%d", j.Pods-1); last.Status.CompletedIndexes != want || last.Status.Failed > 0 {
		t.Errorf("completed are %s, failed %d; want %s and none", last.Status.CompletedIndexes, last.Status.Failed, want)
	}
	made := map[string]int{}
	for _, r := range Audit(t, j.Provider, func(r Request) bool {
		return r.Verb == "create" && r.Ref.Resource == "pods" && r.Ref.Subresource == "" && r.Ref.Namespace == j.Twin && r.Response.Code == 201 && r.At.After(start) &&
			!strings.Contains(r.URI, "dryRun=") // which asks what would become of a pod
	}) {
		made[r.Ref.Name]++
	}
	for name, n := range made {
		if n > 1 {
			t.Errorf("pod %s was made %d times", name, n)
		}
	}
	// An API server that is killed takes its last half second of the log with it, so not every pod is in it.
	here.Check(t, "consumer", j.Pods)
	there.Check(t, "provider", j.Pods)
	if _, err := j.Consumer.Kubectl("", "delete", "job", "many", "-n", j.Namespace, "--timeout=3m"); err != nil {
		t.Error(err)
	}
}

// Completes waits until so many pods of the Job ended.
func (j Job) Completes(t *testing.T, pods int) *batchv1.Job {
	t.Helper()
	var job batchv1.Job
	Eventually(t, fmt.Sprintf("%d pods of the Job to end", pods), 10*time.Minute, func(ctx context.Context) error {
		if err := j.Consumer.Client.Get(ctx, client.ObjectKey{Namespace: j.Namespace, Name: "many"}, &job); err != nil {
			return err
		}
		if job.Status.Succeeded+job.Status.Failed < int32(pods) {
			return fmt.Errorf("%d succeeded, %d failed, %d run", job.Status.Succeeded, job.Status.Failed, job.Status.Active)
		}
		return nil
	})
	return &job
}
