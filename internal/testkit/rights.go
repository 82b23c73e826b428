// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"os"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// ProcessRole makes a ClusterRole, unless there is one of that name, of what a process of the chart may do: in the whole
// cluster, or in the namespaces of that sort if namespace is one of its markers.
func ProcessRole(t testing.TB, c *ControlPlane, name, process, namespace string) {
	t.Helper()
	path, err := moduleFile("deploy/chart/files/rbac/" + process + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("reading the rights of %s: %v", process, err)
	}
	for doc := range strings.SplitSeq(string(data), "---\n") {
		role := &rbacv1.ClusterRole{} // a Role has the same fields
		if err := yaml.UnmarshalStrict([]byte(doc), role); err != nil {
			t.Fatalf("reading the rights of %s: %v", process, err)
		}
		if role.Kind == "" || role.Namespace != namespace {
			continue
		}
		role = &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: role.Rules}
		if err := client.IgnoreAlreadyExists(c.Client.Create(t.Context(), role)); err != nil {
			t.Fatalf("making ClusterRole %s: %v", name, err)
		}
		return
	}
	t.Fatalf("%s has no rights in namespace %q", process, namespace)
}
