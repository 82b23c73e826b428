// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package info

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/internal/ctl/ctltest"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

func TestHealthCountedPods(t *testing.T) {
	of := func(owner string) metav1.ObjectMeta {
		return metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{Kind: owner, Controller: new(true)}}}
	}
	leaving := of("ReplicaSet")
	leaving.DeletionTimestamp = new(metav1.Now())
	failed := corev1.PodStatus{Phase: corev1.PodFailed}
	for rule, tc := range map[string]struct {
		pod  corev1.Pod
		want bool
	}{
		"one that runs":                    {corev1.Pod{ObjectMeta: of("ReplicaSet"), Status: corev1.PodStatus{Phase: corev1.PodRunning}}, true},
		"one that starts":                  {corev1.Pod{ObjectMeta: of("DaemonSet"), Status: corev1.PodStatus{Phase: corev1.PodPending}}, true},
		"one that completed":               {corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodSucceeded}}, false},
		"a failed try of a job":            {corev1.Pod{ObjectMeta: of("Job"), Status: failed}, false},
		"one that was evicted":             {corev1.Pod{ObjectMeta: of("ReplicaSet"), Status: failed}, false},
		"one that failed and nobody makes": {corev1.Pod{Status: failed}, true},
		"one that is being deleted":        {corev1.Pod{ObjectMeta: leaving, Status: corev1.PodStatus{Phase: corev1.PodRunning}}, false},
		"one of a consumer":                {corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{names.ManagedBy: "shadowpod"}}}, false},
		"one that runs elsewhere":          {corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{names.ShadowPod: "true"}}}, false},
	} {
		if got := isCounted(&tc.pod); got != tc.want {
			t.Errorf("%s: %t", rule, got)
		}
	}
}

func TestHealthMissingReplicas(t *testing.T) {
	ours := map[string]string{names.AppPartOf: "liqo"}
	deployment := func(want, have int32, labels map[string]string) appsv1.Deployment {
		return appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: appsv1.DeploymentSpec{Replicas: &want}, Status: appsv1.DeploymentStatus{Replicas: have}}
	}
	refused := deployment(1, 0, ours)
	refused.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Message: "exceeded quota"}}
	for rule, tc := range map[string]struct {
		of      appsv1.Deployment
		want    missingPods
		missing bool
	}{
		"all are there":                 {deployment(2, 2, ours), missingPods{Kind: "Deployment", Pods: 2, Wanted: 2}, false},
		"more are there for a while":    {deployment(1, 2, ours), missingPods{Kind: "Deployment", Pods: 2, Wanted: 1}, false},
		"one is missing":                {deployment(2, 1, ours), missingPods{Kind: "Deployment", Pods: 1, Wanted: 2}, true},
		"nobody may make it":            {refused, missingPods{Kind: "Deployment", Wanted: 1, Reason: "exceeded quota"}, true},
		"somebody switched it off":      {deployment(0, 0, ours), missingPods{Kind: "Deployment", Reason: "scaled to 0"}, true},
		"somebody switched his own off": {deployment(0, 0, nil), missingPods{Kind: "Deployment", Reason: "scaled to 0"}, false},
	} {
		got, missing := missingReplicas(&tc.of)
		if diff := cmp.Diff(tc.want, got); diff != "" || missing != tc.missing {
			t.Errorf("%s: %t\n%s", rule, missing, diff)
		}
	}
}

func TestHealthUnreadyPod(t *testing.T) {
	two := corev1.PodSpec{Containers: make([]corev1.Container, 2)}
	waiting := func(reason string) corev1.ContainerState {
		return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}
	}
	for rule, tc := range map[string]struct {
		of   corev1.PodStatus
		want unhealthyPod
	}{
		"it crashes": {
			corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{Ready: true, RestartCount: 1}, {RestartCount: 4, State: waiting("CrashLoopBackOff")}}},
			unhealthyPod{Status: "Running", ReadyContainers: 1, TotalContainers: 2, Restarts: 5, Reason: "CrashLoopBackOff"},
		},
		"its first step cannot start": {
			corev1.PodStatus{Phase: corev1.PodPending, InitContainerStatuses: []corev1.ContainerStatus{{State: waiting("ImagePullBackOff")}}, ContainerStatuses: []corev1.ContainerStatus{{State: waiting("PodInitializing")}}},
			unhealthyPod{Status: "Pending", TotalContainers: 2, Reason: "ImagePullBackOff"},
		},
		"it has no node": {
			corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/3 nodes are available."}}},
			unhealthyPod{Status: "Pending", TotalContainers: 2, Reason: "0/3 nodes are available"},
		},
	} {
		if diff := cmp.Diff(tc.want, describePod(&corev1.Pod{Spec: two, Status: tc.of})); diff != "" {
			t.Errorf("%s:\n%s", rule, diff)
		}
	}
}

// The pods of an installation, of a gateway and of a virtual kubelet in a tenant namespace.
func TestHealthAllPods(t *testing.T) {
	c := testkit.Cluster(t)
	liqo := testkit.Namespace(t, c, "liqo", nil)
	tenant := testkit.Namespace(t, c, "tenant-health", nil)
	from := &Collector{Reader: c.Client, Namespace: liqo}
	pod := func(namespace, name string, labels map[string]string, ready corev1.ConditionStatus) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a"}}}}
		ctltest.LendWithStatus(t, c, p, func(p *corev1.Pod) {
			p.Status.Phase = corev1.PodRunning
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
		})
		return p
	}
	wants := func(when string, want healthInfo) {
		t.Helper()
		got, problems := from.CollectHealth(t.Context())
		if diff := cmp.Diff(want, got); diff != "" || len(problems) > 0 {
			t.Errorf("%s: %v\n%s", when, problems, diff)
		}
	}
	none := map[string]unhealthyPod{}
	lost := map[string]missingPods{}
	for _, component := range []string{"controller-manager", "crd-replicator"} {
		lost["liqo-"+component] = missingPods{Kind: "Deployment", Wanted: 1, Reason: "the Deployment is missing: run liqoctl install to create it"}
	}
	wants("without anything", healthInfo{UnhealthyPods: none, MissingPods: lost})
	for _, component := range []string{"controller-manager", "crd-replicator"} {
		ctltest.LendWithStatus(t, c, deploymentOf(liqo, component), func(d *appsv1.Deployment) { d.Status.Replicas = 1 })
	}
	wants("without pods", healthInfo{UnhealthyPods: none, MissingPods: map[string]missingPods{}})
	pod(liqo, "liqo-controller-manager", nil, corev1.ConditionTrue)
	gateway := pod(tenant, "gw-milan", map[string]string{names.NetworkingComponent: names.ComponentGateway}, corev1.ConditionTrue)
	pod(tenant, "somebody", nil, corev1.ConditionFalse)
	wants("with all pods ready", healthInfo{Healthy: true, UnhealthyPods: none, MissingPods: map[string]missingPods{}})

	pod(tenant, "vk-milan", map[string]string{names.OffloadingComponent: names.ComponentVirtualKubelet}, corev1.ConditionFalse)
	testkit.UpdateStatus(t, c.Client, gateway, func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse })
	labels := map[string]string{"app": "x"}
	fabric := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: liqo, Name: "liqo-fabric"}, Spec: appsv1.DaemonSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a"}}}},
	}}
	ctltest.LendWithStatus(t, c, fabric, func(d *appsv1.DaemonSet) { d.Status.CurrentNumberScheduled, d.Status.DesiredNumberScheduled = 1, 3 })
	one := unhealthyPod{Status: "Running", TotalContainers: 1}
	wants("with a gateway and a virtual kubelet that are not ready, and nodes without fabric", healthInfo{
		UnhealthyPods: map[string]unhealthyPod{tenant + "/gw-milan": one, tenant + "/vk-milan": one},
		MissingPods:   map[string]missingPods{"liqo-fabric": {Kind: "DaemonSet", Pods: 1, Wanted: 3}},
	})
}

// deploymentOf is a part of an installation.
func deploymentOf(liqo, component string) *appsv1.Deployment {
	labels := map[string]string{names.AppName: component, names.AppComponent: component, names.AppPartOf: "liqo"}
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: liqo, Name: "liqo-" + component, Labels: labels}, Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a"}}}},
	}}
}

func TestHealthForeignWorkload(t *testing.T) {
	c := testkit.Cluster(t)
	liqo := testkit.Namespace(t, c, "liqo", nil)
	own := deploymentOf(liqo, "crd-replicator")
	own.Name = "copies"
	delete(own.Labels, names.AppPartOf)
	ctltest.Lend(t, c, own)
	ctltest.Lend(t, c, deploymentOf(liqo, "controller-manager"))
	info, problems := (&Collector{Reader: c.Client, Namespace: liqo}).CollectHealth(t.Context())
	want := missingPods{Kind: "Deployment", Wanted: 1, Reason: "the Deployment is missing: run liqoctl install to create it"}
	if diff := cmp.Diff(want, info.MissingPods["liqo-crd-replicator"]); diff != "" || len(problems) > 0 {
		t.Errorf("%v\n%s", problems, diff)
	}
}
