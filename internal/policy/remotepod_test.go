// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

func checkRemotePod(r RemotePods, change func(*corev1.PodSpec)) error {
	return CheckShadowPod(shadow(change), Policy{Consumer: "consumer", PodSecurity: PodSecurityBaseline, Pods: r})
}

// everyField calls do with a value of the struct for each of its fields, in which that one alone is set.
func everyField[T any](t *testing.T, do func(name string, value T)) {
	t.Helper()
	for i := range reflect.TypeFor[T]().NumField() {
		field := reflect.TypeFor[T]().Field(i)
		if field.Type.Kind() != reflect.Pointer {
			t.Fatalf("%s is no pointer: what is set is told by that", field.Name)
		}
		var value T
		reflect.ValueOf(&value).Elem().Field(i).Set(reflect.New(field.Type.Elem()))
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		do(name, value)
	}
}

// A kind of volume that a later version of Kubernetes adds is met here, and refused.
func TestRemotePodVolumes(t *testing.T) {
	found := 0
	everyField(t, func(kind string, source corev1.VolumeSource) {
		found++
		with := func(p *corev1.PodSpec) { p.Volumes = []corev1.Volume{{Name: "v", VolumeSource: source}} }
		if kind == "hostPath" {
			expect(t, checkRemotePod(RemotePods{Volumes: []string{"*"}}, with), "mounts a path of the host")
			return
		}
		want := ""
		if !slices.Contains(DefaultVolumes(), kind) {
			want = "is of the kind " + kind
		}
		expect(t, checkRemotePod(RemotePods{}, with), want)
		expect(t, checkRemotePod(RemotePods{Volumes: []string{}}, with), "is of the kind "+kind)
		expect(t, checkRemotePod(RemotePods{Volumes: []string{kind}}, with), "")
	})
	if found < 30 {
		t.Errorf("only %d kinds were found", found)
	}
	expect(t, checkRemotePod(RemotePods{}, func(p *corev1.PodSpec) { p.Volumes = []corev1.Volume{{Name: "later"}} }), "no source that this version of Liqo knows")
	both := corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}, NFS: &corev1.NFSVolumeSource{}}
	expect(t, checkRemotePod(RemotePods{}, func(p *corev1.PodSpec) { p.Volumes = []corev1.Volume{{VolumeSource: both}} }), "kind nfs")
}

func TestRemotePodHostPath(t *testing.T) {
	sp := shadow(func(p *corev1.PodSpec) {
		p.Volumes = []corev1.Volume{{Name: "etc", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/etc"}}}}
	})
	for level, want := range map[string]string{PodSecurityPrivileged: "", PodSecurityBaseline: `level "baseline" forbids`, PodSecurityRestricted: `level "restricted" forbids`, "": "kind hostPath"} {
		expect(t, CheckShadowPod(sp, Policy{Consumer: "consumer", PodSecurity: level}), want)
	}
}

func TestRemotePodProjections(t *testing.T) {
	harmless := []string{"configMap", "secret", "downwardAPI", "clusterTrustBundle"}
	everyField(t, func(kind string, source corev1.VolumeProjection) {
		with := func(p *corev1.PodSpec) {
			p.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{source}}}}}
		}
		want := ""
		if !slices.Contains(harmless, kind) {
			want = "of its ServiceAccount"
		}
		expect(t, checkRemotePod(RemotePods{}, with), want)
	})
}

func TestRemotePodAllowed(t *testing.T) {
	all := RemotePods{PriorityClasses: []string{"batch-*"}, RuntimeClasses: []string{"gvisor"}, ServiceAccounts: []string{"lodger"}, ControlPlane: true}
	token := corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Audience: "vault"}}}}}
	for name, tc := range map[string]struct {
		change         func(*corev1.PodSpec)
		refused, still string
	}{
		"a priority class":           {func(p *corev1.PodSpec) { p.PriorityClassName = "batch-low" }, "pods.priorityClasses", ""},
		"another priority class":     {func(p *corev1.PodSpec) { p.PriorityClassName = "urgent" }, "pods.priorityClasses", "pods.priorityClasses"},
		"a runtime class":            {func(p *corev1.PodSpec) { p.RuntimeClassName = new("gvisor") }, "pods.runtimeClasses", ""},
		"another runtime class":      {func(p *corev1.PodSpec) { p.RuntimeClassName = new("runc") }, "pods.runtimeClasses", "pods.runtimeClasses"},
		"no runtime class":           {func(p *corev1.PodSpec) { p.RuntimeClassName = new("") }, "", ""},
		"an account":                 {func(p *corev1.PodSpec) { p.ServiceAccountName = "lodger" }, `identity of its ServiceAccount "lodger"`, ""},
		"an account by its old name": {func(p *corev1.PodSpec) { p.DeprecatedServiceAccount = "builder" }, `ServiceAccount "builder"`, `ServiceAccount "builder"`},
		"the default account":        {func(p *corev1.PodSpec) { p.ServiceAccountName = "default" }, "", ""},
		"a token of it":              {func(p *corev1.PodSpec) { p.AutomountServiceAccountToken = new(true) }, "a token of its ServiceAccount", "a token of its ServiceAccount"},
		"a token of it in a volume":  {func(p *corev1.PodSpec) { p.Volumes = []corev1.Volume{{VolumeSource: token}} }, "a token of its", "a token of its"},
		"a token of a listed account": {func(p *corev1.PodSpec) {
			p.ServiceAccountName, p.Volumes = "lodger", []corev1.Volume{{VolumeSource: token}}
		}, "lodger", ""},
		"a taint of the control plane": {func(p *corev1.PodSpec) {
			p.Tolerations = []corev1.Toleration{{Key: "node-role.kubernetes.io/control-plane"}}
		}, "pods.controlPlane", ""},
		"a taint of system nodes": {func(p *corev1.PodSpec) { p.Tolerations = []corev1.Toleration{{Key: "CriticalAddonsOnly"}} }, "pods.controlPlane", ""},
		"any other taint":         {func(p *corev1.PodSpec) { p.Tolerations = []corev1.Toleration{{Key: "gpu"}} }, "", ""},
		"all taints":              {func(p *corev1.PodSpec) { p.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}} }, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			expect(t, checkRemotePod(RemotePods{}, tc.change), tc.refused)
			expect(t, checkRemotePod(all, tc.change), tc.still)
		})
	}
}

// What a pod has that was made before less was allowed is not in the way of its changes.
func TestPodTolerationsKept(t *testing.T) {
	old := shadow(func(p *corev1.PodSpec) { p.Tolerations = []corev1.Toleration{{Key: "node-role.kubernetes.io/master"}} })
	now := old.DeepCopy()
	now.Spec.Pod.Containers[0].Image = "web:2"
	expect(t, CheckShadowPodUpdate(old, now, RemotePods{}), "")
	expect(t, CheckShadowPodUpdate(&offv1beta1.ShadowPod{ObjectMeta: old.ObjectMeta, Spec: shadow(func(*corev1.PodSpec) {}).Spec}, old, RemotePods{}), "pods.controlPlane")
}

func TestPodTolerationsBlanket(t *testing.T) {
	blanket := []corev1.Toleration{{Operator: corev1.TolerationOpExists}, {Key: "gpu", Operator: corev1.TolerationOpExists}}
	sp := shadow(func(p *corev1.PodSpec) { p.Tolerations = blanket })
	narrow := RemotePods{}.PodTolerations(sp)
	for key, want := range map[string]bool{
		"gpu": true, corev1.TaintNodeNotReady: true, corev1.TaintNodeUnschedulable: true,
		"node-role.kubernetes.io/control-plane": false, "node-role.kubernetes.io/master": false, "virtual-node.liqo.io/not-allowed": false, "dedicated": false,
	} {
		taint := &corev1.Taint{Key: key, Effect: corev1.TaintEffectNoExecute}
		tolerated := slices.ContainsFunc(narrow, func(t corev1.Toleration) bool { return t.ToleratesTaint(logr.Discard(), taint, false) })
		if tolerated != want {
			t.Errorf("%s: tolerated %v", key, tolerated)
		}
	}
	if all := (RemotePods{ControlPlane: true}).PodTolerations(sp); !reflect.DeepEqual(all, blanket) {
		t.Errorf("where all is allowed: %v", all)
	}
}

func TestRoleTolerations(t *testing.T) {
	gpu, role := corev1.Toleration{Key: "gpu", Operator: corev1.TolerationOpExists}, corev1.Toleration{Key: "node-role.kubernetes.io/control-plane", Operator: corev1.TolerationOpExists}
	addons := corev1.Toleration{Key: "CriticalAddonsOnly", Operator: corev1.TolerationOpExists}
	offer := EncodeRoleTolerations([]corev1.Toleration{gpu, role, addons})
	for name, tc := range map[string]struct {
		annotation string
		allowed    RemotePods
		want       []corev1.Toleration
	}{
		"permitted":    {offer, RemotePods{ControlPlane: true}, []corev1.Toleration{gpu, role, addons}},
		"default":      {offer, RemotePods{}, []corev1.Toleration{gpu}},
		"other_taints": {`[{"operator":"Exists"},{"key":"dedicated","operator":"Exists"}]`, RemotePods{ControlPlane: true}, []corev1.Toleration{gpu}},
		"no_JSON":      {`[{"key":"CriticalAddonsOnly"},`, RemotePods{ControlPlane: true}, []corev1.Toleration{gpu}},
		"none":         {EncodeRoleTolerations([]corev1.Toleration{gpu}), RemotePods{ControlPlane: true}, []corev1.Toleration{gpu}},
	} {
		t.Run(name, func(t *testing.T) {
			sp := shadow(func(p *corev1.PodSpec) { p.Tolerations = []corev1.Toleration{gpu} })
			sp.Annotations = map[string]string{"offloading.liqo.io/role-tolerations": tc.annotation}
			expect(t, CheckShadowPod(sp, Policy{Consumer: sp.Labels["offloading.liqo.io/origin"], Pods: tc.allowed}), "")
			if got := tc.allowed.PodTolerations(sp); !reflect.DeepEqual(got, tc.want) {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}

func TestPodAffinityVirtualNodes(t *testing.T) {
	in := func(key string, values ...string) corev1.NodeSelectorRequirement {
		return corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}
	}
	real := corev1.NodeSelectorRequirement{Key: "liqo.io/type", Operator: corev1.NodeSelectorOpNotIn, Values: []string{"virtual-node"}}
	terms := func(terms ...corev1.NodeSelectorTerm) []corev1.NodeSelectorTerm { return terms }
	matching := func(r ...corev1.NodeSelectorRequirement) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: r}
	}
	named := func(node string, r ...corev1.NodeSelectorRequirement) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{in("metadata.name", node)}, MatchExpressions: r}
	}
	for name, tc := range map[string]struct{ own, want []corev1.NodeSelectorTerm }{
		"no affinity":              {nil, terms(matching(real))},
		"alternatives":             {terms(matching(in("zone", "a")), matching(in("zone", "b"))), terms(matching(in("zone", "a"), real), matching(in("zone", "b"), real))},
		"a node by name":           {terms(named("virtual")), terms(named("virtual", real))},
		"one that wants it itself": {terms(matching(real)), terms(matching(real))},
		"one that wants otherwise": {terms(matching(in("liqo.io/type", "virtual-node"))), terms(matching(in("liqo.io/type", "virtual-node"), real))},
		"a term that matches none": {terms(corev1.NodeSelectorTerm{}), terms(corev1.NodeSelectorTerm{})},
		"one beside another":       {terms(corev1.NodeSelectorTerm{}, matching(in("zone", "a"))), terms(matching(in("zone", "a"), real))},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.PodSpec{}
			if tc.own != nil {
				*required(pod) = tc.own
			}
			KeepOffVirtualNodes(pod)
			if got := *required(pod); !reflect.DeepEqual(got, tc.want) {
				t.Errorf("have %+v\nwant %+v", got, tc.want)
			}
		})
	}
}

func TestCheckVirtualKubeletImage(t *testing.T) {
	ownImages, listed := []string{"liqo.io/liqo:v1"}, []string{"mirror.local/vk-*"}
	for image, want := range map[string]string{
		"liqo.io/liqo:v1": "", "mirror.local/vk-debug:v2": "", "liqo.io/liqo:v2": "virtualKubelet.images", "mirror.local/other": "virtualKubelet.images", "": "virtualKubelet.images",
	} {
		expect(t, CheckVirtualKubeletImage(image, ownImages, listed), want)
	}
}
