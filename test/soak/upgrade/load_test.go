// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/test/clusters"
	"liqo.io/liqo/test/story"
	"liqo.io/liqo/test/traffic"
)

const (
	podInterval = 500 * time.Millisecond
	// unfinishedLimit keeps a slow machine from falling behind.
	unfinishedLimit = 15
	// gapLimit is the longest time without an answer through the tunnel while a cluster is upgraded or a gateway is replaced, and gapLimitBefore
	// while a cluster is rolled back to the release before: the controller-manager of v0.1.0 ends the old pod of a gateway before the start of the
	// new one, and its fabric loses its connection to an API server on its node.
	gapLimit, gapLimitBefore = time.Second, 20 * time.Second
)

// TestUpgradeUnderLoad upgrades both clusters from the release before, and rolls both back by the liqoctl of that release, while new pods
// start all the time, others run, and traffic passes the tunnel.
func TestUpgradeUnderLoad(t *testing.T) {
	t.Cleanup(func() {
		if t.Failed() {
			show(t)
		}
	})
	for _, c := range []*clusters.Cluster{a, b} {
		uninstall(t, c)
		install(t, c, before, "--set", "webhook.mutatingAdmissionPolicy=disabled") // as before Kubernetes 1.36
	}
	t.Logf("%s has Kubernetes %s, %s has %s", a.ID, kubernetesOf(t, a), b.ID, kubernetesOf(t, b))
	say(t, a, "peer", "--remote-kubeconfig", b.Kubeconfig)
	kubectl(t, a, "", "create", "namespace", "upgraded")
	say(t, a, "offload", "namespace", "upgraded", "--pod-offloading-strategy", "Remote")
	runs(t, "staying")
	first := twin(t, "staying")
	asking := watchTunnel(t)
	work := startLoad(t)

	for _, step := range []struct {
		what  string
		limit time.Duration
		of    *clusters.Cluster // whose gateway is another one then
		do    func(*testing.T)
	}{
		{"the consumer is upgraded", gapLimit, a, func(t *testing.T) { installInOrder(t, a, "", "--set", "webhook.mutatingAdmissionPolicy=auto") }},
		{"the provider is upgraded", gapLimit, b, func(t *testing.T) { installInOrder(t, b, "", "--set", "webhook.mutatingAdmissionPolicy=auto") }},
		{"the gateway of the consumer is replaced", gapLimit, a, func(t *testing.T) { changeTemplate(t, a, "wggatewayclienttemplate", "wireguard-client") }},
		{"the gateway of the provider is replaced", gapLimit, b, func(t *testing.T) { changeTemplate(t, b, "wggatewayservertemplate", "wireguard-server") }},
		{"the provider is rolled back", gapLimitBefore, b, func(t *testing.T) { installInOrder(t, b, before) }},
		{"the consumer is rolled back", gapLimitBefore, a, func(t *testing.T) { installInOrder(t, a, before) }},
	} {
		last, err := gatewayPods(step.of)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		step.do(t)
		installed := time.Since(start)
		story.Eventually(t, "another pod of the gateway in "+step.of.ID, 2*time.Minute, func(context.Context) error {
			now, err := gatewayPods(step.of)
			if err == nil && (now == last || len(strings.Fields(now)) != 1) {
				err = fmt.Errorf("the pods are %q", now)
			}
			return err
		})
		story.Eventually(t, "the peering to be well after "+step.what, 3*time.Minute, func(context.Context) error {
			for _, c := range []*clusters.Cluster{a, b} {
				if out, err := c.Liqoctl("info", "peer", "--exit-code"); err != nil {
					return fmt.Errorf("%w\n%s", err, out)
				}
			}
			return nil
		})
		if _, err := asking.Answered(t.Context(), time.Now()); err != nil {
			t.Fatal(err)
		}
		gap, lost := asking.Gap(start)
		t.Logf("%s: %.1f s, with %.1f s until both are well; no answer for %.2f s, %d questions lost", step.what, installed.Seconds(), time.Since(start).Seconds(), gap.Seconds(), lost)
		if gap > step.limit {
			t.Errorf("%s: there was no answer through the tunnel for %.2f s, limit %s", step.what, gap.Seconds(), step.limit)
		}
	}

	work.check(t)
	logs(t, "staying")
	if now := twin(t, "staying"); now.UID != first.UID || now.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Errorf("the pod in the provider is another one, or began again: %s, %s", first.UID, now.UID)
	}
	end(t)
}

// installInOrder installs a release over another one, and checks the order of the writes.
func installInOrder(t *testing.T, c *clusters.Cluster, liqoctl string, args ...string) {
	t.Helper()
	start := time.Now()
	install(t, c, liqoctl, args...)
	checkOrder(t, c, start)
}

// changeTemplate changes the template of gateways, as an upgrade does.
func changeTemplate(t *testing.T, c *clusters.Cluster, kind, template string) {
	t.Helper()
	patch := `{"spec":{"template":{"spec":{"deployment":{"spec":{"template":{"metadata":{"annotations":{"example.com/replaced":"true"}}}}}}}}}`
	kubectl(t, c, "", "patch", kind, template, "-n", "liqo", "--type", "merge", "-p", patch)
}

func gatewayPods(c *clusters.Cluster) (string, error) {
	return c.Kubectl("", "get", "pods", "-A", "-l", "networking.liqo.io/component=gateway", "-o", "jsonpath={.items[*].metadata.name}")
}

func kubernetesOf(t *testing.T, c *clusters.Cluster) string {
	t.Helper()
	out, err := c.Kubectl("", "get", "nodes", "-o", "jsonpath={.items[0].status.nodeInfo.kubeletVersion}")
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// watchTunnel asks all the time from a pod in each cluster to one in the other.
func watchTunnel(t *testing.T) traffic.Watchers {
	t.Helper()
	var ends [2]traffic.Endpoint
	both := [2]*clusters.Cluster{a, b}
	for i, c := range both {
		var nodes corev1.NodeList
		if err := c.Client.List(t.Context(), &nodes); err != nil {
			t.Fatal(err)
		}
		for _, n := range nodes.Items {
			if n.Labels["liqo.io/type"] == "" {
				var err error
				if ends[i], err = traffic.StartPod(t.Context(), c, n.Name); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for i := range both {
		peer := both[1-i]
		story.Eventually(t, "the addresses of "+peer.ID, time.Minute, func(ctx context.Context) (err error) {
			ends[1-i].Seen, err = traffic.TranslateAddress(ctx, both[i], "liqo-tenant-"+peer.ID, peer.ID, ends[1-i].Own)
			return err
		})
	}
	asking, err := traffic.Path{Name: "pods", From: ends[0], To: ends[1]}.Watch()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(asking.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if _, err := asking.Answered(ctx, time.Now()); err != nil {
		t.Fatal(err)
	}
	return asking
}

// load creates short pods until it is checked.
type load struct {
	consumer, provider *story.Recorder
	stop               context.CancelFunc
	stopped            sync.WaitGroup
	// created, refused and longest are the number of pods, how often one was refused, and the longest time that one was.
	created, refused int
	longest          time.Duration
}

func startLoad(t *testing.T) *load {
	t.Helper()
	// Only what is created from now on is recorded, so that the number of pods is that of the load and of "staying".
	l := &load{consumer: story.Record(t, a, "upgraded"), provider: story.Record(t, b, "upgraded-"+a.ID)}
	var ctx context.Context
	ctx, l.stop = context.WithCancel(t.Context())
	t.Cleanup(l.stop)
	l.stopped.Go(func() {
		tick := time.NewTicker(podInterval)
		defer tick.Stop()
		for ctx.Err() == nil {
			if l.consumer.Unfinished() < unfinishedLimit {
				l.createPod(t.Context())
			}
			select {
			case <-ctx.Done():
			case <-tick.C:
			}
		}
	})
	return l
}

// createPod creates a pod as a controller would: again where it is refused.
func (l *load) createPod(ctx context.Context) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		RestartPolicy:                 corev1.RestartPolicyNever,
		TerminationGracePeriodSeconds: new(int64),
		Containers: []corev1.Container{{
			Name: "c", Image: "docker.io/library/busybox:latest", ImagePullPolicy: corev1.PullIfNotPresent, Command: []string{"sleep", "2"},
		}},
	}}
	pod.Namespace, pod.Name = "upgraded", fmt.Sprintf("load-%d", l.created)
	for start := time.Now(); ctx.Err() == nil; {
		if err := client.IgnoreAlreadyExists(a.Client.Create(ctx, pod.DeepCopy())); err == nil {
			l.created++
			l.longest = max(l.longest, time.Since(start))
			return
		}
		l.refused++
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// check ends the load, and wants that each pod ran once, in the provider, and succeeded.
func (l *load) check(t *testing.T) {
	t.Helper()
	l.stop()
	l.stopped.Wait()
	t.Logf("%d pods were created; creation was refused %d times, for %.1f s at most", l.created, l.refused, l.longest.Seconds())
	var pods corev1.PodList
	story.Eventually(t, "all pods to end", 5*time.Minute, func(ctx context.Context) error {
		if err := a.Client.List(ctx, &pods, client.InNamespace("upgraded")); err != nil {
			return err
		}
		if n := l.consumer.Unfinished(); n > 1 { // "staying" goes on
			return fmt.Errorf("%d of %d did not end yet", n, len(pods.Items))
		}
		return nil
	})
	for _, pod := range pods.Items {
		if pod.Name != "staying" && pod.Status.Phase != corev1.PodSucceeded {
			t.Errorf("pod %s is %s", pod.Name, pod.Status.Phase)
		}
		if pod.Spec.NodeName != b.ID {
			t.Errorf("pod %s was not steered, and ran on %s", pod.Name, pod.Spec.NodeName)
		}
	}
	l.consumer.Check(t, "consumer", l.created+1)
	l.provider.Check(t, "provider", l.created+1)
}

// checkOrder wants that CRDs were written before any workload of Liqo, since the start of an upgrade.
func checkOrder(t *testing.T, c *clusters.Cluster, start time.Time) {
	t.Helper()
	var crd, workload time.Time
	for _, r := range story.Audit(t, c, func(r story.Request) bool {
		return r.At.After(start) && (r.Verb == "patch" || r.Verb == "update" || r.Verb == "create") && r.Ref.Subresource == "" && r.User.Username == "kubernetes-admin"
	}) {
		switch {
		case r.Ref.Resource == "customresourcedefinitions" && r.At.After(crd):
			crd = r.At
		case r.Ref.APIGroup == "apps" && r.Ref.Namespace == "liqo" && (workload.IsZero() || r.At.Before(workload)):
			workload = r.At
		}
	}
	if crd.IsZero() || workload.IsZero() || !crd.Before(workload) {
		t.Errorf("%s: the last CRD was written at %s, the first workload at %s", c.ID, crd, workload)
	}
}
