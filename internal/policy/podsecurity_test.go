// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestInjectedMesh(t *testing.T) {
	for name, tc := range map[string]struct {
		labels, annotations map[string]string
		want                string
	}{
		"none":                  {nil, nil, ""},
		"istio":                 {map[string]string{"istio-injection": "enabled"}, nil, MeshIstio},
		"istio_revision":        {map[string]string{"istio.io/rev": "1-24"}, nil, MeshIstio},
		"istio_disabled":        {map[string]string{"istio-injection": "disabled", "istio.io/rev": "1-24"}, nil, ""},
		"istio_ambient":         {map[string]string{"istio.io/dataplane-mode": "ambient", "istio.io/rev": "1-24"}, nil, ""},
		"linkerd":               {nil, map[string]string{"linkerd.io/inject": "enabled"}, MeshLinkerd},
		"linkerd_ingress":       {nil, map[string]string{"linkerd.io/inject": "ingress"}, MeshLinkerd},
		"linkerd_label":         {map[string]string{"linkerd.io/inject": "enabled"}, nil, MeshLinkerd},
		"linkerd_disabled":      {nil, map[string]string{"linkerd.io/inject": "disabled"}, ""},
		"label_of_another_kind": {map[string]string{"app": "istio"}, nil, ""},
	} {
		if got := InjectedMesh(&metav1.ObjectMeta{Labels: tc.labels, Annotations: tc.annotations}); got != tc.want {
			t.Errorf("%s: %q, not %q", name, got, tc.want)
		}
	}
}

func TestCheckPodSecurity(t *testing.T) {
	with := func(change func(*corev1.PodSpec)) *corev1.PodSpec {
		spec := &corev1.PodSpec{Containers: []corev1.Container{{Name: "app"}}}
		change(spec)
		return spec
	}
	restricted := func(spec *corev1.PodSpec) {
		spec.SecurityContext = &corev1.PodSecurityContext{RunAsNonRoot: new(true), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}}
		spec.Containers[0].SecurityContext = &corev1.SecurityContext{AllowPrivilegeEscalation: new(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}}
	}
	istio := with(func(spec *corev1.PodSpec) {
		spec.InitContainers = []corev1.Container{{Name: "istio-init", SecurityContext: &corev1.SecurityContext{
			Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"NET_ADMIN", "NET_RAW"}, Drop: []corev1.Capability{"ALL"}},
		}}}
	})
	for name, tc := range map[string]struct {
		pod   *corev1.PodSpec
		level string
		want  string
	}{
		"sidecar_at_baseline":   {istio, PodSecurityBaseline, `container "istio-init" adds the capability NET_ADMIN`},
		"sidecar_at_restricted": {istio, PodSecurityRestricted, `container "istio-init" adds the capability NET_ADMIN`},
		"sidecar_at_privileged": {istio, PodSecurityPrivileged, ""},
		"no_level":              {istio, "", ""},
		"unknown_level":         {istio, "\x1b[31mnone", ""},
		"plain_at_baseline":     {with(func(*corev1.PodSpec) {}), PodSecurityBaseline, ""},
		"plain_at_restricted":   {with(func(*corev1.PodSpec) {}), PodSecurityRestricted, `container "app" may escalate privileges`},
		"hardened":              {with(restricted), PodSecurityRestricted, ""},
		"root": {with(func(spec *corev1.PodSpec) {
			restricted(spec)
			spec.Containers[0].SecurityContext.RunAsNonRoot = new(false)
		}),
			PodSecurityRestricted, `container "app" may run as root`},
		"no_seccomp": {with(func(spec *corev1.PodSpec) { restricted(spec); spec.SecurityContext.SeccompProfile = nil }),
			PodSecurityRestricted, `container "app" has no seccomp profile`},
		"host_path": {with(func(spec *corev1.PodSpec) {
			spec.Volumes = []corev1.Volume{{Name: "docker", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/var/run"}}}}
		}), PodSecurityBaseline, `volume "docker" mounts a path of the host`},
		"host_port": {with(func(spec *corev1.PodSpec) {
			spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80}, {HostPort: 80}}
		}), PodSecurityBaseline, `container "app" asks for port 80 of the host`},
		"privileged": {with(func(spec *corev1.PodSpec) {
			spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: new(true)}
		}), PodSecurityBaseline, `container "app" is privileged`},
	} {
		got := ""
		if err := CheckPodSecurity(tc.pod, tc.level); err != nil {
			got = err.Error()
		}
		if got != tc.want {
			t.Errorf("%s: %q, not %q", name, got, tc.want)
		}
	}
}
