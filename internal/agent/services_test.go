// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestServiceAliases(t *testing.T) {
	for _, test := range []struct {
		home, namespace, name string
		want                  bool
	}{
		{"liqo", "default", "kubernetes", true},
		{"liqo", "liqo", "liqo-proxy", true},
		{"liqo", "default", "liqo-proxy", false},
		{"liqo", "liqo", "kubernetes", false},
		{"default", "default", "kubernetes", true},
		{"default", "default", "liqo-proxy", true},
		{"default", "default", "shop", false},
	} {
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: test.namespace, Name: test.name}}
		if got := (Sources{Home: test.home}).isPublished(service); got != test.want {
			t.Errorf("%s/%s of %s: %v", test.namespace, test.name, test.home, got)
		}
	}
}
