// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
)

var target = Target{Origin: "rome", Destination: "milan", Node: "milan", Namespace: "web-rome"}

// ordinary is a pod as an API server admits it: with the volume of its account.
func ordinary() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "web", Namespace: "web", UID: "1234",
			Labels: map[string]string{"app": "web", "pod-template-hash": "5d", names.ShadowPod: "true"},
		},
		Spec: corev1.PodSpec{
			ServiceAccountName: "builder", NodeName: "milan", SchedulerName: "default-scheduler",
			Priority: new(int32(7)), PriorityClassName: "high", RestartPolicy: corev1.RestartPolicyAlways,
			Tolerations: []corev1.Toleration{
				{Key: names.VirtualNodeTaint, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
				{Key: "gpu", Operator: corev1.TolerationOpExists},
			},
			NodeSelector: map[string]string{"zone": "north"},
			Containers: []corev1.Container{{
				Name: "main", Image: "web:1",
				Env: []corev1.EnvVar{
					{Name: "NS", ValueFrom: fieldRef("metadata.namespace")}, {Name: "SA", ValueFrom: fieldRef("spec.serviceAccountName")},
					{Name: "NODE", ValueFrom: fieldRef("spec.nodeName")}, {Name: "IP", ValueFrom: fieldRef("status.podIP")},
					{Name: "KUBERNETES_SERVICE_ACCOUNT", Value: "theirs"}, {Name: "KUBERNETES_NAMESPACE", Value: "mine"},
				},
				VolumeMounts: []corev1.VolumeMount{{Name: "kube-api-access-x", MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"}},
			}},
			Volumes: []corev1.Volume{{Name: "kube-api-access-x", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
				Sources: []corev1.VolumeProjection{
					{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: new(int64(3607))}},
					{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"}}},
					{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{
						{Path: "namespace", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.namespace"}},
					}}},
				},
			}}}},
		},
	}
}

func fieldRef(path string) *corev1.EnvVarSource {
	return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}
}

func shadow(edit func(in *Input)) *offv1beta1.ShadowPod {
	in := Input{Target: target, Pod: ordinary()}
	if edit != nil {
		edit(&in)
	}
	return ShadowPod(in)
}

func TestTheCreatorIsToldAndNeverChanges(t *testing.T) {
	made := func(label string) metav1.Object {
		sp := &offv1beta1.ShadowPod{}
		if label != "" {
			sp.Labels = map[string]string{names.CreatorUser: label}
		}
		return sp
	}
	for name, c := range map[string]struct {
		creator  string
		existing metav1.Object
		want     string
	}{
		"new":                     {"me", nil, "me"},
		"new, nobody knows":       {"", nil, ""},
		"mine":                    {"me", made("me"), "me"},
		"of who I was":            {"me", made("former"), "former"},
		"the provider said":       {"", made("me"), ""},
		"nobody has ever said so": {"me", made(""), ""},
	} {
		got := shadow(func(in *Input) { in.Creator = Creator(c.creator, c.existing) })
		if got.Labels[names.CreatorUser] != c.want {
			t.Errorf("%s: %q, want %q", name, got.Labels[names.CreatorUser], c.want)
		}
	}
}

func TestShadowPodOfAnOrdinaryPod(t *testing.T) {
	got := shadow(nil)
	wantMeta := metav1.ObjectMeta{
		Name: "web", Namespace: "web-rome",
		Labels: map[string]string{
			"app": "web", "pod-template-hash": "5d",
			names.OffloadingOrigin: "rome", names.OffloadingDestination: "milan", names.OffloadingNodeName: "milan",
		},
		Annotations: map[string]string{names.OffloadingNamespace: "web", names.OffloadingUID: "1234"},
	}
	if diff := cmp.Diff(wantMeta, got.ObjectMeta); diff != "" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
	want := corev1.PodSpec{
		AutomountServiceAccountToken: new(false), RestartPolicy: corev1.RestartPolicyAlways,
		Tolerations: []corev1.Toleration{{Key: "gpu", Operator: corev1.TolerationOpExists}},
		Containers: []corev1.Container{{
			Name: "main", Image: "web:1",
			Env: []corev1.EnvVar{
				{Name: "KUBERNETES_SERVICE_HOST"}, {Name: "KUBERNETES_SERVICE_PORT"}, {Name: "KUBERNETES_SERVICE_PORT_HTTPS"}, {Name: "KUBERNETES_PORT"},
				{Name: "KUBERNETES_PORT_443_TCP"}, {Name: "KUBERNETES_PORT_443_TCP_PROTO"}, {Name: "KUBERNETES_PORT_443_TCP_ADDR"}, {Name: "KUBERNETES_PORT_443_TCP_PORT"},
				{Name: "NS", ValueFrom: fieldRef("metadata.namespace")}, {Name: "SA", Value: "builder"}, {Name: "NODE", Value: "milan"},
				{Name: "IP", ValueFrom: fieldRef("status.podIP")},
				{Name: "KUBERNETES_SERVICE_ACCOUNT", Value: "theirs"}, {Name: "KUBERNETES_NAMESPACE", Value: "mine"},
			},
			VolumeMounts: []corev1.VolumeMount{{Name: "kube-api-access-x", MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"}},
		}},
		Volumes: []corev1.Volume{{Name: "kube-api-access-x", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			Sources: []corev1.VolumeProjection{
				{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt.rome"}}},
				{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{
					{Path: "namespace", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['offloading.liqo.io/namespace']"}},
				}}},
			},
		}}}},
	}
	if diff := cmp.Diff(want, got.Spec.Pod); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
}

func TestShadowPodRules(t *testing.T) {
	for _, tc := range []struct {
		rule string
		edit func(in *Input)
		look func(sp *offv1beta1.ShadowPod) any
		want any
	}{
		{
			"remote access runs as the named account of the provider",
			func(in *Input) {
				in.Pod.Annotations = map[string]string{names.APIServerSupport: "remote", names.RemoteServiceAccountName: "reader"}
			},
			func(sp *offv1beta1.ShadowPod) any {
				return []any{sp.Spec.Pod.ServiceAccountName, *sp.Spec.Pod.AutomountServiceAccountToken, len(sp.Spec.Pod.Volumes[0].Projected.Sources), sp.Annotations[names.OffloadingNamespace]}
			},
			[]any{"reader", true, 3, "web"},
		},
		{
			"remote access runs as the account of the same name when none is named",
			func(in *Input) { in.Pod.Annotations = map[string]string{names.APIServerSupport: "remote"} },
			func(sp *offv1beta1.ShadowPod) any { return sp.Spec.Pod.ServiceAccountName },
			"builder",
		},
		{
			"access to be disabled sends no account",
			func(in *Input) { in.Pod.Annotations = map[string]string{names.APIServerSupport: "disabled"} },
			func(sp *offv1beta1.ShadowPod) any { return []any{sp.Spec.Pod.ServiceAccountName, usesToken(sp)} },
			[]any{"", false},
		},
		{
			"the steering runtime class stays here",
			func(in *Input) { in.Pod.Spec.RuntimeClassName = new(names.RuntimeClass) },
			func(sp *offv1beta1.ShadowPod) any { return sp.Spec.Pod.RuntimeClassName },
			(*string)(nil),
		},
		{
			"the virtual node's runtime class replaces the steering one",
			func(in *Input) {
				in.Pod.Spec.RuntimeClassName = new(names.RuntimeClass)
				in.Patch = &offv1beta1.OffloadingPatch{RuntimeClassName: new("kata")}
			},
			func(sp *offv1beta1.ShadowPod) any { return sp.Spec.Pod.RuntimeClassName },
			new("kata"),
		},
		{
			"the annotated runtime class comes first",
			func(in *Input) {
				in.Pod.Spec.RuntimeClassName = new("gvisor")
				in.Pod.Annotations = map[string]string{names.RemoteRuntimeClassName: "kata"}
			},
			func(sp *offv1beta1.ShadowPod) any { return sp.Spec.Pod.RuntimeClassName },
			new("kata"),
		},
		{
			"the pod's own runtime class travels",
			func(in *Input) { in.Pod.Spec.RuntimeClassName = new("gvisor") },
			func(sp *offv1beta1.ShadowPod) any { return sp.Spec.Pod.RuntimeClassName },
			new("gvisor"),
		},
		{
			"the patch adds selector, tolerations and node affinity",
			func(in *Input) {
				in.Patch = &offv1beta1.OffloadingPatch{
					NodeSelector: map[string]string{"pool": "guests"},
					Tolerations:  []corev1.Toleration{{Key: "guests", Operator: corev1.TolerationOpExists}},
					Affinity:     &offv1beta1.Affinity{NodeAffinity: &corev1.NodeAffinity{}},
				}
			},
			func(sp *offv1beta1.ShadowPod) any {
				return []any{sp.Spec.Pod.NodeSelector, len(sp.Spec.Pod.Tolerations), sp.Spec.Pod.Affinity.NodeAffinity != nil}
			},
			[]any{map[string]string{"pool": "guests"}, 2, true},
		},
		{
			"tolerations for nodes with a role are offered, not requested",
			func(in *Input) {
				in.Pod.Annotations = map[string]string{names.RoleTolerations: "the user's"}
				in.Pod.Spec.Tolerations = append(in.Pod.Spec.Tolerations, corev1.Toleration{Key: "node-role.kubernetes.io/control-plane", Operator: corev1.TolerationOpExists})
			},
			func(sp *offv1beta1.ShadowPod) any {
				return []any{len(sp.Spec.Pod.Tolerations), sp.Annotations[names.RoleTolerations]}
			},
			[]any{1, `[{"key":"node-role.kubernetes.io/control-plane","operator":"Exists"}]`},
		},
		{
			"filtered labels and annotations stay here",
			func(in *Input) {
				in.Pod.Annotations = map[string]string{"secret": "x", "open": "y"}
				in.Patch = &offv1beta1.OffloadingPatch{LabelsNotReflected: []string{"app"}, AnnotationsNotReflected: []string{"secret"}}
			},
			func(sp *offv1beta1.ShadowPod) any {
				return []any{sp.Labels["app"], sp.Annotations["secret"], sp.Annotations["open"]}
			},
			[]any{"", "", "y"},
		},
		{
			"the soft preset keeps pods with the labels of the workload apart",
			func(in *Input) { in.Pod.Annotations = map[string]string{names.AntiAffinityPreset: "soft"} },
			func(sp *offv1beta1.ShadowPod) any {
				return sp.Spec.Pod.Affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution[0]
			},
			corev1.WeightedPodAffinityTerm{Weight: 1, PodAffinityTerm: corev1.PodAffinityTerm{
				TopologyKey: "kubernetes.io/hostname", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{
					"app": "web", names.OffloadingOrigin: "rome", names.OffloadingDestination: "milan", names.OffloadingNodeName: "milan",
				}},
			}},
		},
		{
			"the hard preset uses the listed labels only",
			func(in *Input) {
				in.Pod.Annotations = map[string]string{names.AntiAffinityPreset: "hard", names.AntiAffinityLabels: "app, other"}
			},
			func(sp *offv1beta1.ShadowPod) any {
				return sp.Spec.Pod.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].LabelSelector.MatchLabels
			},
			map[string]string{"app": "web"},
		},
		{
			"labels that the pod lacks are not listed",
			func(in *Input) {
				in.Pod.Annotations = map[string]string{names.AntiAffinityPreset: "hard", names.AntiAffinityLabels: "App"}
			},
			func(sp *offv1beta1.ShadowPod) any {
				return sp.Spec.Pod.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].LabelSelector.MatchLabels["app"]
			},
			"web",
		},
		{
			"the propagate preset takes anti-affinity alone",
			func(in *Input) {
				in.Pod.Annotations = map[string]string{names.AntiAffinityPreset: "propagate"}
				in.Pod.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{}, PodAntiAffinity: &corev1.PodAntiAffinity{}}
			},
			func(sp *offv1beta1.ShadowPod) any {
				return []bool{sp.Spec.Pod.Affinity.PodAffinity == nil, sp.Spec.Pod.Affinity.PodAntiAffinity != nil}
			},
			[]bool{true, true},
		},
		{
			"a propagated term that names the pod's namespace names its twin",
			func(in *Input) {
				in.Pod.Annotations = map[string]string{names.AntiAffinityPreset: "propagate"}
				term := corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname, Namespaces: []string{"other", "web"}}
				in.Pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
					RequiredDuringSchedulingIgnoredDuringExecution:  []corev1.PodAffinityTerm{*term.DeepCopy()},
					PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{Weight: 1, PodAffinityTerm: term}},
				}}
			},
			func(sp *offv1beta1.ShadowPod) any {
				anti := sp.Spec.Pod.Affinity.PodAntiAffinity
				return [][]string{
					anti.RequiredDuringSchedulingIgnoredDuringExecution[0].Namespaces,
					anti.PreferredDuringSchedulingIgnoredDuringExecution[0].PodAffinityTerm.Namespaces,
				}
			},
			[][]string{{"other", "web-rome"}, {"other", "web-rome"}},
		},
		{
			"what the API server merged into a spread selector is taken out",
			func(in *Input) {
				in.Pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
					MatchLabelKeys: []string{"pod-template-hash"},
					LabelSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
						{Key: "pod-template-hash", Operator: metav1.LabelSelectorOpIn, Values: []string{"5d"}},
						{Key: "app", Operator: metav1.LabelSelectorOpExists},
					}},
				}}
			},
			func(sp *offv1beta1.ShadowPod) any {
				return sp.Spec.Pod.TopologySpreadConstraints[0].LabelSelector.MatchExpressions
			},
			[]metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpExists}},
		},
		{
			"of an existing ShadowPod images, resources, deadline and tolerations follow, and nothing else",
			func(in *Input) {
				in.Existing = shadow(nil)
				in.Pod.Spec.Containers[0].Image = "web:2"
				in.Pod.Spec.Containers[0].Command = []string{"other"}
				in.Pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}
				in.Pod.Spec.ActiveDeadlineSeconds = new(int64(9))
				in.Pod.Spec.Tolerations = append(in.Pod.Spec.Tolerations, corev1.Toleration{Key: "late", Operator: corev1.TolerationOpExists})
			},
			func(sp *offv1beta1.ShadowPod) any {
				c := sp.Spec.Pod.Containers[0]
				return []any{c.Image, c.Resources.Requests.Cpu().String(), len(c.Command), *sp.Spec.Pod.ActiveDeadlineSeconds, len(sp.Spec.Pod.Tolerations)}
			},
			[]any{"web:2", "2", 0, int64(9), 2},
		},
		{
			"an ephemeral container comes to an existing ShadowPod, as any container does, and goes when it ended",
			func(in *Input) {
				in.Existing = shadow(nil)
				debug := func(name string) corev1.EphemeralContainer {
					return corev1.EphemeralContainer{TargetContainerName: "main", EphemeralContainerCommon: corev1.EphemeralContainerCommon{
						Name: name, Env: []corev1.EnvVar{{Name: "NS", ValueFrom: fieldRef("metadata.namespace")}},
					}}
				}
				in.Pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{debug("over"), debug("new")}
				in.Pod.Status.EphemeralContainerStatuses = []corev1.ContainerStatus{{Name: "over", State: ended}}
			},
			func(sp *offv1beta1.ShadowPod) any { return sp.Spec.Pod.EphemeralContainers },
			[]corev1.EphemeralContainer{{TargetContainerName: "main", EphemeralContainerCommon: corev1.EphemeralContainerCommon{
				Name: "new", Env: append((*APIServerRoute)(nil).envVars(), corev1.EnvVar{Name: "NS", ValueFrom: fieldRef("metadata.namespace")}),
			}}},
		},
		{
			"without the host's network the ports that came with it are no host ports",
			func(in *Input) {
				in.Pod.Spec.HostNetwork = true
				in.Pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80}}
			},
			func(sp *offv1beta1.ShadowPod) any { return sp.Spec.Pod.Containers[0].Ports },
			[]corev1.ContainerPort{{ContainerPort: 80}},
		},
		{
			"files of the downward API show the local labels, annotations and UID, and follow them",
			func(in *Input) {
				in.Pod.Annotations = map[string]string{"note": "a \"b\"", "hidden": "x"}
				in.Pod.Labels["more"] = "y"
				in.Patch = &offv1beta1.OffloadingPatch{AnnotationsNotReflected: []string{"hidden"}}
				in.Pod.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{
					Items: []corev1.DownwardAPIVolumeFile{
						{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels"}}, {FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations"}},
						{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.uid"}}, {FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}},
					},
				}}}}
			},
			func(sp *offv1beta1.ShadowPod) any {
				var shown []string
				for _, item := range sp.Spec.Pod.Volumes[0].DownwardAPI.Items {
					key, is := strings.CutPrefix(item.FieldRef.FieldPath, "metadata.annotations['")
					if !is {
						shown = append(shown, item.FieldRef.FieldPath)
						continue
					}
					shown = append(shown, sp.Annotations[strings.TrimSuffix(key, "']")])
				}
				return shown
			},
			[]string{"app=\"web\"\nmore=\"y\"\npod-template-hash=\"5d\"", `note="a \"b\""`, "1234", "metadata.name"},
		},
		{
			"resource claims are objects of this cluster",
			func(in *Input) {
				in.Pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}}
				in.Pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{
					Claims:   []corev1.ResourceClaim{{Name: "gpu"}},
					Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")},
				}
			},
			func(sp *offv1beta1.ShadowPod) any {
				r := sp.Spec.Pod.Containers[0].Resources
				return []int{len(sp.Spec.Pod.ResourceClaims), len(r.Claims), len(r.Requests)}
			},
			[]int{0, 0, 1},
		},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.look(shadow(tc.edit))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func usesToken(sp *offv1beta1.ShadowPod) bool { return UsesToken(&corev1.Pod{Spec: sp.Spec.Pod}) }

func TestNoTokenEverLeaves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pod := ordinary()
		pod.Spec.Volumes = rapid.SliceOf(rapid.Custom(volume)).Draw(t, "volumes")
		pod.Spec.Containers[0].Env = rapid.SliceOf(rapid.Custom(variable)).Draw(t, "env")
		in := Input{Target: target, Pod: pod}
		before := pod.DeepCopy()
		got := ShadowPod(in)
		if usesToken(got) || got.Spec.Pod.ServiceAccountName != "" || *got.Spec.Pod.AutomountServiceAccountToken {
			t.Fatalf("a token is asked for: %+v", got.Spec.Pod)
		}
		if len(got.Spec.Pod.Volumes) != len(pod.Spec.Volumes) {
			t.Fatal("a volume is lost, so its mounts are invalid")
		}
		ownVars := (*APIServerRoute)(nil).envVars()
		if diff := cmp.Diff(ownVars, got.Spec.Pod.Containers[0].Env[:len(ownVars)]); diff != "" {
			t.Fatalf("the pod is led to an API server (-want +got):\n%s", diff)
		}
		if !target.OwnsPod(got) {
			t.Fatal("the object is not marked as ours")
		}
		if diff := cmp.Diff(before, pod); diff != "" {
			t.Fatalf("the local pod was changed:\n%s", diff)
		}
		in.Existing = got
		if diff := cmp.Diff(got, ShadowPod(in)); diff != "" {
			t.Fatalf("translating again changes something:\n%s", diff)
		}
	})
}

func volume(t *rapid.T) corev1.Volume {
	sources := rapid.SliceOf(rapid.SampledFrom(ordinary().Spec.Volumes[0].Projected.Sources)).Draw(t, "sources")
	return corev1.Volume{Name: rapid.StringN(1, 8, -1).Draw(t, "name"), VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: sources}}}
}

func variable(t *rapid.T) corev1.EnvVar {
	return corev1.EnvVar{
		Name:  rapid.SampledFrom([]string{"A", "KUBERNETES_SERVICE_HOST", "KUBERNETES_PORT_443_TCP", "KUBERNETES_SERVICE_PORT"}).Draw(t, "variable"),
		Value: rapid.String().Draw(t, "value"),
	}
}
