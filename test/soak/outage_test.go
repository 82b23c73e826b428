// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/test/clusters"
	"liqo.io/liqo/test/story"
)

// Pods that stay as they are, and one that ends while nobody is told.
const steady = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: steady}
spec:
  replicas: 10
  selector: {matchLabels: {app: steady}}
  template:
    metadata: {labels: {app: steady}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: c, image: "docker.io/library/busybox:latest", imagePullPolicy: IfNotPresent, command: [sleep, "100000"]}]
---
apiVersion: v1
kind: Pod
metadata: {name: ending}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 1
  containers: [{name: c, image: "docker.io/library/busybox:latest", imagePullPolicy: IfNotPresent, command: [sleep, "45"]}]
`

// outages are what may be cut off for a while, and whether the virtual node is to be seen not Ready meanwhile.
var outages = []struct {
	name, target string
	seen         bool
}{
	{"API server of the provider", "b/apiserver", true},
	{"network between the clusters", "b1", true},
	{"API server of the consumer", "a/apiserver", false},
}

const (
	notReadyWithin = 50 * time.Second
	readyWithin    = 15 * time.Second
)

// An outage shorter than the time after which Kubernetes evicts pods changes nothing in the provider, and is over soon
// after its end.
func TestOutageKeepsProvider(t *testing.T) {
	length := time.Duration(number(t, "LIQO_SOAK_OUTAGE", 120)) * time.Second
	for _, o := range outages {
		t.Run(o.name, func(t *testing.T) {
			begin(t, steady, 11)
			before := ran(t)
			cut := time.Now()
			mustPlayground(t, "fail", o.target)
			healed := false
			heal := func() {
				if !healed {
					healed = true
					mustPlayground(t, "heal", o.target)
				}
			}
			defer heal()
			if o.seen {
				took := story.Eventually(t, "the node to be not Ready", 2*time.Minute, func(ctx context.Context) error { return nodeIs(ctx, corev1.ConditionFalse) })
				checkLimit(t, "not Ready after", took, notReadyWithin)
			}
			time.Sleep(time.Until(cut.Add(length))) // the length of the outage is the story
			back := time.Now()
			heal()
			took := story.Eventually(t, "the node to be Ready again", 2*time.Minute, func(ctx context.Context) error { return nodeIs(ctx, corev1.ConditionTrue) })
			checkLimit(t, "Ready again after", took, readyWithin)
			took = story.Eventually(t, "the statuses to catch up", 2*time.Minute, caughtUp)
			t.Logf("statuses caught up %s after the node was Ready", took)
			if diff := cmp.Diff(before, ran(t)); diff != "" {
				t.Errorf("pods of the provider changed (-before +after):\n%s", diff)
			}
			end := time.Now()
			during, after := writes(t, consumer, peering.Namespace, cut, back), writes(t, consumer, peering.Namespace, back, end)
			t.Logf("writes to 11 pods of the consumer during the outage: %v, after its end: %v", during, after)
			remoteWrites := writes(t, provider, peering.Twin(), back, end)
			t.Logf("writes to those of the provider after its end: %v", remoteWrites)
			// One for each pod that cannot be reached, and one when it can be again; after, one more for what happened. When the
			// provider itself had no word of its node, it calls the pods unready until it has.
			changed := 0
			for _, n := range remoteWrites {
				changed += n
			}
			if n, m := during[kubelet()+" pods/status"], after[kubelet()+" pods/status"]; n > 11 || m > 12+changed {
				t.Errorf("the virtual kubelet wrote %d and %d statuses for 11 pods, of which the provider changed %d", n, m, changed)
			}
		})
	}
}

// writes counts those to the pods of a namespace in a time, by who wrote what.
func writes(t *testing.T, in *clusters.Cluster, namespace string, from, to time.Time) map[string]int {
	t.Helper()
	out := map[string]int{}
	for _, r := range story.Audit(t, in, func(r story.Request) bool {
		return r.Ref.Resource == "pods" && r.Ref.Namespace == namespace && (r.Verb == "update" || r.Verb == "patch") &&
			r.At.After(from) && !r.At.After(to)
	}) {
		out[r.User.Username+" "+strings.TrimSuffix(r.Ref.Resource+"/"+r.Ref.Subresource, "/")]++
	}
	return out
}

func kubelet() string {
	return "system:serviceaccount:" + peering.ConsumerTenant + ":" + peering.Slice
}

func mustPlayground(t *testing.T, args ...string) {
	t.Helper()
	if err := story.Playground(args...); err != nil {
		t.Fatal(err)
	}
}

func checkLimit(t *testing.T, what string, took, within time.Duration) {
	t.Helper()
	t.Logf("%s %s (promised: %s)", what, took, within)
	if took > within {
		t.Errorf("%s %s, promised are %s", what, took, within)
	}
}

// begin applies pods, waits until they run and nothing else does, and removes them after the test.
func begin(t *testing.T, manifest string, count int) {
	t.Helper()
	if _, err := consumer.Kubectl(manifest, "apply", "-n", peering.Namespace, "-f", "-"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := consumer.Kubectl(manifest, "delete", "-n", peering.Namespace, "--timeout=3m", "--ignore-not-found", "-f", "-"); err != nil {
			t.Error(err)
		}
	})
	story.Eventually(t, "all pods to run", 3*time.Minute, func(ctx context.Context) error {
		var pods corev1.PodList
		if err := consumer.Client.List(ctx, &pods, client.InNamespace(peering.Namespace)); err != nil {
			return err
		}
		running := 0
		for i := range pods.Items {
			if pods.Items[i].Status.Phase == corev1.PodRunning || pods.Items[i].Status.Phase == corev1.PodSucceeded {
				running++
			}
		}
		if len(pods.Items) != count || running < count {
			return fmt.Errorf("%d of %d run", running, len(pods.Items))
		}
		// Pods that ended before may still be on their way out there.
		if err := provider.Client.List(ctx, &pods, client.InNamespace(peering.Twin())); err != nil {
			return err
		}
		if len(pods.Items) > count {
			return fmt.Errorf("the provider has %d pods", len(pods.Items))
		}
		return nil
	})
}

// ran says which pods there are in the provider, which ones they are, and how often their containers were started.
func ran(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	story.Eventually(t, "the provider's pods", time.Minute, func(ctx context.Context) error {
		var pods corev1.PodList
		if err := provider.Client.List(ctx, &pods, client.InNamespace(peering.Twin())); err != nil {
			return err
		}
		for _, pod := range pods.Items {
			var restarts []string
			for _, c := range pod.Status.ContainerStatuses {
				restarts = append(restarts, fmt.Sprint(c.RestartCount))
			}
			out[pod.Name] = fmt.Sprint(pod.UID, restarts)
		}
		return nil
	})
	return out
}

// caughtUp wants every pod to look here as there.
func caughtUp(ctx context.Context) error {
	look := func(c client.Client, namespace string) (map[string]string, error) {
		var pods corev1.PodList
		if err := c.List(ctx, &pods, client.InNamespace(namespace)); err != nil {
			return nil, err
		}
		out := map[string]string{}
		for _, pod := range pods.Items {
			ready := corev1.ConditionFalse
			for _, cond := range pod.Status.Conditions {
				if cond.Type == corev1.PodReady {
					ready = cond.Status
				}
			}
			out[pod.Name] = fmt.Sprint(pod.Status.Phase, " ready ", ready)
		}
		return out, nil
	}
	localPods, err := look(consumer.Client, peering.Namespace)
	if err != nil {
		return err
	}
	remotePods, err := look(provider.Client, peering.Twin())
	if err != nil {
		return err
	}
	if localPods["ending"] != "" && !strings.HasPrefix(localPods["ending"], string(corev1.PodSucceeded)) {
		return fmt.Errorf("the pod that ended is %s", localPods["ending"])
	}
	if !maps.Equal(localPods, remotePods) {
		return fmt.Errorf("(-there +here):\n%s", cmp.Diff(remotePods, localPods))
	}
	return nil
}

// Pods that tolerate their node's absence for a short time only.
const impatient = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: impatient}
spec:
  replicas: 1
  selector: {matchLabels: {app: impatient}}
  template:
    metadata: {labels: {app: impatient}}
    spec:
      terminationGracePeriodSeconds: 1
      tolerations:
      - {key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 5}
      - {key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 5}
      containers: [{name: c, image: "docker.io/library/busybox:latest", imagePullPolicy: IfNotPresent, command: [sleep, "100000"]}]
`

// Beyond that time Kubernetes does with a virtual node what it does with any node that is cut off: it deletes the pod, the
// owner makes another one, and both exist until the node is back. Here the other one waits for the only node that it may
// run on; in the provider the first one runs on until its virtual kubelet hears that it was deleted.
func TestEvictionDuplicates(t *testing.T) {
	begin(t, impatient, 1)
	uid := func(name string) types.UID {
		var pod corev1.Pod
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := provider.Client.Get(ctx, client.ObjectKey{Namespace: peering.Twin(), Name: name}, &pod); err != nil {
			return ""
		}
		return pod.UID
	}
	var first string
	var pods corev1.PodList
	list := func(ctx context.Context) error {
		return consumer.Client.List(ctx, &pods, client.InNamespace(peering.Namespace), client.MatchingLabels{"app": "impatient"})
	}
	story.Eventually(t, "the pod", time.Minute, func(ctx context.Context) error {
		if err := list(ctx); err != nil || len(pods.Items) != 1 {
			return fmt.Errorf("%d pods: %w", len(pods.Items), err)
		}
		first = pods.Items[0].Name
		return nil
	})
	was := uid(first)
	mustPlayground(t, "fail", "b1")
	healed := false
	defer func() {
		if !healed {
			mustPlayground(t, "heal", "b1", "--network")
		}
	}()
	took := story.Eventually(t, "a second pod", 3*time.Minute, func(ctx context.Context) error {
		if err := list(ctx); err != nil || len(pods.Items) != 2 {
			return fmt.Errorf("%d pods: %w", len(pods.Items), err)
		}
		return nil
	})
	t.Logf("after %s without its provider the pod is Terminating, and its owner has made another one", took)
	mustPlayground(t, "heal", "b1", "--network")
	healed = true
	if now := uid(first); now != "" && now != was {
		t.Errorf("the first pod was made anew in the provider: %s, was %s", now, was)
	}
	took = story.Eventually(t, "only the second pod to be left on both sides", 2*time.Minute, func(ctx context.Context) error {
		if err := list(ctx); err != nil {
			return err
		}
		if len(pods.Items) != 1 || pods.Items[0].Name == first || pods.Items[0].Status.Phase != corev1.PodRunning || uid(first) != "" {
			return fmt.Errorf("%d pods, %s in the provider: %q", len(pods.Items), first, uid(first))
		}
		return nil
	})
	t.Logf("%s after the provider was back the first pod is gone on both sides, and the second one runs", took)
}
