// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	_ "embed"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
)

//go:embed testdata/web.yaml
var webYAML string

func TestGuidePeering(t *testing.T) {
	unchanged := leavesNothing(t)
	p := newPeering(t, "straight")
	t.Cleanup(func() {
		p.end(t)
		unchanged()
	})
	for _, d := range p.documents(t) {
		d.cluster.apply(t, d.manifest)
	}
	p.checkNode(t)
	p.checkForeignCluster(t)

	p.deployWeb(t)
	remote := p.remotePod(t)
	p.checkReflection(t, remote)
	p.checkLogs(t, remote)
	p.checkExec(t, remote)
	p.checkNoConsumerToken(t, remote)
}

// checkNode looks at what `kubectl get nodes` and the scheduler see.
func (p *peering) checkNode(t *testing.T) {
	t.Helper()
	node := p.node(t)
	for key, want := range map[string]string{
		"liqo.io/type": "virtual-node", "kubernetes.io/role": "agent", "liqo.io/remote-cluster-id": provider.ID,
	} {
		if got := node.Labels[key]; got != want {
			t.Errorf("label %s of the node is %q, want %q", key, got, want)
		}
	}
	if cpu, mem := node.Status.Allocatable.Cpu().String(), node.Status.Allocatable.Memory().String(); cpu != "20" || mem != "128Gi" {
		t.Errorf("the node offers %s CPUs and %s, want what was asked: 20 and 128Gi", cpu, mem)
	}
	if len(node.Spec.Taints) == 0 || node.Spec.Taints[0].Key != "virtual-node.liqo.io/not-allowed" {
		t.Errorf("taints are %v", node.Spec.Taints)
	}
	if out := consumer.mustKubectl(t, "get", "node", p.Slice); !strings.Contains(out, "agent") {
		t.Errorf("kubectl get node shows no agent role:\n%s", out)
	}
}

func (p *peering) checkForeignCluster(t *testing.T) {
	t.Helper()
	for c, want := range map[*cluster]struct {
		peer string
		role liqov1beta1.RoleType
	}{consumer: {provider.ID, "Provider"}, provider: {consumer.ID, "Consumer"}} {
		eventually(t, "ForeignCluster on "+c.ID, func(ctx context.Context) error {
			var fc liqov1beta1.ForeignCluster
			if err := c.Client.Get(ctx, client.ObjectKey{Name: want.peer}, &fc); err != nil {
				return err
			}
			if fc.Status.Role != want.role || !fc.Status.Modules.Authentication.Enabled {
				return fmt.Errorf("status is %+v", fc.Status)
			}
			if c == consumer && (!fc.Status.Modules.Offloading.Enabled || fc.Status.APIServerURL != provider.Config.Host) {
				return fmt.Errorf("status is %+v", fc.Status)
			}
			return nil
		})
	}
}

// offloaded waits until a namespace of the story reaches into the provider.
func (p *peering) offloaded(t *testing.T, namespace string) {
	t.Helper()
	eventually(t, "namespace "+namespace+" to be offloaded", func(context.Context) error {
		phase, err := consumer.Kubectl("", "get", "namespaceoffloading", "offloading", "-n", namespace, "-o", "jsonpath={.status.offloadingPhase}")
		if err == nil && phase != "Ready" {
			err = fmt.Errorf("phase is %q", phase)
		}
		return err
	})
}

func (p *peering) deployWeb(t *testing.T) {
	t.Helper()
	p.offloaded(t, p.Namespace)
	if _, err := consumer.Kubectl(webYAML, "apply", "-n", p.Namespace, "-f", "-"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "both pods of web", func(context.Context) error {
		ready, err := consumer.Kubectl("", "get", "deployment", "web", "-n", p.Namespace, "-o", "jsonpath={.status.readyReplicas}")
		if err == nil && ready != "2" {
			err = fmt.Errorf("%q are ready", ready)
		}
		return err
	})
}

// remotePod is the one pod of web that runs in the provider, as the consumer sees it.
func (p *peering) remotePod(t *testing.T) *corev1.Pod {
	t.Helper()
	var pods corev1.PodList
	if err := consumer.Client.List(t.Context(), &pods, client.InNamespace(p.Namespace)); err != nil {
		t.Fatal(err)
	}
	var remote []corev1.Pod
	for _, pod := range pods.Items {
		if pod.Spec.NodeName == p.Slice && pod.DeletionTimestamp == nil {
			remote = append(remote, pod)
		}
	}
	if len(remote) != 1 {
		dump(t)
		t.Fatalf("%d of %d pods run on the virtual node, want 1", len(remote), len(pods.Items))
	}
	var twin corev1.Pod
	if err := provider.Client.Get(t.Context(), client.ObjectKey{Namespace: p.Twin(), Name: remote[0].Name}, &twin); err != nil {
		t.Fatalf("the pod is not in the provider: %v", err)
	}
	if ip := remote[0].Status.PodIP; ip != "" || twin.Status.PodIP == "" {
		t.Errorf("the pod's IP is %q there, and %q is shown here, where no network leads to it", twin.Status.PodIP, ip)
	}
	return &remote[0]
}

func (p *peering) checkReflection(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	for kind, path := range map[string]string{"configmap": "{.data.greeting}", "secret": "{.data.password}"} {
		local := consumer.mustKubectl(t, "get", kind, "web", "-n", p.Namespace, "-o", "jsonpath="+path)
		remote := provider.mustKubectl(t, "get", kind, "web", "-n", p.Twin(), "-o", "jsonpath="+path)
		if local != remote || local == "" {
			t.Errorf("%s web is %q here and %q there", kind, local, remote)
		}
	}
	consumer.mustKubectl(t, "patch", "configmap", "web", "-n", p.Namespace, "--type=merge", "-p", `{"data":{"greeting":"changed"}}`)
	eventually(t, "the change of the ConfigMap", func(context.Context) error {
		got, err := provider.Kubectl("", "get", "configmap", "web", "-n", p.Twin(), "-o", "jsonpath={.data.greeting}")
		if err == nil && got != "changed" {
			err = fmt.Errorf("it is %q", got)
		}
		return err
	})
}

func (p *peering) checkLogs(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	if out := consumer.mustKubectl(t, "logs", pod.Name, "-n", p.Namespace); !strings.Contains(out, "started in hello") {
		t.Errorf("logs are %q", out)
	}
	if out := consumer.mustKubectl(t, "logs", pod.Name, "-n", p.Namespace, "--tail=1", "--timestamps"); !strings.HasPrefix(out, "20") {
		t.Errorf("logs with timestamps are %q", out)
	}
	// A follow ends with its container: this one is told to end by the exec below it.
	if _, err := consumer.Kubectl("", "exec", pod.Name, "-n", p.Namespace, "--", "sh", "-c", "echo followed >/proc/1/fd/1"); err != nil {
		t.Error(err)
	}
	eventually(t, "what exec wrote to appear in the logs", func(context.Context) error {
		out, err := consumer.Kubectl("", "logs", pod.Name, "-n", p.Namespace, "--tail=1")
		if err == nil && !strings.Contains(out, "followed") {
			err = fmt.Errorf("logs end in %q", out)
		}
		return err
	})
}

func (p *peering) checkExec(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	if out := consumer.mustKubectl(t, "exec", pod.Name, "-n", p.Namespace, "--", "cat", "/etc/secret/password"); out != "correct horse" {
		t.Errorf("exec printed %q", out)
	}
	out, err := consumer.Kubectl("from stdin", "exec", "-i", pod.Name, "-n", p.Namespace, "--", "cat")
	if err != nil || out != "from stdin" {
		t.Errorf("exec -i printed %q: %v", out, err)
	}
	if _, err := consumer.Kubectl("", "exec", pod.Name, "-n", p.Namespace, "--", "sh", "-c", "exit 7"); err == nil || !strings.Contains(err.Error(), "exit code 7") {
		t.Errorf("the exit code is lost: %v", err)
	}
}

// checkNoConsumerToken: without a network to the consumer a pod gets no token of it, and is told so.
func (p *peering) checkNoConsumerToken(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	if out, err := consumer.Kubectl("", "exec", pod.Name, "-n", p.Namespace, "--", "cat", "/var/run/secrets/kubernetes.io/serviceaccount/token"); err == nil {
		t.Errorf("the pod has a token of %d bytes", len(out))
	}
	if out := consumer.mustKubectl(t, "exec", pod.Name, "-n", p.Namespace, "--", "cat", "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt"); !strings.Contains(out, "BEGIN CERTIFICATE") {
		t.Errorf("the rest of the account's volume is gone: ca.crt is %q", out)
	}
	eventually(t, "an event about the token", func(context.Context) error {
		out, err := consumer.Kubectl("", "get", "events", "-n", p.Namespace, "--field-selector", "involvedObject.name="+pod.Name)
		if err == nil && !strings.Contains(strings.ToLower(out), "token") {
			err = fmt.Errorf("events are\n%s", out)
		}
		return err
	})
}
