// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"maps"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"liqo.io/liqo/internal/names"
)

// providerEnv is what a kubelet of the provider adds to each container.
var providerEnv = map[string]string{
	"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443", "KUBERNETES_SERVICE_PORT_HTTPS": "443",
	"KUBERNETES_PORT": "tcp://10.96.0.1:443", "KUBERNETES_PORT_443_TCP": "tcp://10.96.0.1:443", "KUBERNETES_PORT_443_TCP_PROTO": "tcp",
	"KUBERNETES_PORT_443_TCP_ADDR": "10.96.0.1", "KUBERNETES_PORT_443_TCP_PORT": "443",
}

// kubeletEnv returns the environment of a container as the kubelet makes it: variables of ConfigMaps first, then those of the
// container in their order, with references to the ones before them or else to services, and at last what services add.
func kubeletEnv(fromConfigMaps map[string]string, env []corev1.EnvVar) map[string]string {
	out := map[string]string{}
	maps.Copy(out, fromConfigMaps)
	for _, e := range env {
		out[e.Name] = expand(e.Value, out)
	}
	for name, value := range providerEnv {
		if _, set := out[name]; !set {
			out[name] = value
		}
	}
	return out
}

func expand(text string, known map[string]string) string {
	return os.Expand(replaceParentheses(text), func(name string) string {
		if value, ok := known[name]; ok {
			return value
		}
		return providerEnv[name]
	})
}

func replaceParentheses(text string) string {
	out := []byte(text)
	for i, c := range out {
		switch c {
		case '(':
			out[i] = '{'
		case ')':
			out[i] = '}'
		}
	}
	return string(out)
}

func TestEnvironmentOfContainers(t *testing.T) {
	const url = "https://$(KUBERNETES_SERVICE_HOST):$(KUBERNETES_SERVICE_PORT_HTTPS)"
	for name, test := range map[string]struct {
		home       *APIServerRoute
		configMaps map[string]string
		env        []corev1.EnvVar
		want       map[string]string
	}{
		"by_the_tunnel": {
			home: byTunnel, env: []corev1.EnvVar{{Name: "URL", Value: url}},
			want: map[string]string{"URL": "https://kubernetes.default:443", "KUBERNETES_SERVICE_HOST": "kubernetes.default", "KUBERNETES_PORT_443_TCP_ADDR": "kubernetes.default"},
		},
		"another_port": {
			home: byAddress, env: []corev1.EnvVar{{Name: "URL", Value: url}, {Name: "ALL", Value: "$(KUBERNETES_PORT)"}},
			want: map[string]string{
				"URL": "https://api.rome.example.com:6443", "ALL": "tcp://api.rome.example.com:6443", "KUBERNETES_SERVICE_PORT_HTTPS": "6443",
				"KUBERNETES_PORT_6443_TCP_PORT": "6443", "KUBERNETES_PORT_443_TCP": "", "KUBERNETES_PORT_443_TCP_ADDR": "",
			},
		},
		"no_api_server": {
			env:  []corev1.EnvVar{{Name: "URL", Value: url}},
			want: map[string]string{"URL": "https://:", "KUBERNETES_SERVICE_HOST": "", "KUBERNETES_PORT": "", "KUBERNETES_PORT_443_TCP_ADDR": ""},
		},
		"of_the_user": {
			home: byTunnel, env: []corev1.EnvVar{{Name: "KUBERNETES_SERVICE_ACCOUNT", Value: "builder"}, {Name: "KUBERNETES_SERVICE_CPU_LIMIT", Value: "4"}, {Name: "KUBERNETES_PORT_FORWARD_TIMEOUT", Value: "30s"}},
			want: map[string]string{"KUBERNETES_SERVICE_ACCOUNT": "builder", "KUBERNETES_SERVICE_CPU_LIMIT": "4", "KUBERNETES_PORT_FORWARD_TIMEOUT": "30s"},
		},
		"replaced_by_the_user": {
			home: byTunnel, env: []corev1.EnvVar{{Name: "BEFORE", Value: url}, {Name: "KUBERNETES_SERVICE_HOST", Value: "api.example.com"}, {Name: "AFTER", Value: url}},
			want: map[string]string{"BEFORE": "https://kubernetes.default:443", "KUBERNETES_SERVICE_HOST": "api.example.com", "AFTER": "https://api.example.com:443"},
		},
		"from_a_ConfigMap": {
			home: byTunnel, configMaps: map[string]string{"KUBERNETES_SERVICE_ACCOUNT": "builder", "KUBERNETES_SERVICE_HOST": "10.96.0.1"},
			want: map[string]string{"KUBERNETES_SERVICE_ACCOUNT": "builder", "KUBERNETES_SERVICE_HOST": "kubernetes.default"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := Input{Target: target, Pod: ordinary(), Route: test.home}
			container := corev1.Container{Name: "main", Env: test.env}
			in.Pod.Spec.InitContainers, in.Pod.Spec.Containers = []corev1.Container{container}, []corev1.Container{container}
			in.Pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon(container)}}
			spec := ShadowPod(in).Spec.Pod
			in.Existing = ShadowPod(in)
			debug := ShadowPod(in).Spec.Pod.EphemeralContainers[0]
			for kind, env := range map[string][]corev1.EnvVar{"init": spec.InitContainers[0].Env, "main": spec.Containers[0].Env, "ephemeral": debug.Env} {
				all := kubeletEnv(test.configMaps, env)
				got := map[string]string{}
				for name := range test.want {
					got[name] = all[name]
				}
				if diff := cmp.Diff(test.want, got); diff != "" {
					t.Errorf("%s container (-want +got):\n%s", kind, diff)
				}
				for name, value := range all {
					if value != "443" && value != "tcp" && value != "" && value == providerEnv[name] {
						t.Errorf("%s container: %s=%s leads to the provider's API server", kind, name, value)
					}
				}
			}
		})
	}
}

func TestNamespaceOfTheDownwardAPI(t *testing.T) {
	const remote, local = "metadata.namespace", "metadata.annotations['" + names.OffloadingNamespace + "']"
	type shown struct{ Env, Debug, File, BesideToken string }
	for name, test := range map[string]struct {
		annotations map[string]string
		home        *APIServerRoute
		want        shown
	}{
		"default":                 {nil, byTunnel, shown{remote, remote, remote, local}},
		"no_api_server":           {nil, nil, shown{remote, remote, remote, local}},
		"remote":                  {map[string]string{names.DownwardAPINamespace: "remote"}, byTunnel, shown{remote, remote, remote, local}},
		"local":                   {map[string]string{names.DownwardAPINamespace: "local"}, byTunnel, shown{"web", "web", local, local}},
		"meaningless":             {map[string]string{names.DownwardAPINamespace: "x"}, byTunnel, shown{remote, remote, remote, local}},
		"remote_API_server":       {map[string]string{names.APIServerSupport: "remote"}, byTunnel, shown{remote, remote, remote, remote}},
		"remote_API_server_local": {map[string]string{names.APIServerSupport: "remote", names.DownwardAPINamespace: "local"}, nil, shown{"web", "web", local, remote}},
	} {
		t.Run(name, func(t *testing.T) {
			in := Input{Target: target, Pod: ordinary(), Route: test.home}
			in.Pod.Annotations = test.annotations
			file := corev1.DownwardAPIVolumeFile{Path: "ns", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.namespace"}}
			volumes := []corev1.Volume{
				{VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{file}}}},
				{VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
					{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{*file.DeepCopy()}}},
				}}}},
			}
			in.Pod.Spec.Volumes = append(in.Pod.Spec.Volumes, volumes...)
			env := []corev1.EnvVar{{Name: "NS", ValueFrom: fieldRef("metadata.namespace")}}
			in.Pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug", Env: env}}}
			in.Existing = ShadowPod(in)
			created := ShadowPod(in)
			spec := created.Spec.Pod
			fieldOf := func(env []corev1.EnvVar) string {
				for _, e := range env {
					if e.Name == "NS" && e.ValueFrom != nil {
						return e.ValueFrom.FieldRef.FieldPath
					} else if e.Name == "NS" {
						return e.Value
					}
				}
				return ""
			}
			beside := spec.Volumes[0].Projected.Sources
			got := shown{
				Env: fieldOf(spec.Containers[0].Env), Debug: fieldOf(spec.EphemeralContainers[0].Env),
				File:        spec.Volumes[1].DownwardAPI.Items[0].FieldRef.FieldPath,
				BesideToken: beside[len(beside)-1].DownwardAPI.Items[0].FieldRef.FieldPath,
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if projected := spec.Volumes[2].Projected.Sources[0].DownwardAPI.Items[0].FieldRef.FieldPath; projected != got.File {
				t.Errorf("the projected file shows %s, the other %s", projected, got.File)
			}
			if ns := created.Annotations[names.OffloadingNamespace]; ns != "web" {
				t.Errorf("the annotation that files show is %q", ns)
			}
		})
	}
}
