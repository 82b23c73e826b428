// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
)

// expect compares an error with a part of its text, "" for none.
func expect(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("refused: %v", err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("error = %v, want one with %q", err, want)
	}
}

func shadow(change func(*corev1.PodSpec)) *offv1beta1.ShadowPod {
	sp := &offv1beta1.ShadowPod{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{names.OffloadingOrigin: "consumer"}},
		Spec:       offv1beta1.ShadowPodSpec{Pod: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "web:1"}}}},
	}
	change(&sp.Spec.Pod)
	return sp
}

func TestCheckShadowPod(t *testing.T) {
	secured := func(sc corev1.SecurityContext) func(*corev1.PodSpec) {
		return func(p *corev1.PodSpec) { p.Containers[0].SecurityContext = &sc }
	}
	for name, tc := range map[string]struct {
		change func(*corev1.PodSpec)
		level  string
		want   string
	}{
		"an ordinary pod":                     {change: func(*corev1.PodSpec) {}, level: PodSecurityBaseline},
		"a pod that names its node":           {change: func(p *corev1.PodSpec) { p.NodeName = "node-1" }, want: "spec.nodeName"},
		"the host's network":                  {change: func(p *corev1.PodSpec) { p.HostNetwork = true }, want: "spec.hostNetwork"},
		"the host's processes":                {change: func(p *corev1.PodSpec) { p.HostPID = true }, want: "spec.hostPID"},
		"the host's IPC":                      {change: func(p *corev1.PodSpec) { p.HostIPC = true }, want: "spec.hostIPC"},
		"a system priority class":             {change: func(p *corev1.PodSpec) { p.PriorityClassName = "system-node-critical" }, want: "system pods"},
		"a priority class that no list names": {change: func(p *corev1.PodSpec) { p.PriorityClassName = "batch" }, want: "pods.priorityClasses"},
		"a system priority":                   {change: func(p *corev1.PodSpec) { p.Priority = new(int32(2_000_000_000)) }, want: "system pods"},
		"no containers":                       {change: func(p *corev1.PodSpec) { p.Containers = nil }, want: "no containers"},
		"a path of the host": {
			change: func(p *corev1.PodSpec) {
				p.Volumes = []corev1.Volume{{Name: "etc", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/etc"}}}}
			},
			level: PodSecurityBaseline, want: `volume "etc"`,
		},
		"a privileged container":               {change: secured(corev1.SecurityContext{Privileged: new(true)}), level: PodSecurityBaseline, want: "privileged"},
		"a privileged one where it is allowed": {change: secured(corev1.SecurityContext{Privileged: new(true)}), level: PodSecurityPrivileged},
		"a privileged one without a level":     {change: secured(corev1.SecurityContext{Privileged: new(true)})},
		"a privileged init container": {
			change: func(p *corev1.PodSpec) {
				p.InitContainers = []corev1.Container{{Name: "init", SecurityContext: &corev1.SecurityContext{Privileged: new(true)}}}
			},
			level: PodSecurityRestricted, want: `"init" is privileged`,
		},
		"a harmless capability": {change: secured(corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"CHOWN"}}}), level: PodSecurityBaseline},
		"a harmful capability":  {change: secured(corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"CHOWN", "SYS_ADMIN"}}}), level: PodSecurityBaseline, want: "SYS_ADMIN"},
		"a port of the host": {change: func(p *corev1.PodSpec) {
			p.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80}}
		}, level: PodSecurityBaseline, want: "port 80"},
	} {
		t.Run(name, func(t *testing.T) {
			expect(t, CheckShadowPod(shadow(tc.change), Policy{Consumer: "consumer", PodSecurity: tc.level}), tc.want)
		})
	}
}

func TestCheckShadowPodOrigin(t *testing.T) {
	sp := shadow(func(*corev1.PodSpec) {})
	expect(t, CheckShadowPod(sp, Policy{Consumer: "other"}), "mismatch")
	expect(t, CheckShadowPod(sp, Policy{}), "belongs to no peering")
	sp.Labels = nil
	expect(t, CheckShadowPod(sp, Policy{Consumer: "consumer"}), "is missing")
}

func TestCheckShadowPodUpdate(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*corev1.PodSpec)
		want   string
	}{
		"nothing":      {change: func(*corev1.PodSpec) {}},
		"an image":     {change: func(p *corev1.PodSpec) { p.Containers[0].Image = "web:2" }},
		"the deadline": {change: func(p *corev1.PodSpec) { p.ActiveDeadlineSeconds = new(int64(5)) }},
		"a toleration": {change: func(p *corev1.PodSpec) { p.Tolerations = []corev1.Toleration{VirtualNodeToleration()} }},
		"one of the control plane": {
			change: func(p *corev1.PodSpec) {
				p.Tolerations = []corev1.Toleration{{Key: "node-role.kubernetes.io/control-plane", Operator: corev1.TolerationOpExists}}
			},
			want: "pods.controlPlane",
		},
		"an ephemeral container": {change: func(p *corev1.PodSpec) { p.EphemeralContainers = make([]corev1.EphemeralContainer, 1) }},
		"resources": {change: func(p *corev1.PodSpec) {
			p.Resources = &corev1.ResourceRequirements{}
			p.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}
		}},
		"a command":           {change: func(p *corev1.PodSpec) { p.Containers[0].Command = []string{"sh"} }, want: "only images"},
		"fewer containers":    {change: func(p *corev1.PodSpec) { p.Containers = nil }, want: "only images"},
		"a node chosen later": {change: func(p *corev1.PodSpec) { p.NodeName = "node-1" }, want: "only images"},
	} {
		t.Run(name, func(t *testing.T) {
			expect(t, CheckShadowPodUpdate(shadow(func(*corev1.PodSpec) {}), shadow(tc.change), RemotePods{}), tc.want)
		})
	}
	moved := shadow(func(*corev1.PodSpec) {})
	moved.Labels[names.OffloadingOrigin] = "other"
	expect(t, CheckShadowPodUpdate(shadow(func(*corev1.PodSpec) {}), moved, RemotePods{}), "immutable")
}

func TestCheckTwinNamespace(t *testing.T) {
	reserved := Reserved{Liqo: "mesh", Tenants: []string{"blue"}, Names: []string{"prod", "infra-*", "*-system", "*vault*"}}
	for name, want := range map[string]string{
		"demo":                  "",
		"demo-consumer":         "",
		"defaults":              "",
		"prod-consumer":         "",
		"default":               "belongs to Kubernetes",
		"kube-system":           "belongs to Kubernetes",
		"kube-anything":         "belongs to Kubernetes",
		"mesh":                  "belongs to Liqo",
		"liqo":                  "", // where the installation is elsewhere
		"liqo-demo":             "", // what tutorials call theirs
		"liqo-test-x":           "",
		"liqo-tenants":          "",
		"liqo-storage":          "belongs to Liqo",
		"liqo-tenant-x":         "belongs to Liqo",
		"blue":                  "belongs to a peering",
		"prod":                  "reserved by the provider",
		"infra-dns":             "reserved by the provider",
		"istio-system":          "reserved by the provider",
		"system":                "",
		"istio-systems":         "",
		"my-vault-2":            "reserved by the provider",
		"":                      "invalid namespace name",
		"Demo":                  "invalid namespace name",
		"a.b":                   "invalid namespace name",
		strings.Repeat("a", 64): "invalid namespace name",
	} {
		t.Run(name, func(t *testing.T) { expect(t, CheckTwinNamespace(name, reserved), want) })
	}
}

func FuzzCheckTwinNamespace(f *testing.F) {
	for _, seed := range []string{"demo", "kube-system", "default", "liqo-x", "../kube-system", "KUBE-system", "kube-system\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if CheckTwinNamespace(name, Reserved{Liqo: "mesh"}) != nil {
			return
		}
		folded := strings.ToLower(strings.TrimSpace(name))
		if folded != name || len(name) > 63 || strings.ContainsAny(name, "./_ \n\x00") ||
			strings.HasPrefix(name, "kube-") || strings.HasPrefix(name, "liqo-tenant-") || name == "liqo-storage" || name == "default" || name == "mesh" {
			t.Errorf("%q was accepted", name)
		}
	})
}

func TestTenantRules(t *testing.T) {
	tenant := func(id, label string) *authv1beta1.Tenant {
		tn := &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "t", Namespace: "ns"}}
		tn.Spec.ClusterID = "a"
		if id != "a" {
			tn.Spec.ClusterID = ""
		}
		if label != "" {
			tn.Labels = map[string]string{names.RemoteClusterID: label}
		}
		return tn
	}
	space := func(id, mark string) map[string]string {
		return map[string]string{names.RemoteClusterID: id, names.TenantNamespace: mark}
	}
	expect(t, CheckTenant(tenant("a", "a"), space("a", "true")), "")
	expect(t, CheckTenant(tenant("", "a"), space("a", "true")), "spec.clusterID is required")
	expect(t, CheckTenant(tenant("a", "a"), space("a", "")), "must be in a tenant namespace")
	expect(t, CheckTenant(tenant("a", "b"), space("a", "true")), `is "b"`)
	expect(t, CheckTenant(tenant("a", "a"), space("b", "true")), `for cluster "b"`)

	bare := tenant("a", "")
	if !DefaultTenant(bare) || bare.Labels[names.RemoteClusterID] != "a" || DefaultTenant(bare) {
		t.Errorf("labels after defaulting: %v", bare.Labels)
	}
	mislabelled := tenant("a", "b")
	if DefaultTenant(mislabelled) {
		t.Error("defaulting overwrote a label of the user")
	}

	other := func(namespace, name string) []authv1beta1.Tenant {
		return []authv1beta1.Tenant{{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}}}
	}
	expect(t, CheckTenantUnique(tenant("a", "a"), other("ns", "t")), "")
	expect(t, CheckTenantUnique(tenant("a", "a"), other("ns", "u")), "has the Tenant")
	expect(t, CheckTenantUnique(tenant("a", "a"), other("ms", "t")), "exists already")
	expect(t, CheckTenantUnique(tenant("a", "a"), other("ms", "u")), "")
}

func TestOfferedNodeLabels(t *testing.T) {
	offered := map[string]string{
		"tier": "gold", "example.com/rack": "7", "liqo.io/provider": "kubeadm", "topology.kubernetes.io/region": "eu",
		"liqo.io/type": "fake", "liqo.io/remote-cluster-id": "other", "kubernetes.io/hostname": "master", "type": "x",
		"node-role.kubernetes.io/control-plane": "", "node.kubernetes.io/exclude-from-external-load-balancers": "",
		"evil.liqo.io/x": "y", "bad value": "x", "tier2": "not a value!",
		"cloud.google.com/gke-spot": "true", "karpenter.sh/do-not-disrupt": "true", "node.cilium.io/egress": "",
		"topology.kubernetes.io/zone": "eu-1", "node.kubernetes.io/instance-type": "large",
		"kubernetes.io/arch": "arm64", "kubernetes.io/os": "linux",
	}
	for name, tc := range map[string]struct {
		allow []string
		want  map[string]string
	}{
		"the default list": {want: map[string]string{
			"tier": "gold", "liqo.io/provider": "kubeadm", "topology.kubernetes.io/region": "eu", "topology.kubernetes.io/zone": "eu-1",
			"node.kubernetes.io/instance-type": "large", "kubernetes.io/arch": "arm64", "kubernetes.io/os": "linux",
		}},
		"all without a prefix": {allow: []string{"*"}, want: map[string]string{"tier": "gold"}},
		"all with the prefix of somebody else": {allow: []string{"*/*"}, want: map[string]string{
			"example.com/rack": "7", "cloud.google.com/gke-spot": "true", "karpenter.sh/do-not-disrupt": "true", "node.cilium.io/egress": "",
		}},
		"nothing":    {allow: []string{}, want: map[string]string{}},
		"one key":    {allow: []string{"tier"}, want: map[string]string{"tier": "gold"}},
		"one domain": {allow: []string{"example.com/*"}, want: map[string]string{"example.com/rack": "7"}},
		"what is ours cannot be given away": {
			allow: []string{"liqo.io/*", "kubernetes.io/host*", "type"}, want: map[string]string{"liqo.io/provider": "kubeadm"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, OfferedNodeLabels(offered, tc.allow)); diff != "" {
				t.Error(diff)
			}
			for minor, want := range map[string]string{"37": "37", "9": "30", "many": ""} {
				said := maps.Clone(offered)
				said[names.KubernetesMinor] = minor
				if got := OfferedNodeLabels(said, tc.allow)[names.KubernetesMinor]; got != want {
					t.Errorf("the version %q is %q, want %q", minor, got, want)
				}
			}
		})
	}
}

func TestDeclaredFeatures(t *testing.T) {
	said := []string{
		"RestartAllContainers", "B/sub", "RestartAllContainers", "ExtendWebSocketsToKubelet", "lower", "", "A/", "A\n", "A b", "A" + strings.Repeat("a", maxDeclaredFeatureName), "A",
	}
	if diff := cmp.Diff([]string{"A", "B/sub", "RestartAllContainers"}, DeclaredFeatures(said)); diff != "" {
		t.Error(diff)
	}
	for i := range 2 * maxDeclaredFeatures {
		said = append(said, fmt.Sprintf("F%03d", i))
	}
	if n := len(DeclaredFeatures(said)); n != maxDeclaredFeatures {
		t.Errorf("%d features are declared, want %d", n, maxDeclaredFeatures)
	}
	if said[0] != "RestartAllContainers" {
		t.Error("the argument was sorted")
	}
}

func TestCheckVirtualNode(t *testing.T) {
	vn := func(namespace, name, id string) offv1beta1.VirtualNode {
		v := offv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		v.Spec.ClusterID = "p"
		if id == "" {
			v.Spec.ClusterID = ""
		}
		return v
	}
	for name, tc := range map[string]struct {
		vn     offv1beta1.VirtualNode
		others []offv1beta1.VirtualNode
		want   string
	}{
		"an ordinary one":                  {vn: vn("a", "n", "p"), others: []offv1beta1.VirtualNode{vn("a", "m", "p")}},
		"itself is in nobody's way":        {vn: vn("a", "n", "p"), others: []offv1beta1.VirtualNode{vn("a", "n", "p")}},
		"one of the same name elsewhere":   {vn: vn("a", "n", "p"), others: []offv1beta1.VirtualNode{vn("b", "n", "p")}, want: "exists already"},
		"a name that no label can hold":    {vn: vn("a", strings.Repeat("n", 64), "p"), want: "invalid name"},
		"a provider that nobody has named": {vn: vn("a", "n", ""), want: "spec.clusterID"},
	} {
		t.Run(name, func(t *testing.T) { expect(t, CheckVirtualNode(&tc.vn, tc.others), tc.want) })
	}
}

func TestCreatorUser(t *testing.T) {
	for user, want := range map[string]string{
		"slice-0123abcd":              "slice-0123abcd",
		"system:serviceaccount:ns:vk": "system-serviceaccount-ns-vk",
		"ann@example.com":             "ann-example.com",
		"":                            "",
	} {
		if got := CreatorUser(user); got != want {
			t.Errorf("CreatorUser(%q) = %q, want %q", user, got, want)
		}
	}
	if got := CreatorUser(strings.Repeat("x", 200)); len(got) > 63 {
		t.Errorf("%d characters are too many for a label", len(got))
	}
}
