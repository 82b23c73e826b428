// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package policy

import "testing"

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
