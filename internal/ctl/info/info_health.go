// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package info

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/diagnose"
	"liqo.io/liqo/internal/names"
)

const installation = "installation"

// healthParts returns the selectors of the pods of Liqo: the pods of the installation, the gateways and the virtual kubelets.
func (f *Collector) healthParts() []struct {
	what string
	opts []client.ListOption
} {
	return []struct {
		what string
		opts []client.ListOption
	}{
		{installation, []client.ListOption{client.InNamespace(f.Namespace)}},
		{"gateways", []client.ListOption{client.MatchingLabels{names.NetworkingComponent: names.ComponentGateway}}},
		{"virtual kubelets", []client.ListOption{client.MatchingLabels{names.OffloadingComponent: names.ComponentVirtualKubelet}}},
	}
}

// CollectHealth checks the pods of Liqo in all namespaces, and workloads with missing pods. Unreadable objects are not judged.
func (f *Collector) CollectHealth(ctx context.Context) (healthInfo, []error) {
	info := healthInfo{UnhealthyPods: map[string]unhealthyPod{}, MissingPods: map[string]missingPods{}}
	var problems []error
	seen := 0
	for _, part := range f.healthParts() {
		var pods corev1.PodList
		var deployments appsv1.DeploymentList
		var daemons appsv1.DaemonSetList
		var err error
		for _, list := range []client.ObjectList{&pods, &deployments, &daemons} {
			if err = f.List(ctx, list, part.opts...); err != nil {
				problems = append(problems, fmt.Errorf("looking at the health of the %s: %w", part.what, err))
				break
			}
		}
		if part.what == installation && err == nil {
			if info.MissingPods, err = f.missingWorkloads(ctx, deployments.Items, daemons.Items); err != nil {
				problems = append(problems, err)
			}
		}
		for i := range pods.Items {
			pod := &pods.Items[i]
			if isCounted(pod) {
				seen++
			}
			if isCounted(pod) && !cluster.PodReady(pod) {
				info.UnhealthyPods[f.displayName(pod)] = describePod(pod)
			}
		}
		for i := range deployments.Items {
			if m, missing := missingReplicas(&deployments.Items[i]); missing {
				info.MissingPods[f.displayName(&deployments.Items[i])] = m
			}
		}
		for i := range daemons.Items {
			d := &daemons.Items[i]
			if current, want := d.Status.CurrentNumberScheduled, d.Status.DesiredNumberScheduled; current < want {
				info.MissingPods[f.displayName(d)] = missingPods{Kind: "DaemonSet", Pods: current, Wanted: want}
			}
		}
	}
	info.Healthy = seen > 0 && len(info.UnhealthyPods)+len(info.MissingPods) == 0
	return info, problems
}

// chartWorkload is a workload of the chart.
type chartWorkload struct {
	kind string
	// component is the label app.kubernetes.io/name, and the end of the name.
	component string
	// beside is an object that the chart installs together with the workload. If both are missing, a value switched the workload off; if only the
	// workload is missing, the user deleted it. Nil for a workload that is always installed.
	beside client.Object
}

// chartWorkloads returns all possible workloads of an installation.
func (f *Collector) chartWorkloads() []chartWorkload {
	in := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: f.Namespace, Name: name} }
	return []chartWorkload{
		{"Deployment", "controller-manager", nil},
		{"Deployment", "crd-replicator", nil},
		{"DaemonSet", "fabric", &corev1.ServiceAccount{ObjectMeta: in(names.Fabric)}},
		{"Deployment", "metric-agent", &corev1.Service{ObjectMeta: in(names.MetricAgent)}},
		{"Deployment", "proxy", &corev1.Service{ObjectMeta: in(names.ProxyService)}},
	}
}

// missingWorkloads returns the workloads missing in the installation, by their expected names.
func (f *Collector) missingWorkloads(ctx context.Context, deployments []appsv1.Deployment, daemons []appsv1.DaemonSet) (map[string]missingPods, error) {
	prefix, exists := "liqo", map[string]bool{}
	note := func(kind string, obj client.Object) {
		component := obj.GetLabels()[names.AppName]
		if obj.GetLabels()[names.AppPartOf] != "liqo" {
			return // not from the chart
		}
		exists[kind+component] = true
		if begin, ok := strings.CutSuffix(obj.GetName(), "-"+component); ok {
			prefix = begin // the prefix from a chart value
		}
	}
	for i := range deployments {
		note("Deployment", &deployments[i])
	}
	for i := range daemons {
		note("DaemonSet", &daemons[i])
	}
	all := map[string]missingPods{}
	for _, w := range f.chartWorkloads() {
		if exists[w.kind+w.component] {
			continue
		}
		if w.beside != nil {
			if err := f.Get(ctx, client.ObjectKeyFromObject(w.beside), w.beside); apierrors.IsNotFound(err) {
				continue
			} else if err != nil {
				return all, fmt.Errorf("looking for the %s of the %s: %w", w.kind, w.component, err)
			}
		}
		all[prefix+"-"+w.component] = missingPods{Kind: w.kind, Wanted: 1, Reason: "the " + w.kind + " is missing: run liqoctl install to create it"}
	}
	return all, nil
}

// displayName returns the name of an object, with the namespace unless the namespace is the Liqo namespace.
func (f *Collector) displayName(obj client.Object) string {
	if obj.GetNamespace() == f.Namespace {
		return obj.GetName()
	}
	return client.ObjectKeyFromObject(obj).String()
}

// isCounted reports whether a pod should be ready. A deleted or finished pod has a replacement, or counts as missing; a Job retries;
// pods of consumers are not part of Liqo, even if their labels say so.
func isCounted(pod *corev1.Pod) bool {
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

// missingReplicas returns the number of missing pods of a Deployment. After a change of the Deployment, only observed replicas count.
func missingReplicas(d *appsv1.Deployment) (missingPods, bool) {
	m := missingPods{Kind: "Deployment", Pods: d.Status.Replicas, Wanted: 1}
	if d.Spec.Replicas != nil {
		m.Wanted = *d.Spec.Replicas
	}
	if m.Wanted == 0 {
		m.Reason = "scaled to 0"
		return m, d.Labels[names.AppPartOf] == "liqo" // otherwise not part of Liqo
	}
	for _, c := range d.Status.Conditions {
		if c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue {
			m.Reason = cmp.Or(c.Message, c.Reason)
		}
	}
	return m, m.Pods < m.Wanted
}

// FindWorkloads returns the findings of CollectHealth.
func (f *Collector) FindWorkloads(ctx context.Context) (all []diagnose.Finding, err error) {
	health, problems := f.CollectHealth(ctx)
	for _, name := range cluster.SortedKeys(health.UnhealthyPods) {
		p := health.UnhealthyPods[name]
		all = append(all, newFinding("Pod "+f.qualifiedName(name), p.String(), "see its events and its log", pageBegin))
	}
	for _, name := range cluster.SortedKeys(health.MissingPods) {
		m := health.MissingPods[name]
		all = append(all, newFinding(m.Kind+" "+f.qualifiedName(name), m.String(), "see its events, or run liqoctl install to create what is missing", pageBegin))
	}
	return all, errors.Join(problems...)
}

const pageBegin = "docs/troubleshooting.md#begin-here"

// qualifiedName returns a display name with its namespace.
func (f *Collector) qualifiedName(name string) string {
	if strings.Contains(name, "/") {
		return name
	}
	return f.Namespace + "/" + name
}

// String returns the state of the pod for the screen.
func (p unhealthyPod) String() string {
	text := fmt.Sprintf("Status: %v, Ready: %v/%v, Restarts: %v", p.Status, p.ReadyContainers, p.TotalContainers, p.Restarts)
	if p.Reason != "" {
		text += ", " + p.Reason
	}
	return text
}

// String returns the number of pods for the screen.
func (m missingPods) String() string {
	text := fmt.Sprintf("%s, Pods: %v/%v", m.Kind, m.Pods, m.Wanted)
	if m.Reason != "" {
		text += ", " + m.Reason
	}
	return text
}
