// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	_ "embed"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/test/clusters"
)

//go:embed testdata/flaky.yaml
var flakyYAML string

func TestLogsAndExecThroughTheVirtualNode(t *testing.T) {
	p := newPeering(t, "kubelet")
	t.Cleanup(func() { p.end(t) })
	for _, d := range p.documents(t) {
		d.cluster.apply(t, d.manifest)
	}
	p.node(t)
	p.offloaded(t)
	if _, err := consumer.Kubectl(flakyYAML, "apply", "-n", p.Namespace, "-f", "-"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the second run of the container", func(context.Context) error {
		got, err := consumer.Kubectl("", "get", "pod", "flaky", "-n", p.Namespace, "-o", "jsonpath={.status.containerStatuses[0].restartCount} {.status.containerStatuses[0].ready}")
		if err == nil && got != "1 true" {
			err = fmt.Errorf("restarts and readiness are %q", got)
		}
		return err
	})
	logs := func(args ...string) string {
		return consumer.mustKubectl(t, append([]string{"logs", "flaky", "-n", p.Namespace}, args...)...)
	}
	if got := logs("--previous"); got != "first run\n" {
		t.Errorf("logs --previous are %q", got)
	}
	if got := logs("--tail=1"); got != "line 3\n" {
		t.Errorf("logs --tail=1 are %q", got)
	}
	p.followEnds(t)
	p.terminal(t)
	p.strangersStayOut(t)
	p.survivesRestarts(t)
}

// followEnds: a follow sees what comes later, and ends when it is told to.
func (p *peering) followEnds(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cmd := exec.CommandContext(ctx, clusters.KubectlPath(), "--kubeconfig", consumer.Kubeconfig, "logs", "-f", "flaky", "-n", p.Namespace)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	consumer.mustKubectl(t, "exec", "flaky", "-n", p.Namespace, "--", "sh", "-c", "echo later >/proc/1/fd/1")
	seen := make(chan string, 1)
	go func() {
		var all strings.Builder
		buf := make([]byte, 4096)
		for !strings.Contains(all.String(), "later\n") {
			n, err := out.Read(buf)
			all.Write(buf[:n])
			if err != nil {
				break
			}
		}
		seen <- all.String()
	}()
	eventually(t, "the line that came later", func(context.Context) error {
		select {
		case got := <-seen:
			if !strings.Contains(got, "later\n") {
				t.Fatalf("the follow ended with %q", got)
			}
			return nil
		default:
			return fmt.Errorf("not yet")
		}
	})
	cancel()
	_ = cmd.Wait() // it was killed: its error says so
}

// terminal: exec -it has a terminal of the caller's size, and the exit code comes back.
func (p *peering) terminal(t *testing.T) {
	t.Helper()
	remote := "until [ \"$(stty size 2>/dev/null)\" = \"33 111\" ]; do sleep 0.1; done; tty; exit 3"
	line := fmt.Sprintf("stty rows 33 cols 111; %s --kubeconfig %s exec -it -n %s flaky -- sh -c '%s'", clusters.KubectlPath(), consumer.Kubeconfig, p.Namespace, remote)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, err := exec.CommandContext(ctx, "timeout", "60", "script", "-qec", line, "/dev/null").CombinedOutput()
	if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 3 {
		t.Errorf("exec -it ended with %v:\n%s", err, out)
	}
	if !strings.Contains(string(out), "/dev/pts/") {
		t.Errorf("there is no terminal:\n%s", out)
	}
}

// strangersStayOut: the API server's proxy for pods shows no certificate, as any pod that knocks.
func (p *peering) strangersStayOut(t *testing.T) {
	t.Helper()
	pod := consumer.mustKubectl(t, "get", "pods", "-n", p.ConsumerTenant, "-l", "liqo.io/virtual-node="+p.Slice, "-o", "jsonpath={.items[0].metadata.name}")
	out, err := consumer.Kubectl("", "get", "--raw", fmt.Sprintf("/api/v1/namespaces/%s/pods/https:%s:10250/proxy/pods", p.ConsumerTenant, pod))
	if err == nil || !strings.Contains(err.Error(), "provide credentials") {
		t.Errorf("without a certificate the port answers %q, %v", out, err)
	}
}

// survivesRestarts: every process of ours goes and comes back, and the pod does not notice.
func (p *peering) survivesRestarts(t *testing.T) {
	t.Helper()
	before := p.twinUID(t)
	for _, c := range []*cluster{consumer, provider} {
		c.mustKubectl(t, "rollout", "restart", "deployment", "-n", "liqo")
	}
	consumer.mustKubectl(t, "delete", "pods", "-n", p.ConsumerTenant, "--all", "--wait=false", "--grace-period=1")
	for _, c := range []*cluster{consumer, provider} {
		c.mustKubectl(t, "rollout", "status", "deployment/liqo-controller-manager", "-n", "liqo", "--timeout=2m")
		c.mustKubectl(t, "rollout", "status", "deployment/liqo-crd-replicator", "-n", "liqo", "--timeout=2m")
	}
	consumer.mustKubectl(t, "create", "configmap", "after", "-n", p.Namespace, "--from-literal=restarted=yes")
	eventually(t, "reflection to go on", func(context.Context) error {
		_, err := provider.Kubectl("", "get", "configmap", "after", "-n", p.Twin())
		return err
	})
	eventually(t, "logs to go on", func(context.Context) error {
		_, err := consumer.Kubectl("", "logs", "flaky", "-n", p.Namespace)
		return err
	})
	if after := p.twinUID(t); after != before {
		t.Errorf("the pod was made anew: %s is now %s", before, after)
	}
}

func (p *peering) twinUID(t *testing.T) types.UID {
	t.Helper()
	var twin corev1.Pod
	if err := provider.Client.Get(t.Context(), client.ObjectKey{Namespace: p.Twin(), Name: "flaky"}, &twin); err != nil {
		t.Fatal(err)
	}
	return twin.UID
}
