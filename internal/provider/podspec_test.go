// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/policy"
	"liqo.io/liqo/internal/testkit"
)

func defaultsOf(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}

// providerWithDefaults is one that counts what pods without requests take.
func providerWithDefaults(t *testing.T) *testkit.ControlPlane {
	t.Helper()
	c := testkit.Cluster(t, testkit.WithControllers("namespace-controller", "garbage-collector-controller", "serviceaccount-controller"))
	replica(t, c, kube.ManagerOptions{Name: "host"}, NamespaceMapOptions{}, ShadowPodOptions{Enforce: true, DefaultRequests: defaultsOf("100m", "16Mi")})
	return c
}

// requiresARealNode reports whether each alternative that a pod requires of its node excludes virtual ones.
func requiresARealNode(pod *corev1.Pod) bool {
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.NodeAffinity == nil || pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return false
	}
	for _, term := range pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		if !slices.ContainsFunc(term.MatchExpressions, func(r corev1.NodeSelectorRequirement) bool {
			return r.Key == names.NodeType && r.Operator == corev1.NodeSelectorOpNotIn && slices.Equal(r.Values, []string{names.NodeTypeVirtualNode})
		}) {
			return false
		}
	}
	return true
}

// Both clusters lend to each other, and a pod tolerates everything: it stays in the cluster that it was sent to.
func TestPodTolerations(t *testing.T) {
	c := providerWithDefaults(t)
	remoteNamespace, _ := twinOf(t, c, "jade", defaultsOf("400", "100Gi"), "jade-a")
	blanket := func(name string) *offv1beta1.ShadowPod {
		sp := asked(remoteNamespace, name, "jade", "jade-a", "100m")
		sp.Spec.Pod.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		sp.Spec.Pod.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
			{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"back"}}}},
			{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{"a"}}}},
		}}}}
		return ask(t, c, sp)
	}
	pod := runs(t, c, blanket("agent"))
	if !requiresARealNode(pod) || len(pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms) != 2 {
		t.Errorf("it may go to a virtual node: %+v", pod.Spec.Affinity)
	}
	if slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool { return t.Key == "" }) {
		t.Errorf("it tolerates everything: %v", pod.Spec.Tolerations)
	}

	// An administrator who offloads the namespace itself has its pods go further.
	testkit.Update(t, c.Client, namespaceOf(remoteNamespace), func(ns *corev1.Namespace) { ns.Labels[names.SchedulingEnabled] = "true" })
	for i := 0; ; i++ { // the label is seen some time after it was written
		pod := runs(t, c, blanket(fmt.Sprint("further-", i)))
		if !requiresARealNode(pod) {
			return
		}
		if i > 200 {
			t.Fatalf("the namespace is offloaded, and its pods are kept here: %+v", pod.Spec.Affinity)
		}
	}
}

// A pod without requests is not for nothing: containers get those that the provider gives by default, and the Quota counts them.
func TestDefaultRequests(t *testing.T) {
	c := providerWithDefaults(t)
	remoteNamespace, _ := twinOf(t, c, "onyx", defaultsOf("250m", "1Gi"), "onyx-a")
	free := func(name string) *offv1beta1.ShadowPod {
		sp := asked(remoteNamespace, name, "onyx", "onyx-a", "0")
		sp.Spec.Pod.Containers[0].Resources = corev1.ResourceRequirements{}
		return ask(t, c, sp)
	}
	for _, name := range []string{"one", "two"} {
		pod := runs(t, c, free(name))
		if got := pod.Spec.Containers[0].Resources.Requests; got.Cpu().String() != "100m" || got.Memory().String() != "16Mi" {
			t.Errorf("%s requests %v", name, got)
		}
		if pod.Spec.AutomountServiceAccountToken == nil || *pod.Spec.AutomountServiceAccountToken {
			t.Errorf("%s gets a token of the provider", name)
		}
	}
	refusedBecause(t, c, free("three"), "OverQuota", "requested 100m of 250m")
}

// What a Quota does not name is given to nobody, and so is not requested by default either.
func TestDefaultRequestsUnlisted(t *testing.T) {
	c := providerWithDefaults(t)
	remoteNamespace, _ := twinOf(t, c, "pearl", corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}, "pearl-a")
	sp := asked(remoteNamespace, "web", "pearl", "pearl-a", "0")
	sp.Spec.Pod.Containers[0].Resources = corev1.ResourceRequirements{}
	pod := runs(t, c, ask(t, c, sp))
	if got := pod.Spec.Containers[0].Resources.Requests; len(got) != 1 || got.Memory().String() != "16Mi" {
		t.Errorf("it requests %v", got)
	}
}

// A virtual kubelet offers the tolerations of its pods for nodes with a role, and the provider's value decides.
func TestRoleTolerations(t *testing.T) {
	for name, allowed := range map[string]bool{"default": false, "controlPlane": true} {
		t.Run(name, func(t *testing.T) {
			c := testkit.Cluster(t, testkit.WithControllers("namespace-controller", "garbage-collector-controller", "serviceaccount-controller"))
			replica(t, c, kube.ManagerOptions{Name: "host"}, NamespaceMapOptions{}, ShadowPodOptions{Enforce: true, Pods: policy.RemotePods{ControlPlane: allowed}})
			remoteNamespace, _ := twinOf(t, c, "opal", defaultsOf("4", "1Gi"), "opal-a")
			tolerates := func(pod *corev1.Pod, key string) bool {
				return slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool { return t.Key == key })
			}
			offer := func(keys ...string) string {
				var out []corev1.Toleration
				for _, key := range keys {
					out = append(out, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists})
				}
				return policy.EncodeRoleTolerations(out)
			}
			sp := asked(remoteNamespace, "agent", "opal", "opal-a", "100m")
			sp.Annotations = map[string]string{names.RoleTolerations: offer("node-role.kubernetes.io/control-plane")}
			pod := runs(t, c, ask(t, c, sp))
			if got := tolerates(pod, "node-role.kubernetes.io/control-plane"); got != allowed {
				t.Errorf("the pod tolerates the control plane: %t", got)
			}
			testkit.Update(t, c.Client, sp, func(sp *offv1beta1.ShadowPod) {
				sp.Annotations[names.RoleTolerations] = offer("node-role.kubernetes.io/control-plane", "CriticalAddonsOnly")
			})
			eventually(t, c, pod, func() error {
				if got := tolerates(pod, "CriticalAddonsOnly"); got != allowed || pod.Annotations[followedParts] != shadowParts(sp).String() {
					return fmt.Errorf("tolerations are %v, annotations %v", pod.Spec.Tolerations, pod.Annotations)
				}
				return nil
			})
		})
	}
}

// Admission may have been off when the ShadowPod was made.
func TestPodPolicy(t *testing.T) {
	c := providerWithDefaults(t)
	remoteNamespace, _ := twinOf(t, c, "topaz", defaultsOf("4", "1Gi"), "topaz-a")
	for name, tc := range map[string]struct {
		change func(*corev1.PodSpec)
		want   string
	}{
		"nfs": {func(p *corev1.PodSpec) {
			p.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{Server: "10.0.0.1", Path: "/"}}}}
		}, `volume "v" is of the kind nfs`},
		"account":  {func(p *corev1.PodSpec) { p.ServiceAccountName = "builder" }, `ServiceAccount "builder"`},
		"runtime":  {func(p *corev1.PodSpec) { p.RuntimeClassName = new("runc") }, `runtime class "runc"`},
		"priority": {func(p *corev1.PodSpec) { p.PriorityClassName = "urgent" }, `priority class "urgent"`},
		"control-plane": {func(p *corev1.PodSpec) {
			p.Tolerations = []corev1.Toleration{{Key: "node-role.kubernetes.io/control-plane", Operator: "Exists"}}
		}, "tolerate the taint"},
	} {
		t.Run(name, func(t *testing.T) {
			sp := asked(remoteNamespace, name, "topaz", "topaz-a", "100m")
			tc.change(&sp.Spec.Pod)
			refusedBecause(t, c, ask(t, c, sp), "Refused", tc.want)
			if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(sp), podNamed(remoteNamespace, name)); err == nil {
				t.Error("the pod was made")
			}
		})
	}
}
