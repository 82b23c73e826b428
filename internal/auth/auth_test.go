// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"fmt"
	"strings"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

const (
	patient     = time.Minute
	managerUser = "controller-manager"
)

func cluster(t *testing.T) *testkit.ControlPlane {
	t.Helper()
	return testkit.Cluster(t, testkit.WithControllers(
		"certificatesigningrequest-signing-controller", "garbage-collector-controller", "namespace-controller"))
}

// rights are all that the controllers need: the controller-manager of the tests has no others, so that a missing one
// shows here and not in a real cluster.
var rights = struct{ wide, tenant, home []rbacv1.PolicyRule }{
	wide: []rbacv1.PolicyRule{
		rule("authentication.liqo.io", "tenants", "get", "list", "watch", "patch"),
		rule("authentication.liqo.io", "tenants/status", "patch"),
		rule("authentication.liqo.io", "identities", "get", "list", "watch"),
		rule("authentication.liqo.io", "identities/status", "patch"),
		rule("authentication.liqo.io", "identities/finalizers", "update"),
		rule("offloading.liqo.io", "virtualnodes", "get", "list", "watch"),
		rule("certificates.k8s.io", "certificatesigningrequests", "get", "list", "watch"),
		rule("certificates.k8s.io", "certificatesigningrequests/approval", "update"),
		{APIGroups: []string{"certificates.k8s.io"}, Resources: []string{"signers"}, ResourceNames: []string{"kubernetes.io/kubelet-serving"}, Verbs: []string{"approve"}},
		rule("rbac.authorization.k8s.io", "clusterrolebindings", "get", "list", "watch", "create", "patch", "delete"),
		rule("rbac.authorization.k8s.io", "rolebindings", "get", "list", "watch"),
		{APIGroups: []string{"rbac.authorization.k8s.io"}, Resources: []string{"clusterroles"}, ResourceNames: []string{names.RoleVirtualKubeletRemoteWide}, Verbs: []string{"bind"}},
		rule("", "namespaces", "get", "list", "watch"),
		rule("", "namespaces/finalizers", "update"),
		rule("", "pods", "list"),
		rule("apps", "replicasets", "get"),
		rule("events.k8s.io", "events", "create", "patch"),
	},
	tenant: []rbacv1.PolicyRule{rule("", "secrets", "get", "list", "watch", "create", "patch")},
	home:   []rbacv1.PolicyRule{rule("", "secrets", "get", "list", "watch", "create", "patch")},
}

func rule(group, resource string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
}

// run starts a manager with those rights.
func run(t *testing.T, c *testkit.ControlPlane, setup func(ctrl.Manager) error) {
	t.Helper()
	meta := metav1.ObjectMeta{Name: "auth-test"}
	ensure(t, c, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rights.wide})
	ensure(t, c, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: names.RoleVirtualKubeletRemoteWide}})
	ensure(t, c, &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: managerUser}},
	})
	testkit.Manager(t, c.User(t, managerUser), kube.ManagerOptions{Name: "test"}, setup)
}

// allow gives a user rights in one namespace.
func allow(t *testing.T, c *testkit.ControlPlane, namespace, user string, rules ...rbacv1.PolicyRule) {
	t.Helper()
	meta := metav1.ObjectMeta{Namespace: namespace, Name: user}
	ensure(t, c, &rbacv1.Role{ObjectMeta: meta, Rules: rules})
	ensure(t, c, &rbacv1.RoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	})
}

func ensure(t *testing.T, c *testkit.ControlPlane, obj client.Object) {
	t.Helper()
	if _, err := kube.Ensure(t.Context(), c.Client, obj); err != nil {
		t.Fatal(err)
	}
}

func create(t *testing.T, c client.Client, objs ...client.Object) {
	t.Helper()
	for _, obj := range objs {
		if err := c.Create(t.Context(), obj); err != nil {
			t.Fatalf("creating %T: %v", obj, err)
		}
	}
}

func liqoNamespace(t *testing.T, c *testkit.ControlPlane) string {
	t.Helper()
	ns := testkit.Namespace(t, c, "liqo", nil)
	allow(t, c, ns, managerUser, rights.home...)
	return ns
}

func tenantNamespace(t *testing.T, c *testkit.ControlPlane, peer string) string {
	t.Helper()
	ns := testkit.Namespace(t, c, "tenant", map[string]string{names.TenantNamespace: "true", names.RemoteClusterID: peer})
	allow(t, c, ns, managerUser, rights.tenant...)
	return ns
}

// uniqueID is another cluster's ID in every test: the API server is shared.
func uniqueID(t *testing.T) string {
	t.Helper()
	return fmt.Sprintf("peer-%d", time.Now().UnixNano())
}

// update changes an object until nobody was faster.
func update[T client.Object](t *testing.T, c client.Client, obj T, edit func(T)) {
	t.Helper()
	testkit.Eventually(t, patient, func() error {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
			return err
		}
		edit(obj)
		return c.Update(t.Context(), obj)
	})
}

// wantEvent expects an event about an object.
func wantEvent(t *testing.T, c *testkit.ControlPlane, obj client.Object, reason, text string) {
	t.Helper()
	testkit.Eventually(t, patient, func() error {
		var list eventsv1.EventList
		if err := c.Client.List(t.Context(), &list, client.InNamespace(obj.GetNamespace())); err != nil {
			return err
		}
		var seen []string
		for _, e := range list.Items {
			if e.Regarding.Name == obj.GetName() && e.Reason == reason && strings.Contains(e.Note, text) {
				return nil
			}
			seen = append(seen, e.Regarding.Name+" "+e.Reason+": "+e.Note)
		}
		return fmt.Errorf("no event %s on %s with %q among %q", reason, obj.GetName(), text, seen)
	})
}
