// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	_ "liqo.io/liqo/internal/testkit/repeatable"
	"pgregory.net/rapid"

	"liqo.io/liqo/internal/names"
)

var (
	byTunnel  = &APIServerRoute{Host: names.APIServerHost, Port: 443, Addr: netip.MustParseAddr("10.70.0.25")}
	byAddress = &APIServerRoute{Host: "api.rome.example.com", Port: 6443}
)

func TestTheWayHomeIsRemembered(t *testing.T) {
	for _, route := range []*APIServerRoute{byTunnel, byAddress, {Host: "fd00::1", Port: 6443}, {Host: names.APIServerHost, Port: 1, Addr: netip.MustParseAddr("fd00::2")}} {
		in := Input{Target: target, Pod: ordinary(), Route: route}
		if diff := cmp.Diff(route, RouteOf(ShadowPod(in)), cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	for _, text := range []string{"", "x", ":443", "host:", "host:0x1", "host:65536", "host:443@", "host:443@x"} {
		if route := RouteOf(&metav1.ObjectMeta{Annotations: map[string]string{names.APIServerRoute: text}}); route != nil {
			t.Errorf("%q means %v", text, route)
		}
	}
}

func TestAccess(t *testing.T) {
	for name, test := range map[string]struct {
		annotation string
		home       *APIServerRoute
		want       Access
	}{
		"no network":           {"", nil, AccessNone},
		"a network":            {"", byTunnel, AccessConsumer},
		"disabled":             {"disabled", byTunnel, AccessNone},
		"remote":               {"remote", byTunnel, AccessRemote},
		"remote, no network":   {"remote", nil, AccessRemote},
		"what means nothing":   {"x", byTunnel, AccessConsumer},
		"disabled, no network": {"disabled", nil, AccessNone},
	} {
		t.Run(name, func(t *testing.T) {
			pod := ordinary()
			pod.Annotations = map[string]string{names.APIServerSupport: test.annotation}
			if got := AccessOf(pod, test.home); got != test.want {
				t.Errorf("got %d, want %d", got, test.want)
			}
		})
	}
}

// What a pod is given that talks to the API server at home, in each mode.
func TestPodsAtHome(t *testing.T) {
	type seen struct {
		Aliases []corev1.HostAlias
		Env     []string
		Token   *corev1.SecretProjection
		Account string
	}
	look := func(in Input) seen {
		spec := ShadowPod(in).Spec.Pod
		if *spec.AutomountServiceAccountToken {
			t.Error("the pod has a token of the provider")
		}
		out := seen{Aliases: spec.HostAliases, Token: spec.Volumes[0].Projected.Sources[0].Secret, Account: spec.ServiceAccountName}
		for _, e := range spec.Containers[0].Env {
			if strings.HasPrefix(e.Name, "KUBERNETES_PORT") || strings.HasPrefix(e.Name, "KUBERNETES_SERVICE_") && e.Name != "KUBERNETES_SERVICE_ACCOUNT" {
				out.Env = append(out.Env, e.Name+"="+e.Value)
			}
		}
		return out
	}
	token := &corev1.SecretProjection{
		LocalObjectReference: corev1.LocalObjectReference{Name: "web-token"},
		Items:                []corev1.KeyToPath{{Key: "kube-api-access-x-3c469e", Path: "token"}},
	}
	env := func(host, port string) []string {
		one := "KUBERNETES_PORT_" + port + "_TCP"
		return []string{
			"KUBERNETES_SERVICE_HOST=" + host, "KUBERNETES_SERVICE_PORT=" + port, "KUBERNETES_SERVICE_PORT_HTTPS=" + port, "KUBERNETES_PORT=tcp://" + host + ":" + port,
			one + "=tcp://" + host + ":" + port, one + "_PROTO=tcp", one + "_ADDR=" + host, one + "_PORT=" + port,
		}
	}
	const standard = "KUBERNETES_PORT_443_TCP"
	unset := []string{standard + "=", standard + "_PROTO=", standard + "_ADDR=", standard + "_PORT="}
	none := append([]string{"KUBERNETES_SERVICE_HOST=", "KUBERNETES_SERVICE_PORT=", "KUBERNETES_SERVICE_PORT_HTTPS=", "KUBERNETES_PORT="}, unset...)
	for name, test := range map[string]struct {
		edit func(in *Input)
		want seen
	}{
		"by the tunnel": {func(in *Input) { in.Route = byTunnel }, seen{
			Aliases: []corev1.HostAlias{{IP: "10.70.0.25", Hostnames: []string{"kubernetes.default", "kubernetes.default.svc"}}},
			Env:     env("kubernetes.default", "443"), Token: token,
		}},
		"the pod's own aliases come later": {func(in *Input) {
			in.Route = byTunnel
			in.Pod.Spec.HostAliases = []corev1.HostAlias{{IP: "192.0.2.1", Hostnames: []string{"printer"}}}
		}, seen{
			Aliases: []corev1.HostAlias{{IP: "10.70.0.25", Hostnames: []string{"kubernetes.default", "kubernetes.default.svc"}}, {IP: "192.0.2.1", Hostnames: []string{"printer"}}},
			Env:     env("kubernetes.default", "443"), Token: token,
		}},
		"without a network, where it is reached": {func(in *Input) { in.Route = byAddress }, seen{
			Env: append(env("api.rome.example.com", "6443"), unset...), Token: token,
		}},
		"disabled": {func(in *Input) {
			in.Route = byTunnel
			in.Pod.Annotations = map[string]string{names.APIServerSupport: "disabled"}
		}, seen{Env: none}},
		"no network": {func(*Input) {}, seen{Env: none}},
	} {
		t.Run(name, func(t *testing.T) {
			in := Input{Target: target, Pod: ordinary()}
			test.edit(&in)
			if diff := cmp.Diff(test.want, look(in)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Other files of the volume are what they are at home, too.
func TestTheOtherFilesOfAnAccount(t *testing.T) {
	in := Input{Target: target, Pod: ordinary(), Route: byTunnel}
	in.Pod.Spec.Volumes[0].Projected.Sources = append(in.Pod.Spec.Volumes[0].Projected.Sources, corev1.VolumeProjection{PodCertificate: &corev1.PodCertificateProjection{}})
	sources := ShadowPod(in).Spec.Pod.Volumes[0].Projected.Sources
	if len(sources) != 3 || sources[1].ConfigMap.Name != names.RootCA("rome") || sources[2].DownwardAPI == nil {
		t.Fatalf("got %+v", sources)
	}
}

func TestWhatUsersSayOfTheWayHomeIsNotBelieved(t *testing.T) {
	pod := ordinary()
	pod.Annotations = map[string]string{names.APIServerRoute: "evil.example.com:443"}
	if sp := ShadowPod(Input{Target: target, Pod: pod}); RouteOf(sp) != nil {
		t.Errorf("the ShadowPod leads to %v", RouteOf(sp))
	}
}

// A ShadowPod that exists keeps its way, and a container that comes later takes it.
func TestLaterContainersTakeTheSameWay(t *testing.T) {
	in := Input{Target: target, Pod: ordinary(), Route: byTunnel}
	created := ShadowPod(in)
	in.Pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug"}}}
	in.Existing, in.Route = created, RouteOf(created)
	now := ShadowPod(in)
	host := func(env []corev1.EnvVar) string {
		i := slices.IndexFunc(env, func(e corev1.EnvVar) bool { return e.Name == "KUBERNETES_SERVICE_HOST" })
		return env[i].Value
	}
	if got := host(now.Spec.Pod.EphemeralContainers[0].Env); got != names.APIServerHost {
		t.Errorf("the container is led to %q", got)
	}
	now.Spec.Pod.EphemeralContainers = nil
	if diff := cmp.Diff(created, now); diff != "" {
		t.Errorf("something else changed:\n%s", diff)
	}
}

// Whatever a pod is: the provider's API server is never shown a token of this cluster, and translating again changes nothing.
func TestRandomPodsTakeTheirTokensHome(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := randomPod(t)
		in := Input{Target: target, Pod: p, Route: rapid.SampledFrom([]*APIServerRoute{nil, byTunnel, byAddress}).Draw(t, "home")}
		created := ShadowPod(in)
		spec := created.Spec.Pod
		access := AccessOf(p, in.Route)
		if access == AccessRemote {
			return
		}
		if spec.ServiceAccountName != "" || *spec.AutomountServiceAccountToken || UsesToken(&corev1.Pod{Spec: spec}) {
			t.Fatal("the pod has an account of the provider")
		}
		led := access == AccessConsumer && in.Route.Addr.IsValid()
		if led && (spec.HostAliases[0].IP != byTunnel.Addr.String() || !slices.Contains(spec.HostAliases[0].Hostnames, names.APIServerHost)) {
			t.Fatalf("names lead elsewhere: %v", spec.HostAliases)
		}
		for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
			ownVars := in.Route.envVars()
			if access == AccessNone {
				ownVars = (*APIServerRoute)(nil).envVars()
			}
			if diff := cmp.Diff(ownVars, c.Env[:len(ownVars)]); diff != "" || !led && c.Env[0].Value == names.APIServerHost {
				t.Fatalf("%s is led elsewhere (-want +got):\n%s", c.Name, diff)
			}
		}
		p.Spec.EphemeralContainers = nil
		created = ShadowPod(in)
		if diff := cmp.Diff(created, ShadowPod(Input{Target: target, Pod: p, Existing: created, Route: RouteOf(created)})); diff != "" {
			t.Fatalf("translating again changes something:\n%s", diff)
		}
	})
}

func TestWhichPodsMountTheRootCA(t *testing.T) {
	mounts := func(name, support string) *corev1.Pod {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{names.APIServerSupport: support}}}
		pod.Spec.Volumes = []corev1.Volume{{Name: "api", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			Sources: []corev1.VolumeProjection{{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: name}}}},
		}}}}
		return pod
	}
	for name, test := range map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"none":               {&corev1.Pod{}, false},
		"this cluster's":     {mounts("kube-root-ca.crt", ""), true},
		"without tokens":     {mounts("kube-root-ca.crt", names.APIServerSupportDisabled), true},
		"that of a provider": {mounts("kube-root-ca.crt", names.APIServerSupportRemote), false},
		"something else":     {mounts("settings", ""), false},
	} {
		if got := UsesRootCA(test.pod); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
