// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

// uninstaller is a client with the rights that the chart gives the Job, and no others.
func uninstaller(t *testing.T, c *testkit.ControlPlane) client.WithWatch {
	t.Helper()
	data, err := os.ReadFile("../../deploy/chart/files/rbac/pre-delete.yaml")
	if err != nil {
		t.Fatal(err)
	}
	role := &rbacv1.ClusterRole{}
	if err := yaml.UnmarshalStrict(data, role); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "pre-delete"}},
	}
	for _, obj := range []client.Object{role, binding} {
		if err := client.IgnoreAlreadyExists(c.Client.Create(t.Context(), obj)); err != nil {
			t.Fatal(err)
		}
	}
	return asUser(t, c.User(t, "pre-delete"))
}

func asUser(t *testing.T, cfg *rest.Config) client.WithWatch {
	t.Helper()
	w, err := client.NewWithWatch(cfg, client.Options{Scheme: kube.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// tenant makes a tenant namespace as a peering leaves it when its controllers are stopped in the middle.
func tenant(t *testing.T, c *testkit.ControlPlane, peer string) string {
	t.Helper()
	ns := testkit.Namespace(t, c, "tenant-"+peer, map[string]string{names.TenantNamespace: "true", names.RemoteClusterID: peer})
	for _, role := range []string{names.RoleTenantSecrets, names.RoleTenantReplication} {
		b := &rbacv1.RoleBinding{ObjectMeta: meta(ns, names.RoleBinding(role), peer)}
		b.Finalizers = []string{names.TenantRightsFinalizer}
		b.RoleRef = rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}
		create(t, c, b)
	}
	return ns
}

func bindingsHeld(t *testing.T, c *testkit.ControlPlane, ns string) int {
	t.Helper()
	var list rbacv1.RoleBindingList
	if err := c.Client.List(t.Context(), &list, client.InNamespace(ns)); err != nil {
		t.Fatal(err)
	}
	held := 0
	for _, b := range list.Items {
		held += len(b.Finalizers)
	}
	return held
}

func TestCleanUpTenantNamespaces(t *testing.T) {
	c := testkit.Cluster(t, testkit.WithControllers("namespace-controller"))
	idle, busy := tenant(t, c, "idle"), tenant(t, c, "busy")
	replica := &offv1beta1.NamespaceMap{ObjectMeta: meta(busy, "busy", "busy")}
	replica.Finalizers = []string{names.ReplicatorFinalizer}
	create(t, c, replica)
	foreign := &rbacv1.RoleBinding{ObjectMeta: withFinalizer(meta(idle, "theirs", ""), nil, nil)}
	foreign.RoleRef = rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"}
	create(t, c, foreign)

	if err := CleanUp(t.Context(), uninstaller(t, c)); err != nil {
		t.Fatal(err)
	}
	if got := bindingsHeld(t, c, busy); got != 2 {
		t.Errorf("%d bindings are kept for the replicator, want 2", got)
	}
	if got := bindingsHeld(t, c, idle); got != 1 {
		t.Errorf("%d bindings are held, want that of somebody else alone", got)
	}
	if err := removeFinalizers(t.Context(), c.Client, foreign); err != nil {
		t.Fatal(err)
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: idle}}
	if err := c.Client.Delete(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, 3*time.Minute, func() error {
		if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(ns), ns); !apierrors.IsNotFound(err) {
			return fmt.Errorf("namespace %s: got %v, want not found", idle, err)
		}
		return nil
	})
}

func TestPurgeFinalizers(t *testing.T) {
	c := testkit.Cluster(t, testkit.WithControllers("namespace-controller"))
	ns := tenant(t, c, "gone")
	for _, finalizer := range []string{names.ReplicatorSecretFinalizer, names.VirtualNodeFinalizer} {
		name, _, _ := strings.Cut(finalizer, ".")
		secret := &corev1.Secret{ObjectMeta: meta(ns, name, "gone")}
		secret.Finalizers = []string{finalizer}
		create(t, c, secret)
	}
	shared := &corev1.Secret{ObjectMeta: withFinalizer(meta(ns, "shared", ""), nil, nil)}
	shared.Finalizers = append(shared.Finalizers, names.ReplicatorSecretFinalizer)
	create(t, c, shared)

	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- PurgeNamespaces(ctx, stumbling(t, c, "/secrets"), "no-such-namespace") }()
	testkit.Eventually(t, 3*time.Minute, func() error {
		var remaining corev1.SecretList
		if err := c.Client.List(t.Context(), &remaining, client.InNamespace(ns)); err != nil {
			return err
		}
		var names []string
		for _, s := range remaining.Items {
			names = append(names, s.Name+" held by "+strings.Join(s.Finalizers, ", "))
		}
		if diff := cmp.Diff([]string{"shared held by test.liqo.io/held"}, names); diff != "" {
			return fmt.Errorf("-want +got:\n%s", diff)
		}
		return nil
	})
	if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(shared), shared); err != nil {
		t.Fatal(err)
	}
	if err := removeFinalizers(t.Context(), c.Client, shared); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}
