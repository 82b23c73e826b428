// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

func TestCreateVirtualNodeLabels(t *testing.T) {
	c := testkit.Cluster(t)
	for rule, tc := range map[string]struct {
		args []string
		want []string
	}{
		"no list is the controller-manager's own": {[]string{"controller-manager", "--cluster-id=rome"}, nil},
		"a list takes its place":                  {[]string{"controller-manager", "--accepted-node-labels=example.com/*,gpu"}, []string{"example.com/*", "gpu"}},
	} {
		t.Run(rule, func(t *testing.T) {
			labels := map[string]string{names.AppName: "controller-manager", names.AppComponent: "controller-manager"}
			d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: testkit.Namespace(t, c, "liqo", nil), Name: "manager", Labels: labels}}
			d.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
			d.Spec.Template = corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				Containers: []corev1.Container{{Name: "controller-manager", Image: "liqo", Args: tc.args}},
			}}
			testkit.Create(t, c.Client, d)
			got, err := acceptedNodeLabels(t.Context(), c.Client, d.Namespace)
			if err != nil || !slices.Equal(got, tc.want) {
				t.Errorf("%q, %v, want %q", got, err, tc.want)
			}
		})
	}
	if _, err := acceptedNodeLabels(t.Context(), c.Client, testkit.Namespace(t, c, "empty", nil)); err == nil {
		t.Error("where nobody runs all is known")
	}
}
