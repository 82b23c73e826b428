// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Settings count in the namespace in which Cilium runs.
func TestCiliumSettings(t *testing.T) {
	meta := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name}
	}
	daemons := []appsv1.DaemonSet{{ObjectMeta: meta("kube-system", "kube-proxy")}, {ObjectMeta: meta("cilium", CiliumDaemonSet)}}
	configs := []corev1.ConfigMap{{ObjectMeta: meta("kube-system", CiliumConfig)}, {ObjectMeta: meta("cilium", "other")}, {ObjectMeta: meta("cilium", CiliumConfig)}}
	if got := CiliumSettings(daemons, configs); len(got) != 1 || got[0].Namespace != "cilium" || got[0].Name != CiliumConfig {
		t.Errorf("%v", got)
	}
}

func TestReplacesKubeProxy(t *testing.T) {
	for _, test := range []struct {
		key, value string
		want       bool
	}{
		{"kube-proxy-replacement", "true", true},
		{"kube-proxy-replacement", "strict", true},
		{"kube-proxy-replacement", "false", false},
		{"enable-node-port", "true", true},
		{"enable-node-port", "false", false},
		{"tunnel-protocol", "vxlan", false},
	} {
		if got := ReplacesKubeProxy(map[string]string{test.key: test.value}); got != test.want {
			t.Errorf("%s=%s: %t, want %t", test.key, test.value, got, test.want)
		}
	}
}
