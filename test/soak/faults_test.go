// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/test/clusters"
)

// playground runs the program that the clusters live in.
func playground(args ...string) error {
	out, err := exec.Command(cmp.Or(os.Getenv("LIQO_PLAYGROUND"), "../../bin/playground"), args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("playground %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

func mustPlayground(t *testing.T, args ...string) {
	t.Helper()
	if err := playground(args...); err != nil {
		t.Fatal(err)
	}
}

// killPod kills the containers of the first pod that the labels find, by their IDs, and removes the pod, so that the next
// one starts at once: a kubelet waits longer and longer with a container that died often.
func killPod(ctx context.Context, c *clusters.Cluster, node, namespace string, labels client.MatchingLabels) error {
	var pods corev1.PodList
	if err := c.Client.List(ctx, &pods, client.InNamespace(namespace), labels); err != nil {
		return err
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.DeletionTimestamp != nil || len(pod.Status.ContainerStatuses) == 0 || pod.Status.ContainerStatuses[0].State.Running == nil {
			continue
		}
		_, id, _ := strings.Cut(pod.Status.ContainerStatuses[0].ContainerID, "://")
		if err := playground("exec", node, "ctr", "-n", "k8s.io", "tasks", "kill", "-s", "SIGKILL", id); err != nil {
			return err
		}
		return client.IgnoreNotFound(c.Client.Delete(ctx, pod, client.GracePeriodSeconds(0)))
	}
	return fmt.Errorf("no pod of %v runs", labels)
}

// request is what the audit log says about one.
type request struct {
	Verb  string
	Stage string
	User  struct{ Username string }
	At    time.Time `json:"stageTimestamp"`
	Ref   struct {
		Resource, Subresource, Namespace, Name, APIGroup string
	} `json:"objectRef"`
	Response struct{ Code int } `json:"responseStatus"`
}

// requests reads the audit log of a playground's cluster.
func requests(t *testing.T, cluster string, keep func(request) bool) []request {
	t.Helper()
	file, err := os.Open(filepath.Join(os.Getenv("LIQO_PLAYGROUND_HOME"), "clusters", cluster, "log", "audit.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var out []request
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var r request
		if json.Unmarshal(lines.Bytes(), &r) == nil && r.Stage == "ResponseComplete" && keep(r) { // a killed API server may leave half a line
			out = append(out, r)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}
