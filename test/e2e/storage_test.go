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
)

//go:embed testdata/database.yaml
var databaseYAML string

// TestStorage runs a StatefulSet with a replica in each cluster. The replicas keep their data and their cluster when all processes of Liqo
// and the pods are restarted; a replica whose cluster takes no pods waits for it. In the end nothing is left of the volumes.
func TestStorage(t *testing.T) {
	p := newPeering(t, "storage")
	t.Cleanup(func() { p.end(t) })
	p.begin(t)
	p.offloaded(t, p.Namespace)
	if _, err := consumer.Kubectl(databaseYAML, "apply", "-n", p.Namespace, "-f", "-"); err != nil {
		t.Fatal(err)
	}
	nodes := p.databaseNodes(t)
	for pod, node := range nodes {
		p.claimIsBound(t, "data-"+pod, node == p.Slice)
		consumer.mustKubectl(t, "exec", pod, "-n", p.Namespace, "--", "sh", "-c", "echo kept >/data/mark")
	}
	eventually(t, "the pod with an ephemeral volume", func(context.Context) error {
		return p.prints("written", "scratch", "/scratch/file")
	})

	for c, namespace := range map[*cluster]string{consumer: p.ConsumerTenant, provider: ""} {
		c.mustKubectl(t, "delete", "pod", "-n", "liqo", "-l", "app.kubernetes.io/name=controller-manager")
		if namespace != "" {
			c.mustKubectl(t, "delete", "pod", "-n", namespace, "-l", "offloading.liqo.io/component=virtual-kubelet")
		}
	}
	p.node(t)
	consumer.mustKubectl(t, "cordon", p.Slice)
	consumer.mustKubectl(t, "delete", "pod", "-n", p.Namespace, "-l", "app=db")
	eventually(t, "the replica of the cordoned node to wait for it", func(ctx context.Context) error {
		pods, err := p.podsOf(ctx, "db")
		for _, pod := range pods {
			if nodes[pod.Name] == p.Slice && reasonOf(&pod, corev1.PodScheduled) == corev1.PodReasonUnschedulable {
				return nil
			}
		}
		return fmt.Errorf("%d pods, none of which waits: %w", len(pods), err)
	})
	consumer.mustKubectl(t, "uncordon", p.Slice)
	for pod, node := range p.databaseNodes(t) {
		if node != nodes[pod] {
			t.Errorf("%s moved from %s to %s", pod, nodes[pod], node)
		}
		eventually(t, "the data of "+pod, func(context.Context) error { return p.prints("kept", pod, "/data/mark") })
	}

	consumer.mustKubectl(t, "delete", "statefulset/db", "pod/scratch", "-n", p.Namespace, "--timeout=5m")
	consumer.mustKubectl(t, "delete", "pvc", "--all", "-n", p.Namespace, "--timeout=5m")
	for c, namespace := range map[*cluster]string{consumer: "liqo-storage", provider: p.Twin()} {
		eventually(t, "the volumes in "+c.ID+" to be deleted", func(context.Context) error {
			out, err := c.Kubectl("", "get", "pvc", "-n", namespace, "-o", "name")
			if err != nil {
				return err
			}
			volumes, err := c.Kubectl("", "get", "pv", "-o", "name")
			if out += volumes; err == nil && out != "" {
				err = fmt.Errorf("%s are left", strings.Fields(out))
			}
			return err
		})
	}
}

// databaseNodes waits until a replica runs in each cluster and returns the node of each pod.
func (p *peering) databaseNodes(t *testing.T) map[string]string {
	t.Helper()
	nodes := map[string]string{}
	eventually(t, "a replica in each cluster", func(ctx context.Context) error {
		pods, err := p.podsOf(ctx, "db")
		if err != nil {
			return err
		}
		clear(nodes)
		remote := 0
		for _, pod := range pods {
			if !isTrue(&pod, corev1.PodReady) {
				events, _ := consumer.Kubectl("", "get", "events", "-n", p.Namespace, "--field-selector", "involvedObject.name="+pod.Name, "-o", "custom-columns=:reason,:message")
				return fmt.Errorf("pod %s on node %q is %s:\n%s", pod.Name, pod.Spec.NodeName, pod.Status.Phase, events)
			}
			nodes[pod.Name] = pod.Spec.NodeName
			if pod.Spec.NodeName == p.Slice {
				remote++
			}
		}
		if len(pods) != 2 || remote != 1 {
			return fmt.Errorf("nodes are %v", nodes)
		}
		return nil
	})
	return nodes
}

// claimIsBound expects the claim to be bound to a volume, and the claim behind it in the provider or in the storage namespace.
func (p *peering) claimIsBound(t *testing.T, name string, remote bool) {
	t.Helper()
	eventually(t, "claim "+name, func(ctx context.Context) error {
		var claim, behind corev1.PersistentVolumeClaim
		if err := consumer.Client.Get(ctx, client.ObjectKey{Namespace: p.Namespace, Name: name}, &claim); err != nil {
			return err
		}
		c, key := consumer, client.ObjectKey{Namespace: "liqo-storage", Name: string(claim.UID)}
		if remote {
			c, key = provider, client.ObjectKey{Namespace: p.Twin(), Name: name}
		}
		if err := c.Client.Get(ctx, key, &behind); err != nil {
			return err
		}
		if claim.Status.Phase != corev1.ClaimBound || behind.Status.Phase != corev1.ClaimBound {
			return fmt.Errorf("the claim is %s, and %s behind it", claim.Status.Phase, behind.Status.Phase)
		}
		if got, want := claim.Status.Capacity.Storage(), behind.Status.Capacity.Storage(); got.Cmp(*want) != 0 {
			return fmt.Errorf("its capacity is %s, and %s behind it", got, want)
		}
		return nil
	})
}

// prints expects the content of a file in a pod.
func (p *peering) prints(want, pod, file string) error {
	got, err := consumer.Kubectl("", "exec", pod, "-n", p.Namespace, "--", "cat", file)
	if err == nil && strings.TrimSpace(got) != want {
		err = fmt.Errorf("%s of %s is %q, want %q", file, pod, got, want)
	}
	return err
}
