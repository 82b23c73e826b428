// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/test/story"
)

// refusals: whatever a provider does not run says so on the pod of its owner, in the status and as an event.
func (p *peering) refusals(t *testing.T) {
	for _, r := range story.Refusals(p.Slice) {
		if _, err := consumer.Kubectl(r.Manifest(), "apply", "-n", p.remote(), "-f", "-"); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the refusal "+r.Name+" to be told", func(ctx context.Context) error {
			var pod corev1.Pod
			var events corev1.EventList
			return errors.Join(
				consumer.Client.Get(ctx, client.ObjectKey{Namespace: p.remote(), Name: r.Pod()}, &pod),
				consumer.Client.List(ctx, &events, client.InNamespace(p.remote())),
				r.Shown(&pod, events.Items))
		})
	}
	consumer.mustKubectl(t, "delete", "pods", "--all", "-n", p.remote(), "--timeout=2m")
}

// jobRunsOnce: processes on both sides are killed while the Job goes on, each when some more of it is done.
func (p *peering) jobRunsOnce(t *testing.T) {
	admissions.excuse(true)
	defer admissions.excuse(false)
	job := story.Job{Consumer: consumer.Cluster, Provider: provider.Cluster, Namespace: p.remote(), Twin: p.remote() + "-" + consumer.ID, Pods: 30, Parallel: 10}
	job.RunsEachIndexOnce(t, func(t *testing.T) {
		for i, kill := range []struct {
			who       string
			cluster   *cluster
			namespace string
			labels    client.MatchingLabels
			lease     string // of the one that leads, whom its like are to succeed; "" is any
		}{
			{"controller-manager of the provider", provider, "liqo", client.MatchingLabels{"app.kubernetes.io/name": "controller-manager"}, "liqo-controller-manager"},
			{"virtual kubelet", consumer, p.ConsumerTenant, client.MatchingLabels{"liqo.io/virtual-node": p.Slice}, ""},
			{"replicator", consumer, "liqo", client.MatchingLabels{"app.kubernetes.io/name": "crd-replicator"}, ""},
			{"controller-manager of the consumer", consumer, "liqo", client.MatchingLabels{"app.kubernetes.io/name": "controller-manager"}, "liqo-controller-manager"},
		} {
			job.Completes(t, 2+4*i)
			eventually(t, "the end of the "+kill.who, func(ctx context.Context) error {
				leader, err := kill.cluster.leader(ctx, kill.lease)
				if err != nil {
					return err
				}
				return story.KillPod(ctx, kill.cluster.Cluster, kill.namespace, kill.labels, func(pod string) bool { return leader == "" || pod == leader })
			})
			t.Logf("killed the %s", kill.who)
		}
	})
}

// leader is the name of the pod that holds a lease.
func (c *cluster) leader(ctx context.Context, lease string) (string, error) {
	if lease == "" {
		return "", nil
	}
	var l coordinationv1.Lease
	if err := c.Client.Get(ctx, client.ObjectKey{Namespace: "liqo", Name: lease}, &l); err != nil {
		return "", err
	}
	if l.Spec.HolderIdentity == nil {
		return "", errors.New("nobody leads")
	}
	pod, _, _ := strings.Cut(*l.Spec.HolderIdentity, "_")
	return pod, nil
}
