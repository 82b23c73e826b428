// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

func TestPodsCountThatShouldBeReady(t *testing.T) {
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

func TestADeploymentLacksPodsThatAreNotThereAtAll(t *testing.T) {
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

func TestAPodThatIsNotReadySaysWhy(t *testing.T) {
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
func TestHealthIsThatOfAllPodsOfLiqo(t *testing.T) {
	c := testkit.Cluster(t)
	liqo := testkit.Namespace(t, c, "liqo", nil)
	tenant := testkit.Namespace(t, c, "tenant-health", nil)
	from := &collector{Reader: c.Client, namespace: liqo}
	pod := func(namespace, name string, labels map[string]string, ready corev1.ConditionStatus) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a"}}}}
		lendWithStatus(t, c, p, func(p *corev1.Pod) {
			p.Status.Phase = corev1.PodRunning
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
		})
		return p
	}
	wants := func(when string, want healthInfo) {
		t.Helper()
		got, problems := from.collectHealth(t.Context())
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
		lendWithStatus(t, c, deploymentOf(liqo, component), func(d *appsv1.Deployment) { d.Status.Replicas = 1 })
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
	lendWithStatus(t, c, fabric, func(d *appsv1.DaemonSet) { d.Status.CurrentNumberScheduled, d.Status.DesiredNumberScheduled = 1, 3 })
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

// What the chart installs is made, and each workload deleted, as somebody might by mistake. Nothing makes pods here.
func TestHealthMissesEachWorkloadOfTheChart(t *testing.T) {
	c := testkit.Cluster(t)
	for rule, tc := range map[string]struct {
		set  []string
		want []string
	}{
		"by default":          {nil, []string{"liqo-controller-manager", "liqo-crd-replicator", "liqo-fabric", "liqo-proxy"}},
		"with another name":   {[]string{"nameOverride=mesh"}, []string{"mesh-controller-manager", "mesh-crd-replicator", "mesh-fabric", "mesh-proxy"}},
		"without the network": {[]string{"networking.enabled=false"}, []string{"liqo-controller-manager", "liqo-crd-replicator"}},
		"without the proxy":   {[]string{"proxy.enabled=false"}, []string{"liqo-controller-manager", "liqo-crd-replicator", "liqo-fabric"}},
		"with all that there may be": {
			[]string{"metrics.enabled=true", "metricAgent.enabled=true", "telemetry.enabled=true", "storage.enabled=true", "controllerManager.replicas=2"},
			[]string{"liqo-controller-manager", "liqo-crd-replicator", "liqo-fabric", "liqo-proxy"},
		},
	} {
		t.Run(rule, func(t *testing.T) {
			liqo := testkit.Namespace(t, c, "liqo", nil)
			args := installArgs("-n", liqo, "-o", "yaml")
			for _, set := range tc.set {
				args = append(args, "--set", set)
			}
			installed := liqoctl(t, c.Config, args...)
			installed.succeeds(t)
			var workloads []client.Object
			for _, obj := range documents(t, installed.stdout) {
				switch {
				case slices.Contains([]string{"Deployment", "DaemonSet", "StatefulSet", "CronJob"}, obj.GetKind()):
					workloads = append(workloads, obj)
				case !slices.Contains([]string{"ServiceAccount", "Service"}, obj.GetKind()):
					continue
				}
				lend(t, c, obj)
			}
			from := &collector{Reader: c.Client, namespace: liqo}
			missing := func() (named, gone []string) {
				info, problems := from.collectHealth(t.Context())
				if len(problems) > 0 || info.Healthy {
					t.Errorf("healthy is %t; %v", info.Healthy, problems)
				}
				for name, m := range info.MissingPods {
					if want := "the " + m.Kind + " is missing: run liqoctl install to create it"; m.Reason == want {
						gone = append(gone, name)
					}
				}
				slices.Sort(gone)
				return slices.Sorted(maps.Keys(info.MissingPods)), gone
			}
			if _, gone := missing(); len(gone) > 0 {
				t.Errorf("%v are told as missing, and are there", gone)
			}
			for _, obj := range workloads {
				if err := c.Client.Delete(t.Context(), obj); err != nil {
					t.Fatal(err)
				}
				if named, gone := missing(); !slices.Contains(named, obj.GetName()) || !slices.Equal(gone, []string{obj.GetName()}) {
					t.Errorf("without %s %v are told as missing", obj.GetName(), gone)
				}
				obj.SetResourceVersion("")
				testkit.Create(t, c.Client, obj)
			}
			var got []string
			for _, obj := range workloads {
				got = append(got, obj.GetName())
			}
			slices.Sort(got)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("the chart has other workloads (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAWorkloadOfSomebodyElseIsNotTakenForOurs(t *testing.T) {
	c := testkit.Cluster(t)
	liqo := testkit.Namespace(t, c, "liqo", nil)
	own := deploymentOf(liqo, "crd-replicator")
	own.Name = "copies"
	delete(own.Labels, names.AppPartOf)
	lend(t, c, own)
	lend(t, c, deploymentOf(liqo, "controller-manager"))
	info, problems := (&collector{Reader: c.Client, namespace: liqo}).collectHealth(t.Context())
	want := missingPods{Kind: "Deployment", Wanted: 1, Reason: "the Deployment is missing: run liqoctl install to create it"}
	if diff := cmp.Diff(want, info.MissingPods["liqo-crd-replicator"]); diff != "" || len(problems) > 0 {
		t.Errorf("%v\n%s", problems, diff)
	}
}
