// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package story is what several suites tell about clusters of the playground: which process dies when, what the audit logs
// say of it, and what becomes of the pods meanwhile. LIQO_PLAYGROUND is the program that runs the clusters, and
// LIQO_PLAYGROUND_HOME where it does.
package story

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/test/clusters"
)

// Playground runs the program that the clusters live in.
func Playground(args ...string) error {
	_, err := Output(args...)
	return err
}

// Output is what that program printed.
func Output(args ...string) (string, error) {
	out, err := exec.Command(Program(), args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("playground %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

// Program is the path of that program.
func Program() string { return cmp.Or(os.Getenv("LIQO_PLAYGROUND"), "../../bin/playground") }

// KillPod kills the container of the first running pod that the labels find and chosen takes, by its ID, and removes the
// pod, so that the next one starts at once: a kubelet waits longer and longer with a container that died often.
func KillPod(ctx context.Context, c *clusters.Cluster, namespace string, labels client.MatchingLabels, chosen func(pod string) bool) error {
	var pods corev1.PodList
	if err := c.Client.List(ctx, &pods, client.InNamespace(namespace), labels); err != nil {
		return err
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		states := pod.Status.ContainerStatuses
		if pod.DeletionTimestamp != nil || len(states) == 0 || states[0].State.Running == nil || !chosen(pod.Name) {
			continue
		}
		_, id, _ := strings.Cut(states[0].ContainerID, "://")
		if err := Playground("exec", pod.Spec.NodeName, "ctr", "-n", "k8s.io", "tasks", "kill", "-s", "SIGKILL", id); err != nil {
			return err
		}
		return client.IgnoreNotFound(c.Client.Delete(ctx, pod, client.GracePeriodSeconds(0)))
	}
	return fmt.Errorf("no such pod of %v runs", labels)
}

// AnyPod is the choice of a pod for which it makes no difference.
func AnyPod(string) bool { return true }

// Request is what an audit log says about one.
type Request struct {
	Verb  string
	Stage string
	URI   string `json:"requestURI"`
	User  struct{ Username string }
	At    time.Time `json:"stageTimestamp"`
	Ref   struct {
		Resource, Subresource, Namespace, Name, APIGroup string
	} `json:"objectRef"`
	Response struct{ Code int } `json:"responseStatus"`
}

func (r Request) String() string {
	what := strings.TrimSuffix(r.Ref.Resource+"/"+r.Ref.Subresource, "/")
	return fmt.Sprintf("%s %d %s %s %s/%s by %s", r.At.Format("15:04:05.000"), r.Response.Code, r.Verb, what, r.Ref.Namespace, r.Ref.Name, r.User.Username)
}

// ReadAudit reads the audit log of a playground's cluster, which lies beside its kubeconfig.
func ReadAudit(c *clusters.Cluster, keep func(Request) bool) ([]Request, error) {
	file, err := os.Open(filepath.Join(filepath.Dir(c.Kubeconfig), "log", "audit.log"))
	if err != nil {
		return nil, fmt.Errorf("reading the audit log of %s: %w", c.ID, err)
	}
	defer file.Close()
	var out []Request
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var r Request
		if json.Unmarshal(lines.Bytes(), &r) == nil && r.Stage == "ResponseComplete" && keep(r) { // a killed API server may leave half a line
			out = append(out, r)
		}
	}
	return out, lines.Err()
}

// Audit is ReadAudit for a test.
func Audit(t *testing.T, c *clusters.Cluster, keep func(Request) bool) []Request {
	t.Helper()
	all, err := ReadAudit(c, keep)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// restless is how often one object may be written by Liqo while a suite runs. Statuses that tell of time are written each 10 s at most.
const restless = 1000

// Run runs the tests of a suite, and fails it if Liqo did not rest. It returns what the process exits with.
func Run(m *testing.M, of ...*clusters.Cluster) int {
	start := time.Now()
	code := m.Run()
	if err := rest(start, of...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// rest wants that no object was written again and again since then: what is written whenever it was written keeps all CPUs busy, and no story
// notices. Clusters elsewhere than in the playground have no log of that.
func rest(since time.Time, of ...*clusters.Cluster) error {
	for _, c := range of {
		all, err := ReadAudit(c, func(r Request) bool { return r.At.After(since) && r.writes() })
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		most, times := mostWritten(all)
		fmt.Printf("%s: most often, %d times, Liqo wrote %s\n", c.ID, times, most)
		if times > restless {
			return fmt.Errorf("%s: Liqo wrote %s %d times, %d at most", c.ID, most, times, restless)
		}
	}
	return nil
}

// writes tells whether Liqo wrote an object, from this cluster or from a peer. Leases are written for nothing else.
func (r Request) writes() bool {
	user := r.User.Username
	account := strings.HasPrefix(user, "system:serviceaccount:") && !strings.HasPrefix(user, "system:serviceaccount:kube-system:")
	owned := account || !strings.HasPrefix(user, "system:") && user != "kubernetes-admin"
	return owned && r.Ref.Name != "" && r.Ref.Resource != "leases" && !slices.Contains([]string{"get", "list", "watch"}, r.Verb)
}

// mostWritten is the object of most of those requests, and how many they are.
func mostWritten(all []Request) (most string, times int) {
	written := map[string]int{}
	for _, r := range all {
		what := fmt.Sprintf("%s %s/%s", r.Ref.Resource, r.Ref.Namespace, r.Ref.Name)
		if written[what]++; written[what] > times {
			most, times = what, written[what]
		}
	}
	return most, times
}

// Retry calls check until it succeeds. Each call ends after a while: an API server that was cut off does not answer.
func Retry(ctx context.Context, limit time.Duration, check func(ctx context.Context) error) error {
	for end := time.Now().Add(limit); ; {
		once, cancel := context.WithTimeout(ctx, 3*time.Second)
		err := check(once)
		cancel()
		if err == nil || time.Now().After(end) || ctx.Err() != nil {
			return err
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// Eventually is Retry for a test. It returns how long that took.
func Eventually(t *testing.T, what string, limit time.Duration, check func(ctx context.Context) error) time.Duration {
	t.Helper()
	start := time.Now()
	if err := Retry(t.Context(), limit, check); err != nil {
		load, _ := os.ReadFile("/proc/loadavg")
		t.Fatalf("waiting for %s: %v (load %s)", what, err, load)
	}
	return time.Since(start).Round(100 * time.Millisecond)
}
