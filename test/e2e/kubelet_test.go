// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"crypto/tls"
	_ "embed"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/test/clusters"
)

//go:embed testdata/flaky.yaml
var flakyYAML string

const remoteYAML = `
{apiVersion: v1, kind: Namespace, metadata: {name: %[1]s}}
---
{apiVersion: offloading.liqo.io/v1beta1, kind: NamespaceOffloading, metadata: {name: offloading, namespace: %[1]s}, spec: {podOffloadingStrategy: Remote}}
`

func TestVirtualNode(t *testing.T) {
	p := newPeering(t, "kubelet")
	t.Cleanup(func() { p.end(t) })
	t.Cleanup(func() {
		consumer.mustKubectl(t, "delete", "namespace", p.remote(), "--ignore-not-found", "--timeout=2m")
	})
	p.begin(t)
	consumer.apply(t, fmt.Sprintf(remoteYAML, p.remote()))
	p.offloaded(t, p.Namespace)
	p.offloaded(t, p.remote())
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
	t.Run("a terminal has its size", p.terminal)
	t.Run("strangers stay out", p.strangersStayOut)
	t.Run("streams", p.streams)
	t.Run("a log is followed", p.follows)
	t.Run("refusals are told", p.refusals)
	t.Run("a Job runs once whatever is killed", p.jobRunsOnce)
	t.Run("restarts are not noticed", p.survivesRestarts)
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

// strangersStayOut: the port asks who knocks, as a kubelet's does, and whether they may. The API server's proxy for pods
// shows no certificate; a token or a certificate of somebody without rights is not enough, and neither is one that
// another authority signed.
func (p *peering) strangersStayOut(t *testing.T) {
	t.Helper()
	pod := consumer.mustKubectl(t, "get", "pods", "-n", p.ConsumerTenant, "-l", "liqo.io/virtual-node="+p.Slice, "-o", "jsonpath={.items[0].metadata.name}")
	out, err := consumer.Kubectl("", "get", "--raw", fmt.Sprintf("/api/v1/namespaces/%s/pods/https:%s:10250/proxy/pods", p.ConsumerTenant, pod))
	if err == nil || !strings.Contains(err.Error(), "provide credentials") {
		t.Errorf("without a certificate the port answers %q, %v", out, err)
	}
	address := forward(t, nil, "-n", p.ConsumerTenant, "pod/"+pod, ":10250")
	certificate := func(c *cluster) tls.Certificate {
		kubeconfig, err := c.Credentials(t.Context(), "stranger")
		if err != nil {
			t.Fatal(err)
		}
		cfg, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
		if err != nil {
			t.Fatal(err)
		}
		out, err := tls.X509KeyPair(cfg.CertData, cfg.KeyData)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	admin, err := tls.X509KeyPair(consumer.Config.CertData, consumer.Config.KeyData)
	if err != nil {
		t.Fatal(err)
	}
	token := strings.TrimSpace(consumer.mustKubectl(t, "create", "token", "default", "-n", p.Namespace))
	own := strings.TrimSpace(consumer.mustKubectl(t, "create", "token", p.Slice, "-n", p.ConsumerTenant))
	for _, knock := range []struct {
		who         string
		token       string
		certificate []tls.Certificate
		want        int
	}{
		{"nobody", "", nil, http.StatusUnauthorized},
		{"a made-up token", "made-up", nil, http.StatusUnauthorized},
		{"a user of another cluster", "", []tls.Certificate{certificate(provider)}, http.StatusUnauthorized},
		{"a pod's own account", token, nil, http.StatusForbidden},
		{"the virtual kubelet's own account", own, nil, http.StatusForbidden},
		{"a user without rights", "", []tls.Certificate{certificate(consumer)}, http.StatusForbidden},
		{"an administrator", "", []tls.Certificate{admin}, http.StatusOK},
	} {
		for _, path := range []string{"/pods", "/containerLogs/" + p.Namespace + "/flaky/flaky"} {
			if got := knocks(t, "https://"+address+path, knock.token, knock.certificate); got != knock.want {
				t.Errorf("%s gets %d from %s, want %d", knock.who, got, path, knock.want)
			}
		}
	}
}

func knocks(t *testing.T, url, token string, certificates []tls.Certificate) int {
	t.Helper()
	// The name of the server is not the point here: it is reached through a port of this machine.
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: certificates}}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		t.Errorf("asking for %s: %v", url, err)
		return 0
	}
	defer response.Body.Close()
	return response.StatusCode
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
	var remotePod corev1.Pod
	if err := provider.Client.Get(t.Context(), client.ObjectKey{Namespace: p.Twin(), Name: "flaky"}, &remotePod); err != nil {
		t.Fatal(err)
	}
	return remotePod.UID
}
