// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/testkit"
)

// The API server takes every object, knows every field of it, and compiles its expressions.
func TestChartAccepted(t *testing.T) {
	c := testkit.Cluster(t)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "liqo-system"}}
	if err := c.Client.Create(t.Context(), ns); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	for name, v := range map[string]values{"defaults": {}, "everything": everything(t)} {
		for _, obj := range mustRender(t, v).objects {
			if obj.GetAPIVersion() == "monitoring.coreos.com/v1" { // kinds of the Prometheus operator
				continue
			}
			err := c.Client.Create(t.Context(), obj.DeepCopy(), client.DryRunAll, client.FieldValidation("Strict"))
			if err != nil && !apierrors.IsAlreadyExists(err) {
				t.Errorf("%s: %s %s: %v", name, obj.GetKind(), obj.GetName(), err)
			}
		}
	}
}
