// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"liqo.io/liqo/internal/ctl/diagnose"
)

// TestBindingsFound has "liqoctl check" find the bindings of each installation, and miss them without.
func TestBindingsFound(t *testing.T) {
	for namespace, missing := range map[string]int{"liqo-system": 10, "default": 9, "kube-system": 9} {
		t.Run(namespace, func(t *testing.T) {
			r, err := renderIn(t, namespace, loadChart(t), values{}, nil)
			if err != nil {
				t.Fatal(err)
			}
			f := &diagnose.Facts{Namespace: namespace}
			for _, obj := range r.objects {
				switch obj.GetKind() {
				case "Deployment":
					f.Deployments = append(f.Deployments, *as[appsv1.Deployment](t, obj))
				case "DaemonSet":
					f.DaemonSets = append(f.DaemonSets, *as[appsv1.DaemonSet](t, obj))
				case "ClusterRoleBinding":
					f.ClusterBindings = append(f.ClusterBindings, *as[rbacv1.ClusterRoleBinding](t, obj))
				case "RoleBinding":
					f.Bindings = append(f.Bindings, *as[rbacv1.RoleBinding](t, obj))
				}
			}
			if diff := cmp.Diff([]diagnose.Finding(nil), f.FindBindings()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			f.ClusterBindings, f.Bindings = nil, nil
			if got := f.FindBindings(); len(got) != missing {
				t.Errorf("without bindings there are %d findings, want %d: %+v", len(got), missing, got)
			}
		})
	}
}
