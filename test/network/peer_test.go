// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/test/clusters"
	"liqo.io/liqo/test/story"
)

// besides are lines that newer versions print between those of the guide.
var besides = regexp.MustCompile(`^ INFO   \((local|remote)\) Gateway (server|client) template "wireguard-(server|client)/liqo" correctly checked$|^ WARN   \((local|remote)\) (Waiting for|Deleting|Applying) `)

// The commands of the guide about peering, in its order: one direction, the other one, and the end of both, after which both clusters
// and the kernels of their nodes are as before. Both commands are interrupted once. The other direction is that of a peering user; its pods run on when the first one ends, whose
// pods run at home then. LIQO_PEERINGS repeats all of it.
func TestPeerCommand(t *testing.T) {
	times, err := strconv.Atoi(os.Getenv("LIQO_PEERINGS"))
	if err != nil {
		times = 1
	}
	peered := guide(t, "peering")[0].Shown
	objects := everything(t)
	kernels, err := story.Kernels(t.Context(), a, b)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() { // other stories need the clusters, too
			_, _ = b.Kubectl("", "delete", "namespace", "--wait=false", "in-band") // it may be gone
			_, errA := a.Say("unpeer", "--remote-kubeconfig", b.Kubeconfig)
			_, errB := b.Say("unpeer", "--remote-kubeconfig", a.Kubeconfig, "--delete-namespaces")
			_, errUser := a.Say("delete", "peering-user", "--consumer-cluster-id", b.ID)
			for _, c := range []*clusters.Cluster{a, b} {
				logKubectl(t, c, "delete", "namespace", "--ignore-not-found", "--wait=false", "lent")
			}
			t.Log(errA, errB, errUser)
		}
	})
	for range times {
		if t.Failed() {
			return
		}
		interrupted(t, "(remote) Public key correctly created", "peer", "--remote-kubeconfig", b.Kubeconfig)
		checkLines(t, peered, "peer", "--remote-kubeconfig", b.Kubeconfig)
		for _, look := range []struct {
			c    *clusters.Cluster
			want string
		}{{a, `(?m)^cl-provider +Provider +\S+$`}, {b, `(?m)^cl-consumer +Consumer +\S+$`}} {
			if out := kubectl(t, look.c, "", "get", "foreignclusters"); !regexp.MustCompile(look.want).MatchString(out) {
				t.Errorf("the ForeignClusters of %s are\n%s", look.c.ID, out)
			}
		}
		eventually(t, "the virtual node", func(ctx context.Context) error { return virtualNode(ctx, corev1.ConditionTrue) })
		if out := kubectl(t, a, "", "get", "nodes", "-l", "liqo.io/type=virtual-node"); !regexp.MustCompile(`(?m)^cl-provider +Ready +agent +\S+ +v1\.\d+\.\d+`).MatchString(out) {
			t.Errorf("the virtual node is\n%s", out)
		}
		checkLines(t, peered, "peer", "--remote-kubeconfig", b.Kubeconfig) // changes nothing
		for _, args := range [][]string{
			{"info"}, {"info", "peer"}, {"info", "peer", "cl-provider"}, {"info", "peer", "-o", "json"}, {"info", "peer", "cl-provider", "--get", "authentication.resourceslices"},
		} {
			if out, err := a.Say(args...); err != nil || !strings.Contains(out, "cl-provider") {
				t.Errorf("liqoctl %v: %v\n%s", args, err, out)
			}
		}

		of, start := peeringUser(t, b, a), time.Now()
		throughTunnel(t, b, a, of)
		t.Logf("the other direction, through the tunnel: %s", time.Since(start).Round(100*time.Millisecond))
		now, err := a.Listing(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for name, text := range now {
			if name == "networks liqo external-cidr" || strings.HasPrefix(name, "internalnodes ") { // made anew with the external CIDR
				objects[a][name] = text
			}
		}
		roles(t, "ConsumerAndProvider", "ConsumerAndProvider")
		work(t, a)
		work(t, b)
		works(t, a, b.ID)
		before := works(t, b, a.ID)
		interrupted(t, "(local) All virtualnodes deleted", "unpeer", "--remote-kubeconfig", b.Kubeconfig)
		if _, err := a.Say("unpeer", "--remote-kubeconfig", b.Kubeconfig); err != nil {
			t.Fatal(err)
		}
		roles(t, "Consumer", "Provider")
		works(t, a, "")
		if after := works(t, b, a.ID); after != before {
			t.Errorf("the pod of the other direction is %+v, and was %+v", after, before)
		}
		if _, err := b.Say("unpeer", "--remote-kubeconfig", of); err != nil {
			t.Fatal(err)
		}
		works(t, b, "")
		workEnds(t)
		if _, err := a.Liqoctl("delete", "peering-user", "--consumer-cluster-id", b.ID); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Say("unpeer", "--remote-kubeconfig", a.Kubeconfig, "--delete-namespaces"); err != nil {
			t.Fatal(err)
		}
		hasGone(t, b)
		isAsBefore(t, objects)
		eventually(t, "the kernels of the nodes to be as before", func(ctx context.Context) error {
			all, err := story.Kernels(ctx, a, b)
			if err != nil {
				return err
			}
			for node, now := range all {
				if now != kernels[node] {
					return fmt.Errorf("that of %s was\n%s\nand is\n%s", node, kernels[node], now)
				}
			}
			return nil
		})
	}
}

// work starts a pod that would rather run in the other cluster.
func work(t *testing.T, c *clusters.Cluster) {
	t.Helper()
	kubectl(t, c, "", "create", "namespace", "lent")
	if out, err := c.Say("offload", "namespace", "lent"); err != nil {
		t.Fatal(err, out)
	}
	kubectl(t, c, story.Work, "apply", "-f", "-")
}

// worker is the pod of a workload, and the one that runs for it in the other cluster, if it does not run at home.
type worker struct {
	uid, twin types.UID
	restarts  int32
}

// works waits until the only pod of the workload is ready on that virtual node, "" for a node of its own cluster.
func works(t *testing.T, c *clusters.Cluster, on string) (w worker) {
	t.Helper()
	eventually(t, fmt.Sprintf("the workload of %s on node %q", c.ID, on), func(ctx context.Context) error {
		pod, err := onlyPod(ctx, c, "lent")
		if err != nil {
			return err
		}
		node := pod.Spec.NodeName
		if away := node == a.ID || node == b.ID; away != (on != "") || away && node != on {
			return fmt.Errorf("its pod is on node %q", node)
		}
		w = worker{uid: pod.UID, restarts: pod.Status.ContainerStatuses[0].RestartCount}
		if on == "" {
			return nil
		}
		remotePod, err := onlyPod(ctx, at(on), "lent-"+c.ID)
		if err != nil {
			return fmt.Errorf("in %s: %w", on, err)
		}
		w.twin = remotePod.UID
		return nil
	})
	return w
}

// onlyPod is the one in a namespace, which is ready.
func onlyPod(ctx context.Context, c *clusters.Cluster, namespace string) (*corev1.Pod, error) {
	var pods corev1.PodList
	if err := c.Client.List(ctx, &pods, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	if len(pods.Items) != 1 {
		return nil, fmt.Errorf("there are %d pods", len(pods.Items))
	}
	pod := &pods.Items[0]
	if len(pod.Status.ContainerStatuses) != 1 || !pod.Status.ContainerStatuses[0].Ready || pod.DeletionTimestamp != nil {
		return nil, fmt.Errorf("the pod on node %q is %s", pod.Spec.NodeName, pod.Status.Phase)
	}
	return pod, nil
}

// workEnds removes the workloads, and waits until nothing is left of their namespaces in either cluster.
func workEnds(t *testing.T) {
	t.Helper()
	for _, c := range []*clusters.Cluster{a, b} {
		kubectl(t, c, "", "delete", "namespace", "--wait=false", "lent")
	}
	for _, c := range []*clusters.Cluster{a, b} {
		eventually(t, "the namespaces of the workload to go from "+c.ID, func(context.Context) error {
			out, err := c.Kubectl("", "get", "namespace", "--ignore-not-found", "-o", "name", "lent", "lent-"+a.ID, "lent-"+b.ID)
			if err == nil && out != "" {
				err = fmt.Errorf("there are %s", out)
			}
			return err
		})
	}
}

// peeringUser is the kubeconfig with which a cluster may peer with a provider, and do nothing else there.
func peeringUser(t *testing.T, cluster, provider *clusters.Cluster) string {
	t.Helper()
	kubeconfig, err := provider.Liqoctl("generate", "peering-user", "--consumer-cluster-id", cluster.ID)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, []byte(kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// checkLines wants the lines that a command of cluster a prints to be those of the guide, in its order, and none but those that are known.
func checkLines(t *testing.T, lines []string, args ...string) {
	t.Helper()
	out, err := a.Say(args...)
	if err != nil {
		show(t)
		t.Fatal(err)
	}
	ids := &desk{env: []string{"CONSUMER=" + a.ID, "PROVIDER=" + b.ID}}
	if err := walk(out, ids.filled(lines), func(line string) bool { return !besides.MatchString(line) }); err != nil {
		t.Fatalf("%v; all that is said is\n%s", err, out)
	}
}

// interrupted sends a command of cluster a the signal of Ctrl-C after a line: it ends with one error.
func interrupted(t *testing.T, after string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, err := a.Follow(ctx, func(line string) {
		if strings.Contains(line, after) {
			cancel()
		}
	}, args...)
	if err == nil || ctx.Err() == nil || strings.Count(out, " ERRO ") != 1 {
		t.Errorf("liqoctl %v, interrupted after %q: %v\n%s", args, after, err, out)
	}
}

// roles are those of the peers, as each cluster sees the other one.
func roles(t *testing.T, inA, inB string) {
	t.Helper()
	for _, look := range []struct {
		in       *clusters.Cluster
		of, want string
	}{{a, b.ID, inA}, {b, a.ID, inB}} {
		eventually(t, "the role of "+look.of, func(context.Context) error {
			role, err := look.in.Kubectl("", "get", "foreigncluster", look.of, "-o", "jsonpath={.status.role}")
			if err == nil && role != look.want {
				err = fmt.Errorf("it is %s, not %s", role, look.want)
			}
			return err
		})
	}
}

// everything is all objects of both clusters when nothing of the tests before is being deleted any more.
func everything(t *testing.T) map[*clusters.Cluster]clusters.Listing {
	t.Helper()
	all := map[*clusters.Cluster]clusters.Listing{}
	for _, c := range []*clusters.Cluster{a, b} {
		eventually(t, "the end of the story before", func(ctx context.Context) (err error) {
			if all[c], err = c.Listing(ctx); err == nil {
				err = all[c].Settled()
			}
			return err
		})
	}
	return all
}
