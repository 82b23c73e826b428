// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package upgrade has a cluster with the release before this tree and one with this tree peer, in both roles, and upgrades the older one
// under a pod that runs. LIQO_E2E_KUBECONFIGS names the kubeconfigs of a and b, fresh ones; LIQO_PLAYGROUND is the program that runs
// them, and LIQO_PLAYGROUND_HOME where it does.
package upgrade

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/test/clusters"
	"liqo.io/liqo/test/release"
	"liqo.io/liqo/test/story"
)

// before is the liqoctl of the release before.
var before, versionBefore, versionNow string

// root is the folder of this tree.
var root string

var a, b *clusters.Cluster

func TestMain(m *testing.M) {
	folder, err := os.MkdirTemp("", "liqo-before-")
	if err == nil {
		err = setUp(folder)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "upgrade:", err)
		_ = os.RemoveAll(folder)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(folder)
	os.Exit(code)
}

func setUp(folder string) error {
	var err error
	if root, err = filepath.Abs("../../.."); err != nil {
		return err
	}
	if os.Getenv("LIQO_PLAYGROUND") == "" {
		if err := os.Setenv("LIQO_PLAYGROUND", filepath.Join(root, "bin", "playground")); err != nil {
			return err
		}
	}
	if versionBefore, err = release.Previous(root); err != nil {
		return err
	}
	both, err := clusters.Given("cl-consumer", "cl-provider")
	if err != nil {
		return err
	}
	a, b = both[0], both[1]
	var image string
	if before, image, err = release.Build(root, versionBefore, versionBefore, folder); err != nil {
		return err
	}
	if err := story.Playground("load", image); err != nil {
		return err
	}
	version, err := a.Liqoctl("version", "--client")
	versionNow = strings.TrimSpace(strings.TrimPrefix(version, "Client version: "))
	if err == nil && versionNow == versionBefore {
		err = fmt.Errorf("this tree is %s itself: there is nothing to compare", versionNow)
	}
	return err
}

// wanderer is a pod that runs in the provider, and says when it began.
const wanderer = `
apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: upgraded}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: c, image: "docker.io/library/busybox:latest", imagePullPolicy: IfNotPresent, command: [sh, -c, "echo begun; sleep 100000"]}]
`

func TestUpgradeConsumer(t *testing.T) {
	install(t, a, before)
	install(t, b, "")
	runUpgrade(t, a)
	end(t)
}

func TestUpgradeProvider(t *testing.T) {
	uninstall(t, b)
	install(t, a, "")
	install(t, b, before)
	runUpgrade(t, b)
	end(t)
}

// install installs a release by its own liqoctl, "" for that of this tree, as the documentation says; over another one that is an upgrade.
func install(t *testing.T, c *clusters.Cluster, liqoctl string, args ...string) {
	t.Helper()
	c.Program = liqoctl
	if err := c.Install(append(args, "--set", "controllerManager.replicas=1")...); err != nil {
		show(t)
		t.Fatal(err)
	}
}

func uninstall(t *testing.T, c *clusters.Cluster) {
	t.Helper()
	if _, err := c.Liqoctl("uninstall", "--skip-confirm", "--purge"); err != nil {
		t.Fatal(err)
	}
}

// runUpgrade peers, unpeers and peers again, offloads a pod, upgrades one of the two, and wants the pod and the peering to be there after that.
func runUpgrade(t *testing.T, older *clusters.Cluster) {
	t.Cleanup(func() {
		if t.Failed() {
			show(t)
		}
	})
	t.Logf("consumer %s has %s, provider %s has %s", a.ID, has(a), b.ID, has(b))
	for _, command := range []string{"peer", "unpeer", "peer"} {
		say(t, a, command, "--remote-kubeconfig", b.Kubeconfig)
	}
	kubectl(t, a, "", "create", "namespace", "upgraded")
	say(t, a, "offload", "namespace", "upgraded", "--pod-offloading-strategy", "Remote")
	runs(t, "before")
	first := twin(t, "before")
	t.Logf("with %s and %s: peered, the pod runs and its log is read; each says of the other %q, %q", has(a), has(b), reportedVersion(t, a, b), reportedVersion(t, b, a))

	install(t, older, "")
	story.Eventually(t, "both clusters to say which version the other has", 2*time.Minute, func(context.Context) error {
		for _, in := range [][2]*clusters.Cluster{{a, b}, {b, a}} {
			if got := reportedVersion(t, in[0], in[1]); !strings.HasPrefix(got, versionNow+" ") || !strings.Contains(got, "bound-nonces") {
				return fmt.Errorf("%s says of %s %q, which is %s", in[0].ID, in[1].ID, got, versionNow)
			}
		}
		return nil
	})
	story.Eventually(t, "the peering to be well", 2*time.Minute, func(context.Context) error {
		for _, c := range []*clusters.Cluster{a, b} {
			if out, err := c.Liqoctl("info", "peer", "--exit-code"); err != nil {
				return fmt.Errorf("%w\n%s", err, out)
			}
		}
		return nil
	})
	logs(t, "before")
	now := twin(t, "before")
	if now.UID != first.UID || now.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Errorf("the pod in the provider is another one, or began again: %s, %s", first.UID, now.UID)
	}
	runs(t, "after")
	t.Logf("%s was upgraded from %s to %s: the pod %s runs on in the provider, another one came, and both say %s of the other",
		older.ID, versionBefore, versionNow, first.UID, versionNow)
}

// has is the release in a cluster.
func has(c *clusters.Cluster) string {
	if c.Program == "" {
		return versionNow
	}
	return versionBefore
}

// reportedVersion is the version of one cluster and its capabilities, as another one shows them.
func reportedVersion(t *testing.T, in, of *clusters.Cluster) string {
	t.Helper()
	out, err := in.Kubectl("", "get", "foreigncluster", of.ID, "-o", "jsonpath={.status.version} {.status.capabilities}")
	if err != nil {
		t.Log(err)
	}
	return strings.TrimSpace(out)
}

// runs makes a pod, and waits until it runs in the provider and its log is read.
func runs(t *testing.T, name string) {
	t.Helper()
	story.Eventually(t, "the pod "+name+" to be taken", 2*time.Minute, func(context.Context) error {
		_, err := a.Kubectl(fmt.Sprintf(wanderer, name), "apply", "-f", "-")
		return err
	})
	story.Eventually(t, "the pod "+name+" to run", 2*time.Minute, func(ctx context.Context) error {
		var pod corev1.Pod
		if err := a.Client.Get(ctx, client.ObjectKey{Namespace: "upgraded", Name: name}, &pod); err != nil {
			return err
		}
		if pod.Status.Phase != corev1.PodRunning || pod.Spec.NodeName != b.ID {
			return fmt.Errorf("it is %s on %q: %+v", pod.Status.Phase, pod.Spec.NodeName, pod.Status.Conditions)
		}
		return nil
	})
	logs(t, name)
}

func logs(t *testing.T, name string) {
	t.Helper()
	story.Eventually(t, "the log of "+name, time.Minute, func(context.Context) error {
		out, err := a.Kubectl("", "logs", "-n", "upgraded", name)
		if err == nil && strings.TrimSpace(out) != "begun" {
			err = fmt.Errorf("it is %q", out)
		}
		return err
	})
}

// twin is a pod in the provider.
func twin(t *testing.T, name string) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{}
	if err := b.Client.Get(t.Context(), client.ObjectKey{Namespace: "upgraded-" + a.ID, Name: name}, pod); err != nil || len(pod.Status.ContainerStatuses) != 1 {
		t.Fatalf("the pod in the provider: %v, %+v", err, pod.Status)
	}
	return pod
}

// end takes back what tell made, so that both clusters may have another release.
func end(t *testing.T) {
	t.Helper()
	say(t, a, "unoffload", "namespace", "upgraded", "--skip-confirm")
	kubectl(t, a, "", "delete", "namespace", "upgraded")
	say(t, a, "unpeer", "--remote-kubeconfig", b.Kubeconfig, "--delete-namespaces", "--skip-confirm")
}

func say(t *testing.T, c *clusters.Cluster, args ...string) {
	t.Helper()
	if _, err := c.Say(args...); err != nil {
		t.Fatal(err)
	}
}

func kubectl(t *testing.T, c *clusters.Cluster, stdin string, args ...string) {
	t.Helper()
	if _, err := c.Kubectl(stdin, args...); err != nil {
		t.Fatal(err)
	}
}

// show prints what a reader of a failure asks first.
func show(t *testing.T) {
	t.Helper()
	for _, c := range []*clusters.Cluster{a, b} {
		for _, args := range [][]string{
			{"get", "nodes,rslice,virtualnodes,namespaceoffloadings,namespacemaps,tenants,foreignclusters,connections,shadowpods,pods", "-A", "-o", "wide"},
			{"get", "foreignclusters", "-o", "yaml"},
			{"get", "events", "-A", "--field-selector", "type=Warning"},
			{"logs", "--prefix", "--ignore-errors", "--tail", "40", "-n", "liqo", "-l", "app.kubernetes.io/name=controller-manager"},
			{"logs", "--prefix", "--ignore-errors", "--tail", "40", "-n", "liqo", "-l", "app.kubernetes.io/name=crd-replicator"},
		} {
			out, err := c.Kubectl("", args...)
			t.Logf("%s $ kubectl %v\n%s%v", c.ID, args, out, err)
		}
	}
}
