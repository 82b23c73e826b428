// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAPIServerURL(t *testing.T) {
	node := func(name, label string, addresses ...corev1.NodeAddress) corev1.Node {
		return corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{label: ""}},
			Status:     corev1.NodeStatus{Addresses: addresses},
		}
	}
	internal := corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}
	external := corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: "192.0.2.1"}
	six := corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: "fd00::1"}
	worker := node("a", "node-role.kubernetes.io/worker", external)
	for name, test := range map[string]struct {
		configured string
		nodes      []corev1.Node
		want       string
	}{
		"takes what was configured":            {configured: "https://api.example:443", nodes: []corev1.Node{worker}, want: "https://api.example:443"},
		"adds the scheme":                      {configured: "api.example:443", want: "https://api.example:443"},
		"takes a bare IPv6 address":            {configured: "2001:db8::1", want: "https://[2001:db8::1]"},
		"takes one in brackets":                {configured: "[2001:db8::1]", want: "https://[2001:db8::1]"},
		"takes one with a port":                {configured: "[2001:db8::1]:6443", want: "https://[2001:db8::1]:6443"},
		"takes one with a scheme":              {configured: "https://[2001:db8::1]:6443", want: "https://[2001:db8::1]:6443"},
		"adds brackets after a scheme":         {configured: "https://2001:db8::1/path", want: "https://[2001:db8::1]/path"},
		"keeps an IPv4 address as it is":       {configured: "192.0.2.1:6443", want: "https://192.0.2.1:6443"},
		"keeps a path":                         {configured: "api.example/k8s/clusters/c-1", want: "https://api.example/k8s/clusters/c-1"},
		"finds the control plane":              {nodes: []corev1.Node{worker, node("b", "node-role.kubernetes.io/control-plane", internal)}, want: "https://10.0.0.1:6443"},
		"prefers what peers can reach":         {nodes: []corev1.Node{node("b", "node-role.kubernetes.io/master", internal, external)}, want: "https://192.0.2.1:6443"},
		"writes IPv6 as URLs do":               {nodes: []corev1.Node{node("b", "node-role.kubernetes.io/control-plane", six)}, want: "https://[fd00::1]:6443"},
		"skips one without address":            {nodes: []corev1.Node{node("a", "node-role.kubernetes.io/control-plane"), node("b", "node-role.kubernetes.io/control-plane", internal)}, want: "https://10.0.0.1:6443"},
		"finds nothing where only workers are": {nodes: []corev1.Node{worker}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := APIServerURL(test.configured, test.nodes)
			if got != test.want || (err == nil) != (test.want != "") {
				t.Errorf("got %q, %v; want %q", got, err, test.want)
			}
		})
	}
}
