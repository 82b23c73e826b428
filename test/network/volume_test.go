// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	_ "embed"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/test/story"
)

//go:embed testdata/volumes.yaml
var volumesYAML string

const archiveReader = `
apiVersion: v1
kind: Pod
metadata: {name: reader, namespace: moved}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: reader
    image: docker.io/library/busybox:1
    imagePullPolicy: IfNotPresent
    command: [sleep, "3600"]
    volumeMounts: [{name: data, mountPath: /data}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: archive}}]
`

// TestVolumes runs a StatefulSet in both clusters, whose replicas reach each other by name, and moves a volume to the provider and back. The
// first move is interrupted, and the pod that copies is killed during the second one.
func TestVolumes(t *testing.T) {
	if _, err := a.Say("peer", "--remote-kubeconfig", b.Kubeconfig); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		kubectl(t, a, "", "delete", "namespace", "moved", "--ignore-not-found", "--timeout=3m")
		if _, err := a.Say("unpeer", "--remote-kubeconfig", b.Kubeconfig, "--delete-namespaces"); err != nil {
			t.Error(err)
		}
	})
	kubectl(t, a, "", "create", "namespace", "moved")
	if out, err := a.Say("offload", "namespace", "moved"); err != nil {
		t.Fatal(err, out)
	}
	kubectl(t, a, volumesYAML, "apply", "-f", "-")
	eventually(t, "all replicas", func(context.Context) error {
		ready, err := a.Kubectl("", "get", "statefulset", "web", "-n", "moved", "-o", "jsonpath={.status.readyReplicas}")
		if err == nil && ready != "3" {
			pods, _ := a.Kubectl("", "get", "pods,pvc,events", "-n", "moved", "-o", "wide")
			err = fmt.Errorf("%q of 3 are ready:\n%s", ready, pods)
		}
		return err
	})
	for from := range 3 {
		for to := range 3 {
			eventually(t, fmt.Sprintf("web-%d to reach web-%d by its name", from, to), func(context.Context) error {
				out, err := a.Kubectl("", "exec", fmt.Sprintf("web-%d", from), "-n", "moved", "--", "wget", "-q", "-O-", fmt.Sprintf("http://web-%d.web:8080", to))
				if want := fmt.Sprintf("web-%d\n", to); err == nil && out != want {
					err = fmt.Errorf("%q answers, not %q", out, want)
				}
				return err
			})
		}
	}

	eventually(t, "the data of the archive", func(context.Context) error {
		_, err := a.Kubectl("", "exec", "writer", "-n", "moved", "--", "cat", "/data/written")
		return err
	})
	move := func(node string) []string {
		return []string{"move", "volume", "archive", "-n", "moved", "--target-node", node}
	}
	if out, err := a.Say(move(b.ID)...); err == nil || !strings.Contains(out+err.Error(), "writer") {
		t.Errorf("a claim in use is moved: %v\n%s", err, out)
	}
	kubectl(t, a, "", "delete", "pod", "writer", "-n", "moved")
	interrupted(t, "Pre-flight checks passed", move(b.ID)...)
	movesThroughKill(t, move(b.ID)...)
	archiveIsOn(t, b.ID)
	if out, err := a.Say("unpeer", "--remote-kubeconfig", b.Kubeconfig); err == nil || !strings.Contains(out+err.Error(), "archive") {
		t.Errorf("a provider with data is left: %v\n%s", err, out)
	}
	if out, err := a.Say(move("a2")...); err != nil {
		t.Fatal(err, out)
	}
	archiveIsOn(t, "a2")
	if owner := kubectl(t, a, "", "get", "pvc", "archive", "-n", "moved", "-o", "jsonpath={.metadata.annotations.example\\.org/owner}"); owner != "shop" {
		t.Errorf("the annotation of the claim is %q", owner)
	}
}

// movesThroughKill runs a move and kills a pod that copies in the provider, unless all is copied before. The move continues, or says how to continue.
func movesThroughKill(t *testing.T, args ...string) {
	t.Helper()
	var once sync.Once
	var killer sync.WaitGroup
	ctx, done := context.WithCancel(t.Context())
	defer done()
	_, err := a.Follow(t.Context(), func(line string) {
		if strings.Contains(line, "Pre-flight checks passed") {
			once.Do(func() {
				killer.Go(func() {
					t.Log("killing a pod that copies:", story.Retry(ctx, 4*time.Minute, func(ctx context.Context) error {
						return story.KillPod(ctx, b, "moved-"+a.ID, client.MatchingLabels{}, func(pod string) bool { return strings.Contains(pod, "archive") })
					}))
				})
			})
		}
	}, args...)
	done()
	killer.Wait()
	if err != nil {
		if out, err := a.Say(args...); err != nil {
			t.Fatal(err, out)
		}
	}
}

// archiveIsOn starts a pod without preference for a node: it runs where the data is, and all of it is there.
func archiveIsOn(t *testing.T, node string) {
	t.Helper()
	kubectl(t, a, archiveReader, "apply", "-f", "-")
	eventually(t, "the checksums of the archive", func(context.Context) error {
		out, err := a.Kubectl("", "exec", "reader", "-n", "moved", "--", "sh", "-c", "cd /data && sha256sum -c sums && stat -c '%a %u:%g' deep/er/2 deep/er/3")
		if err != nil {
			pods, _ := a.Kubectl("", "get", "pods,pvc,events", "-n", "moved", "-o", "wide")
			return fmt.Errorf("%w\n%s", err, pods)
		}
		if strings.Count(out, ": OK\n") != 9 || !strings.Contains(out, "640 0:0\n") || !strings.Contains(out, " 1000:2000\n") {
			t.Errorf("the archive is\n%s", out)
		}
		return nil
	})
	if got := kubectl(t, a, "", "get", "pod", "reader", "-n", "moved", "-o", "jsonpath={.spec.nodeName}"); got != node {
		t.Errorf("the reader runs on %s, and the data was moved to %s", got, node)
	}
	kubectl(t, a, "", "delete", "pod", "reader", "-n", "moved")
}
