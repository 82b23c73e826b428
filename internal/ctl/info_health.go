// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/names"
)

// parts are where the pods are on which Liqo depends: those of the installation, the gateways and the virtual kubelets.
func (f *collector) parts() []struct {
	what string
	opts []client.ListOption
} {
	return []struct {
		what string
		opts []client.ListOption
	}{
		{"installation", []client.ListOption{client.InNamespace(f.namespace)}},
		{"gateways", []client.ListOption{client.MatchingLabels{names.NetworkingComponent: names.ComponentGateway}}},
		{"virtual kubelets", []client.ListOption{client.MatchingLabels{names.OffloadingComponent: names.ComponentVirtualKubelet}}},
	}
}

// health looks at the pods of Liqo wherever they are, and at what should have more of them. What it cannot see it does not judge.
func (f *collector) health(ctx context.Context) (healthInfo, []error) {
	info := healthInfo{UnhealthyPods: map[string]unhealthyPod{}, MissingPods: map[string]missingPods{}}
	var problems []error
	seen := 0
	for _, part := range f.parts() {
		var pods corev1.PodList
		var deployments appsv1.DeploymentList
		var daemons appsv1.DaemonSetList
		for _, list := range []client.ObjectList{&pods, &deployments, &daemons} {
			if err := f.List(ctx, list, part.opts...); err != nil {
				problems = append(problems, fmt.Errorf("looking at the health of the %s: %w", part.what, err))
				break
			}
		}
		for i := range pods.Items {
			pod := &pods.Items[i]
			if counts(pod) {
				seen++
			}
			if counts(pod) && !podReady(pod) {
				info.UnhealthyPods[f.named(pod)] = describePod(pod)
			}
		}
		for i := range deployments.Items {
			if m, missing := lacking(&deployments.Items[i]); missing {
				info.MissingPods[f.named(&deployments.Items[i])] = m
			}
		}
		for i := range daemons.Items {
			d := &daemons.Items[i]
			if have, want := d.Status.CurrentNumberScheduled, d.Status.DesiredNumberScheduled; have < want {
				info.MissingPods[f.named(d)] = missingPods{Kind: "DaemonSet", Pods: have, Wanted: want}
			}
		}
	}
	info.Healthy = seen > 0 && len(info.UnhealthyPods)+len(info.MissingPods) == 0
	return info, problems
}

// named says where something is that is not in the namespace of the installation.
func (f *collector) named(obj client.Object) string {
	if obj.GetNamespace() == f.namespace {
		return obj.GetName()
	}
	return client.ObjectKeyFromObject(obj).String()
}

// counts tells whether a pod should be ready. One that is being deleted, or that ended, has one in its place, or that is missing;
// a Job tries again; and what consumers run here, or we in their place, is not ours, whatever its labels say.
func counts(pod *corev1.Pod) bool {
	owner := ""
	for _, o := range pod.OwnerReferences {
		if o.Controller != nil && *o.Controller {
			owner = o.Kind
		}
	}
	switch {
	case pod.DeletionTimestamp != nil, pod.Status.Phase == corev1.PodSucceeded, owner == "Job":
		return false
	case pod.Status.Phase == corev1.PodFailed && owner != "":
		return false
	}
	return pod.Labels[names.ManagedBy] == "" && pod.Labels[names.ShadowPod] == ""
}

func describePod(pod *corev1.Pod) unhealthyPod {
	info := unhealthyPod{Status: string(pod.Status.Phase), TotalContainers: len(pod.Spec.Containers), Reason: pod.Status.Reason}
	for _, s := range pod.Status.ContainerStatuses {
		info.Restarts += int(s.RestartCount)
		if s.Ready {
			info.ReadyContainers++
		}
	}
	for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if w := s.State.Waiting; w != nil && info.Reason == "" && w.Reason != "PodInitializing" {
			info.Reason = w.Reason
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			info.Reason = cmp.Or(info.Reason, strings.TrimSuffix(cmp.Or(c.Message, c.Reason), "."))
		}
	}
	return info
}

// lacking tells what pods a Deployment should have that are not there at all. Those of a changed one count once they were made.
func lacking(d *appsv1.Deployment) (missingPods, bool) {
	m := missingPods{Kind: "Deployment", Pods: d.Status.Replicas, Wanted: 1}
	if d.Spec.Replicas != nil {
		m.Wanted = *d.Spec.Replicas
	}
	if m.Wanted == 0 {
		m.Reason = "scaled to 0"
		return m, d.Labels[names.AppPartOf] == "liqo" // else it is somebody's own
	}
	for _, c := range d.Status.Conditions {
		if c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue {
			m.Reason = cmp.Or(c.Message, c.Reason)
		}
	}
	return m, m.Pods < m.Wanted
}
