// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/testkit"
)

func runTenants(t *testing.T, c *testkit.ControlPlane) {
	t.Helper()
	testkit.Manager(t, c.Config, kube.ManagerOptions{}, func(mgr ctrl.Manager) error {
		secrets, err := watchCredentials(mgr)
		if err != nil {
			return err
		}
		return setupTenantNamespaces(mgr, Options{}, secrets)
	})
}

// rights lists who holds what in a namespace.
func rights(t *testing.T, c client.Client, namespace string) ([]string, error) {
	t.Helper()
	var list rbacv1.RoleBindingList
	if err := c.List(t.Context(), &list, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	var out []string
	for _, b := range list.Items {
		var who []string
		for _, s := range b.Subjects {
			who = append(who, s.Namespace+"/"+s.Name)
		}
		out = append(out, fmt.Sprintf("%s: %s for %s", b.Name, b.RoleRef.Name, strings.Join(who, " ")))
	}
	return out, nil
}

func hasRights(t *testing.T, c client.Client, namespace string, want ...string) {
	t.Helper()
	testkit.Eventually(t, limit, func() error {
		got, err := rights(t, c, namespace)
		if err != nil {
			return err
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return errors.New(diff)
		}
		return nil
	})
}

var allRights = []string{
	"liqo-binding-liqo-tenant-replication: liqo-tenant-replication for liqo/liqo-crd-replicator",
	"liqo-binding-liqo-tenant-secrets: liqo-tenant-secrets for liqo/liqo-controller-manager",
}

func TestTenantNamespaceBindings(t *testing.T) {
	c := testkit.Cluster(t)
	runTenants(t, c)
	ns := testkit.Namespace(t, c, "what-i-like", tenantLabels("rimini"))
	half := testkit.Namespace(t, c, "half", map[string]string{"liqo.io/remote-cluster-id": "rimini"})
	hasRights(t, c.Client, ns, allRights...)
	hasRights(t, c.Client, half)

	// A binding that was changed is put right.
	wrong := &rbacv1.RoleBinding{}
	key := types.NamespacedName{Namespace: ns, Name: "liqo-binding-liqo-tenant-secrets"}
	if err := c.Client.Get(t.Context(), key, wrong); err != nil {
		t.Fatal(err)
	}
	wrong.Subjects = nil
	if err := c.Client.Update(t.Context(), wrong); err != nil {
		t.Fatal(err)
	}
	hasRights(t, c.Client, ns, allRights...)

	// A namespace that stops being a tenant's gives nothing.
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}
	if err := c.Client.Patch(t.Context(), namespace, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"liqo.io/tenant-namespace":null}}}`))); err != nil {
		t.Fatal(err)
	}
	hasRights(t, c.Client, ns)
}

func TestBindingReplaced(t *testing.T) {
	c := testkit.Cluster(t)
	ns := testkit.Namespace(t, c, "forged", nil)
	create(t, c.Client, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "liqo-binding-liqo-tenant-secrets"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "admin"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "x", Name: "y"}},
	})
	runTenants(t, c)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}
	patch := []byte(`{"metadata":{"labels":{"liqo.io/tenant-namespace":"true","liqo.io/remote-cluster-id":"ravenna"}}}`)
	if err := c.Client.Patch(t.Context(), namespace, client.RawPatch(types.MergePatchType, patch)); err != nil {
		t.Fatal(err)
	}
	hasRights(t, c.Client, ns, allRights...)
}

func TestTwoTenantNamespaces(t *testing.T) {
	c := testkit.Cluster(t)
	runTenants(t, c)
	first := testkit.Namespace(t, c, "first", tenantLabels("parma"))
	hasRights(t, c.Client, first, allRights...)
	second := testkit.Namespace(t, c, "second", tenantLabels("parma"))
	for _, ns := range []string{first, second} {
		hasEvent(t, c.Client, ns, "DuplicateTenantNamespace", first+", "+second)
	}
}

func TestInvalidTenantNamespace(t *testing.T) {
	c := testkit.Cluster(t)
	runTenants(t, c)
	ns := testkit.Namespace(t, c, "nobody", tenantLabels("Not_A_Name"))
	hasEvent(t, c.Client, ns, "InvalidClusterID", "Not_A_Name")
	var bindings rbacv1.RoleBindingList
	if err := c.Client.List(t.Context(), &bindings, client.InNamespace(ns)); err != nil || len(bindings.Items) > 0 {
		t.Errorf("the namespace has the bindings %v, %v", bindings.Items, err)
	}
}

func hasEvent(t *testing.T, c client.Client, namespace, reason, text string) {
	t.Helper()
	testkit.Eventually(t, limit, func() error {
		var list eventsv1.EventList
		if err := c.List(t.Context(), &list); err != nil {
			return err
		}
		for _, e := range list.Items {
			if e.Regarding.Name == namespace && e.Reason == reason && strings.Contains(e.Note, text) {
				return nil
			}
		}
		return fmt.Errorf("no event %s on %s", reason, namespace)
	})
}

// Deleting a namespace deletes its RoleBindings at once. Without them the replicator could never take its finalizers off,
// and the namespace would stay for ever.
func TestBindingsInDeletedNamespace(t *testing.T) {
	c := testkit.Cluster(t, testkit.WithControllers("namespace-controller"))
	runTenants(t, c)
	ns := testkit.Namespace(t, c, "going", tenantLabels("lucca"))
	hasRights(t, c.Client, ns, allRights...)
	held := &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "test", Finalizers: []string{"crdreplicator.liqo.io/resource"}}}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: ns, Name: "cplane-secret", Finalizers: []string{"crdreplicator.liqo.io/operator"},
		Labels: map[string]string{"liqo.io/identity-type": "ControlPlane"},
	}}
	create(t, c.Client, held, secret)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}
	isGuarded(t, c.Client, ns, true)
	if err := c.Client.Delete(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	for _, obj := range []client.Object{held, secret} {
		testkit.Eventually(t, limit, func() error {
			if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
				return err
			}
			if obj.GetDeletionTimestamp().IsZero() {
				return errors.New("not being deleted yet")
			}
			return nil
		})
		hasRights(t, c.Client, ns, allRights...)
		obj.SetFinalizers(nil)
		if err := c.Client.Update(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
	waitUntilDeleted(t, c.Client, namespace)
}

// isGuarded waits until the rights do, or do not, outlive the deletion of their namespace.
func isGuarded(t *testing.T, c client.Client, namespace string, want bool) {
	t.Helper()
	testkit.Eventually(t, limit, func() error {
		var list rbacv1.RoleBindingList
		if err := c.List(t.Context(), &list, client.InNamespace(namespace)); err != nil {
			return err
		}
		for _, b := range list.Items {
			if (len(b.Finalizers) > 0) != want {
				return fmt.Errorf("finalizers of %s: %v", b.Name, b.Finalizers)
			}
		}
		return nil
	})
}

// A finalizer in a namespace that is not used would outlive an uninstallation.
func TestUnneededBindings(t *testing.T) {
	c := testkit.Cluster(t)
	runTenants(t, c)
	ns := testkit.Namespace(t, c, "idle", tenantLabels("siena"))
	hasRights(t, c.Client, ns, allRights...)
	isGuarded(t, c.Client, ns, false)
	secret := credentials(t)
	secret.Namespace, secret.Labels = ns, map[string]string{"liqo.io/identity-type": "ControlPlane", "liqo.io/remote-cluster-id": "siena"}
	create(t, c.Client, &secret)
	isGuarded(t, c.Client, ns, true)
	if err := c.Client.Delete(t.Context(), &secret); err != nil {
		t.Fatal(err)
	}
	isGuarded(t, c.Client, ns, false)
	hasRights(t, c.Client, ns, allRights...)
}
