// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package policy

import "testing"

func TestKeepsMetadata(t *testing.T) {
	dropped := []string{"k8s.v1.cni.cncf.io/*", "*.istio.io/*", "example.com/exact"}
	for label, want := range map[[2]string]bool{
		{"app", "web"}:                                      true,
		{"app.kubernetes.io/part-of", "shop"}:               true,
		{"app.kubernetes.io/part-of", "liqo"}:               false,
		{"networking.liqo.io/component", "gateway"}:         false,
		{"networking.liqo.io/gateway-name", "x"}:            false,
		{"liqo.io/virtual-node", "x"}:                       false,
		{"offloading.liqo.io/component", "virtual-kubelet"}: false,
		{"offloading.liqo.io/origin", "rome"}:               true,
		{"liqo.io/creator-user", "x"}:                       true,
		{"test-network.liqo.io/server", "1"}:                true,
		{"notliqo.io/x", "x"}:                               true,
		{"sidecar.istio.io/inject", "true"}:                 false,
		{"istio.io/rev", "x"}:                               true,
		{"example.com/exact", "x"}:                          false,
		{"example.com/exactly", "x"}:                        true,
	} {
		if got := KeepsLabel(label[0], label[1], dropped); got != want {
			t.Errorf("label %v is kept: %v", label, got)
		}
	}
	for annotation, want := range map[string]bool{
		"note": true, "k8s.v1.cni.cncf.io/networks": false, "traffic.sidecar.istio.io/x": false, "offloading.liqo.io/namespace": true, "example.com/exact": false,
	} {
		if got := KeepsAnnotation(annotation, dropped); got != want {
			t.Errorf("annotation %s is kept: %v", annotation, got)
		}
	}
}
