// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"liqo.io/liqo/test/clusters"
	"liqo.io/liqo/test/release"
	"liqo.io/liqo/test/story"
)

// This tree under three names: versions of neighbours work together. Where one cluster goes too far ahead both say so and what to do, what
// runs goes on, and nothing new is begun; to peer is refused before anything is changed.
func TestIncompatibleVersions(t *testing.T) {
	t.Cleanup(func() {
		if t.Failed() {
			show(t)
		}
	})
	programs := map[string]string{}
	for _, version := range []string{"v0.1.0", "v0.2.0", "v0.3.0"} {
		liqoctl, image, err := release.Build(root, "HEAD", version, t.TempDir())
		if err == nil {
			err = story.Playground("load", image)
		}
		if err != nil {
			t.Fatal(err)
		}
		programs[version] = liqoctl
	}
	for _, c := range []*clusters.Cluster{a, b} {
		uninstall(t, c)
	}
	install(t, a, programs["v0.1.0"])
	install(t, b, programs["v0.2.0"])
	say(t, a, "peer", "--remote-kubeconfig", b.Kubeconfig)
	kubectl(t, a, "", "create", "namespace", "upgraded")
	say(t, a, "offload", "namespace", "upgraded", "--pod-offloading-strategy", "Remote")
	runs(t, "neighbours")
	first := twin(t, "neighbours")
	for _, c := range []*clusters.Cluster{a, b} {
		if out := versionProblem(t, c); out != "" {
			t.Errorf("%s says of its neighbour %s", c.ID, out)
		}
	}

	install(t, b, programs["v0.3.0"])
	for c, want := range map[*clusters.Cluster]string{
		a: "Error PeerTooNew the peer has Liqo v0.3.0 and this cluster v0.1.0, which do not work together: upgrade this cluster until it is one minor version behind the peer at most",
		b: "Error PeerTooOld the peer has Liqo v0.1.0 and this cluster v0.3.0, which do not work together: upgrade the peer until it is one minor version behind this cluster at most",
	} {
		story.Eventually(t, c.ID+" to say what is wrong", 2*time.Minute, func(context.Context) error {
			if out := versionProblem(t, c); out != want {
				return fmt.Errorf("it says %q", out)
			}
			return nil
		})
	}
	logs(t, "neighbours")
	if now := twin(t, "neighbours"); now.UID != first.UID || now.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Errorf("the pod in the provider is another one, or began again: %s, %s", first.UID, now.UID)
	}
	peerIsRefused(t)
	end(t)

	peerIsRefused(t)
	if out, err := a.Kubectl("", "get", "tenants,identities,configurations,foreignclusters,namespaces", "-A", "-o", "name"); err != nil || strings.Contains(out, b.ID) {
		t.Errorf("what was refused left something: %v\n%s", err, out)
	}
	install(t, a, programs["v0.2.0"])
	say(t, a, "peer", "--remote-kubeconfig", b.Kubeconfig)
	say(t, a, "unpeer", "--remote-kubeconfig", b.Kubeconfig, "--delete-namespaces")
}

// versionProblem is what a ForeignCluster says of a version that is too far away, "" where nothing is wrong.
func versionProblem(t *testing.T, c *clusters.Cluster) string {
	t.Helper()
	out, err := c.Kubectl("", "get", "foreignclusters", "-o",
		`jsonpath={range .items[*].status.modules.authentication.conditions[?(@.type=="AuthVersionStatus")]}{.status} {.reason} {.message}{end}`)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func peerIsRefused(t *testing.T) {
	t.Helper()
	const why = "the local cluster has Liqo v0.1.0 and the remote one v0.3.0, which do not work together"
	if out, err := a.Say("peer", "--remote-kubeconfig", b.Kubeconfig); err == nil || !strings.Contains(out, why) || !strings.Contains(out, "Upgrade the local cluster") {
		t.Errorf("it ended with %v\n%s", err, out)
	}
}
