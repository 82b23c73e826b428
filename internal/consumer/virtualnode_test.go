// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package consumer

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

// complains waits for the event about a VirtualNode.
func complains(t *testing.T, c *testkit.ControlPlane, vn *offv1beta1.VirtualNode, reason string) {
	t.Helper()
	testkit.Eventually(t, patience, func() error {
		all := &eventsv1.EventList{}
		if err := c.Client.List(t.Context(), all, client.InNamespace(vn.Namespace)); err != nil {
			return err
		}
		for _, e := range all.Items {
			if e.Regarding.Name == vn.Name && e.Reason == reason {
				return nil
			}
		}
		return fmt.Errorf("no event %s among %d", reason, len(all.Items))
	})
}

// A user who may make VirtualNodes in a namespace of its own gets no process with the rights of a virtual kubelet there.
func TestVirtualNodeWrongNamespace(t *testing.T) {
	c := consumerCluster(t)
	provided := provide(t, c, "mantua", "mantua-1", "")
	stray := vnode("stray", "mantua", "")
	stray.Namespace = testkit.Namespace(t, c, "user", nil)
	if err := c.Client.Create(t.Context(), &stray); err != nil {
		t.Fatal(err)
	}
	complains(t, c, &stray, "WrongNamespace")
	for _, obj := range []client.Object{clusterRoleBinding(&stray), serviceAccount(&stray), kubeletOf(&stray)} {
		if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); !apierrors.IsNotFound(err) {
			t.Errorf("%T: %v", obj, err)
		}
	}
	namespace := &corev1.Namespace{}
	namespace.Name = stray.Namespace
	testkit.Update(t, c.Client, namespace, func(ns *corev1.Namespace) { ns.Labels = map[string]string{names.AllowVirtualNodes: "true"} })
	kubelet := kubeletOf(&stray)
	exists(t, c, kubelet)
	tenant := provided.Namespace
	if args := kubelet.Spec.Template.Spec.Containers[0].Args; !slices.Contains(args, "--namespacemap-namespace="+tenant) {
		t.Errorf("the virtual kubelet looks for its NamespaceMap elsewhere: %v", args)
	}
	reads := []client.Object{mapRole(&stray, tenant), mapBinding(&stray, tenant)}
	for _, obj := range reads {
		exists(t, c, obj)
	}
	if err := c.Client.Delete(t.Context(), &stray); err != nil {
		t.Fatal(err)
	}
	for _, obj := range reads {
		waitUntilDeleted(t, c, obj)
	}
}

// What runs with the rights of a virtual kubelet is ours.
func TestVirtualNodeImage(t *testing.T) {
	c := consumerCluster(t)
	vn := provide(t, c, "ferrara", "ferrara-1", "")
	exists(t, c, kubeletOf(vn))
	testkit.Update(t, c.Client, vn, func(vn *offv1beta1.VirtualNode) {
		vn.Spec.Template = &offv1beta1.DeploymentTemplate{}
		vn.Spec.Template.Spec.Template.Spec.Containers = []corev1.Container{{Name: "virtual-kubelet", Image: "example.com/mine:1"}}
	})
	complains(t, c, vn, "ImageNotAllowed")
	d := &appsv1.Deployment{}
	if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(kubeletOf(vn)), d); err != nil {
		t.Fatal(err)
	}
	if image := d.Spec.Template.Spec.Containers[0].Image; image == "example.com/mine:1" {
		t.Errorf("it runs %s", image)
	}
}

// The controller-manager has no permission on Secrets where users have their namespaces.
func TestKubeconfigForbidden(t *testing.T) {
	t.Parallel()
	c := testkit.NthCluster(t, consumerClusters)
	all := []string{"get", "list", "watch", "create", "update", "patch", "delete", "bind"}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: testkit.UniqueID()}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"offloading.liqo.io", "core.liqo.io", "apps", "rbac.authorization.k8s.io", "coordination.k8s.io", "events.k8s.io"}, Resources: []string{"*"}, Verbs: all},
		{APIGroups: []string{""}, Resources: []string{"namespaces", "nodes", "pods", "serviceaccounts", "events"}, Verbs: all},
	}}
	user := rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: role.Name}
	testkit.Create(t, c.Client, role, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name}, Subjects: []rbacv1.Subject{user},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
	})
	vn := vnode("forbidden", testkit.UniqueID(), "")
	vn.Namespace = testkit.Namespace(t, c, "forbidden", map[string]string{names.AllowVirtualNodes: "true"})
	vn.Spec.KubeconfigSecretRef = &corev1.LocalObjectReference{Name: "mine"}
	limited, err := client.New(c.User(t, user.Name), client.Options{Scheme: kube.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	v := &virtualNodes{client: limited, direct: limited, options: VirtualNodeOptions{LiqoNamespace: "liqo"}}
	refused := v.ensureRights(t.Context(), &vn)
	if reason, _ := kube.InvalidReason(refused); reason != "KubeconfigForbidden" {
		t.Fatalf("got %v", refused)
	}
	const want = `liqo-controller-manager may not let the virtual kubelet read Secret "mine": give the ServiceAccount liqo/liqo-controller-manager the verbs get, list and watch on that Secret in namespace `
	if got := vn.Status.Conditions[0]; got.Type != kubeletCondition || got.Status != creating || !strings.HasPrefix(got.Message, want) {
		t.Errorf("condition %+v, want %q", got, want)
	}
	testkit.Create(t, c.Client,
		&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: vn.Namespace, Name: "mine"}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"mine"}, Verbs: []string{"get", "list", "watch"}},
		}},
		&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: vn.Namespace, Name: "mine"}, Subjects: []rbacv1.Subject{user},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "mine"},
		})
	testkit.Eventually(t, patience, func() error { return v.ensureRights(t.Context(), &vn) })
}
