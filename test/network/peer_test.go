// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/liqo/test/clusters"
	"liqo.io/liqo/test/story"
)

// peered is what the user guide says that the command prints, in its order.
var peered = []string{
	"(local) Network configuration correctly retrieved",
	"(remote) Network configuration correctly retrieved",
	"(local) Network configuration correctly set up",
	"(remote) Network configuration correctly set up",
	"(local) Configuration applied successfully",
	"(remote) Configuration applied successfully",
	"(local) Network correctly initialized",
	"(remote) Network correctly initialized",
	"(remote) Gateway server correctly set up",
	"(remote) Gateway pod gw-CONSUMER is ready",
	"(remote) Gateway server Service created successfully",
	"(local) Gateway client correctly set up",
	"(local) Gateway pod gw-PROVIDER is ready",
	"(remote) Gateway server Secret created successfully",
	"(local) Public key correctly created",
	"(local) Gateway client Secret created successfully",
	"(remote) Public key correctly created",
	"(remote) Connection created successfully",
	"(local) Connection created successfully",
	"(local) Connection is established",
	"(remote) Connection is established",
	"(local) Tenant namespace correctly ensured",
	"(remote) Tenant namespace correctly ensured",
	"(remote) Nonce secret ensured",
	"(remote) Nonce generated successfully",
	"(remote) Nonce retrieved",
	"(local) Signed nonce secret ensured",
	"(local) Nonce is signed",
	"(local) Signed nonce retrieved",
	"(local) Tenant correctly generated",
	"(remote) Tenant correctly applied on provider cluster",
	"(remote) Tenant status is filled",
	"(remote) Identity correctly generated",
	"(local) Identity correctly applied on consumer cluster",
	"(local) Identity status is filled",
	"(local) ResourceSlice created",
	"(local) ResourceSlice authentication: Accepted",
	"(local) ResourceSlice resources: Accepted",
}

// besides are lines that newer versions print between those of the guide.
var besides = regexp.MustCompile(`^ INFO   \((local|remote)\) Gateway (server|client) template "wireguard-(server|client)/liqo" correctly checked$|^ WARN   \((local|remote)\) Waiting for `)

// The commands of the guide about peering, in its order: one direction, the other one, and the end of both, after which both clusters
// and the kernels of their nodes are as before. The other direction is that of a peering user. LIQO_PEERINGS repeats all of it.
func TestPeeringByOneCommand(t *testing.T) {
	times, err := strconv.Atoi(os.Getenv("LIQO_PEERINGS"))
	if err != nil {
		times = 1
	}
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
			t.Log(errA, errB, errUser)
		}
	})
	for range times {
		if t.Failed() {
			return
		}
		says(t, peered, a, b, "peer", "--remote-kubeconfig", b.Kubeconfig)
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
		says(t, peered, a, b, "peer", "--remote-kubeconfig", b.Kubeconfig) // changes nothing
		for _, args := range [][]string{
			{"info"}, {"info", "peer"}, {"info", "peer", "cl-provider"}, {"info", "peer", "-o", "json"}, {"info", "peer", "cl-provider", "--get", "authentication.resourceslices"},
		} {
			if out, err := a.Say(args...); err != nil || !strings.Contains(out, "cl-provider") {
				t.Errorf("liqoctl %v: %v\n%s", args, err, out)
			}
		}

		of, began := peeringUser(t, b, a), time.Now()
		throughTunnel(t, b, a, of)
		t.Logf("the other direction, through the tunnel: %s", time.Since(began).Round(100*time.Millisecond))
		roles(t, "ConsumerAndProvider", "ConsumerAndProvider")
		if _, err := a.Say("unpeer", "--remote-kubeconfig", b.Kubeconfig); err != nil {
			t.Fatal(err)
		}
		roles(t, "Consumer", "Provider")
		if _, err := b.Say("unpeer", "--remote-kubeconfig", of); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Liqoctl("delete", "peering-user", "--consumer-cluster-id", b.ID); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Say("unpeer", "--remote-kubeconfig", a.Kubeconfig, "--delete-namespaces"); err != nil {
			t.Fatal(err)
		}
		hasGone(t, b)
		for c, before := range objects {
			now, err := c.Listing(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if diff := clusters.Changes(before, now); diff != "" {
				t.Errorf("left in %s, or gone from it (-before +after):\n%s", c.ID, diff)
			}
		}
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

// says wants the lines that the command prints to be those of the guide, in its order, and none but those that are known.
func says(t *testing.T, lines []string, local, remote *clusters.Cluster, args ...string) {
	t.Helper()
	out, err := local.Say(args...)
	if err != nil {
		show(t)
		t.Fatal(err)
	}
	want := slices.Clone(lines)
	for line := range strings.Lines(out) {
		line = strings.TrimRight(line, "\n")
		if len(want) > 0 && line == " INFO   "+strings.NewReplacer("CONSUMER", local.ID, "PROVIDER", remote.ID).Replace(want[0]) {
			want = want[1:]
		} else if !besides.MatchString(line) {
			t.Errorf("nobody expects the line %q", line)
		}
	}
	if len(want) > 0 {
		t.Fatalf("%q is missing, or what follows it is, in\n%s", want[0], out)
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
