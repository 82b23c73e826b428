// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

//go:embed testdata/load.yaml
var loadYAML string

// TestMetrics follows the autoscaler of a Deployment in both clusters from 1 pod to 10 and back to 1, by metrics-server alone, and compares
// what "kubectl top" shows with the figures of the provider.
func TestMetrics(t *testing.T) {
	p := newPeering(t, "metrics")
	t.Cleanup(func() { p.end(t) })
	p.begin(t)
	p.offloaded(t, p.Namespace)
	if _, err := consumer.Kubectl(loadYAML, "apply", "-n", p.Namespace, "-f", "-"); err != nil {
		t.Fatal(err)
	}
	var remote []corev1.Pod
	eventually(t, "10 pods in both clusters", func(ctx context.Context) (err error) {
		remote, err = p.loadPods(ctx, 10)
		if err == nil && (len(remote) == 0 || len(remote) == 10) {
			err = fmt.Errorf("%d of 10 pods are remote", len(remote))
		}
		return err
	})
	eventually(t, "the same figures in both clusters", func(context.Context) error { return p.sameFigures(remote) })
	p.foreignFiguresStayOut(t)
	eventually(t, "1 pod after the load has gone", func(ctx context.Context) error {
		pods, err := p.podsOf(ctx, "load")
		for _, pod := range pods {
			if _, execErr := consumer.Kubectl("", "exec", pod.Name, "-n", p.Namespace, "--", "touch", "/tmp/calm"); execErr != nil {
				err = errors.Join(err, execErr)
			}
		}
		if err != nil {
			return err
		}
		_, err = p.loadPods(ctx, 1)
		return err
	})
}

// podsOf returns the pods of an application that are not being deleted.
func (p *peering) podsOf(ctx context.Context, app string) ([]corev1.Pod, error) {
	var all corev1.PodList
	if err := consumer.Client.List(ctx, &all, client.InNamespace(p.Namespace), client.MatchingLabels{"app": app}); err != nil {
		return nil, err
	}
	var pods []corev1.Pod
	for _, pod := range all.Items {
		if pod.DeletionTimestamp == nil {
			pods = append(pods, pod)
		}
	}
	return pods, nil
}

// loadPods returns the remote pods if the wanted number of pods runs, in both clusters together.
func (p *peering) loadPods(ctx context.Context, want int) (remote []corev1.Pod, err error) {
	pods, err := p.podsOf(ctx, "load")
	if err != nil {
		return nil, err
	}
	ready := 0
	for _, pod := range pods {
		if isTrue(&pod, corev1.PodReady) {
			ready++
		}
		if pod.Spec.NodeName == p.Slice {
			remote = append(remote, pod)
		}
	}
	if ready != want || len(pods) != want {
		scaler, _ := consumer.Kubectl("", "get", "hpa", "load", "-n", p.Namespace, "-o", "jsonpath={.status.currentMetrics} {.status.conditions}")
		return nil, fmt.Errorf("%d of %d pods are ready, want %d; autoscaler: %s", ready, len(pods), want, scaler)
	}
	return remote, nil
}

// figures are the CPU and memory of a container or node as "kubectl top" prints them.
type figures struct{ cpu, memory float64 }

func (f figures) String() string { return fmt.Sprintf("%.0fm %.0fMi", 1000*f.cpu, f.memory/(1<<20)) }

// near reports whether figures are nearly equal: each cluster measures CPU over seconds of its own.
func (f figures) near(other figures) bool {
	return math.Abs(f.cpu-other.cpu) <= max(0.25*other.cpu, 0.01) && math.Abs(f.memory-other.memory) <= max(0.05*other.memory, 1<<20)
}

// top returns the lines of "kubectl top" by their name, which is the last word before the two figures.
func (c *cluster) top(args ...string) (map[string]figures, error) {
	out, err := c.Kubectl("", append(append([]string{"top"}, args...), "--no-headers")...)
	if err != nil {
		return nil, err
	}
	lines := map[string]figures{}
	for line := range strings.Lines(out) {
		words := strings.Fields(line)
		if len(words) < 3 {
			continue
		}
		// A node has its percentages after each figure.
		cpu, memory := words[len(words)-2], words[len(words)-1]
		if strings.HasSuffix(memory, "%") {
			cpu, memory = words[len(words)-4], words[len(words)-2]
		}
		c, cpuErr := resource.ParseQuantity(cpu)
		m, memoryErr := resource.ParseQuantity(memory)
		if err := errors.Join(cpuErr, memoryErr); err != nil {
			return nil, fmt.Errorf("reading %q: %w", line, err)
		}
		lines[words[0]] = figures{c.AsApproximateFloat64(), m.AsApproximateFloat64()}
	}
	return lines, nil
}

// sameFigures compares the figures of remote pods in both clusters, and the figures of the virtual node with the sum of its pods.
func (p *peering) sameFigures(remote []corev1.Pod) error {
	local, err := consumer.top("pod", "--containers", "-n", p.Namespace)
	if err != nil {
		return err
	}
	there, err := provider.top("pod", "--containers", "-n", p.Twin())
	if err != nil {
		return err
	}
	nodes, err := consumer.top("node", p.Slice)
	if err != nil {
		return err
	}
	var sum figures
	for _, pod := range remote {
		got, want := local[pod.Name], there[pod.Name]
		if want == (figures{}) || !got.near(want) {
			return fmt.Errorf("pod %s uses %s in the consumer and %s in the provider", pod.Name, got, want)
		}
		sum = figures{sum.cpu + got.cpu, sum.memory + got.memory}
	}
	if node := nodes[p.Slice]; math.Abs(node.cpu-sum.cpu) > 0.25*sum.cpu+0.001*float64(len(remote)) {
		return fmt.Errorf("node %s uses %s, and its pods %s", p.Slice, node, sum)
	}
	return nil
}

// foreignFiguresStayOut asks for the figures of another cluster, and for those of the provider's nodes, with the credentials of the slice.
func (p *peering) foreignFiguresStayOut(t *testing.T) {
	t.Helper()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	secret := consumer.mustKubectl(t, "get", "secret", "-n", p.ConsumerTenant, "-l", "liqo.io/identity-type=ResourceSlice", "-o", "go-template={{range .items}}{{.data.kubeconfig | base64decode}}{{end}}")
	if err := os.WriteFile(kubeconfig, []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	const scrape = "/apis/metrics.liqo.io/v1beta1/scrape/"
	for path, want := range map[string]string{
		scrape + consumer.ID + "/metrics/resource":               p.Namespace,
		scrape + provider.ID + "/metrics/resource":               "Forbidden",
		scrape + consumer.ID[:4] + "/metrics/resource":           "Forbidden",
		"/apis/metrics.k8s.io/v1beta1/pods":                      "Forbidden",
		"/api/v1/nodes/" + "b1" + "/proxy/metrics/resource":      "Forbidden",
		scrape + consumer.ID + "/../" + provider.ID + "/metrics": "Forbidden",
	} {
		out, err := provider.Kubectl("", "--kubeconfig", kubeconfig, "get", "--raw", path)
		if err != nil {
			out = err.Error()
		}
		if !strings.Contains(out, want) {
			t.Errorf("%s answers %.300q, want %q", path, out, want)
		}
	}
}
