// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"net/http"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

const (
	patient     = 3 * time.Minute
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
		testkit.Rule("authentication.liqo.io", "tenants", "get", "list", "watch", "patch"),
		testkit.Rule("authentication.liqo.io", "tenants/status", "patch"),
		testkit.Rule("authentication.liqo.io", "tenants/finalizers", "update"),
		testkit.Rule("authentication.liqo.io", "identities", "get", "list", "watch", "patch"),
		testkit.Rule("authentication.liqo.io", "identities/status", "patch"),
		testkit.Rule("authentication.liqo.io", "identities/finalizers", "update"),
		testkit.Rule("authentication.liqo.io", "renews", "get", "list", "watch", "create", "patch"),
		testkit.Rule("authentication.liqo.io", "renews/status", "patch"),
		testkit.Rule("networking.liqo.io", "configurations", "get", "list", "watch"),
		testkit.Rule("offloading.liqo.io", "virtualnodes", "get", "list", "watch"),
		testkit.Rule("certificates.k8s.io", "certificatesigningrequests", "get", "list", "watch", "create", "delete"),
		testkit.Rule("certificates.k8s.io", "certificatesigningrequests/approval", "update"),
		{APIGroups: []string{"certificates.k8s.io"}, Resources: []string{"signers"}, ResourceNames: []string{"kubernetes.io/kubelet-serving", "kubernetes.io/kube-apiserver-client"}, Verbs: []string{"approve"}},
		testkit.Rule("rbac.authorization.k8s.io", "clusterrolebindings", "get", "list", "watch", "create", "patch", "delete"),
		testkit.Rule("rbac.authorization.k8s.io", "rolebindings", "get", "list", "watch", "create", "patch", "delete"),
		{APIGroups: []string{"rbac.authorization.k8s.io"}, Resources: []string{"clusterroles"}, ResourceNames: []string{names.RoleVirtualKubeletRemoteWide, names.RoleRemoteControlPlane}, Verbs: []string{"bind"}},
		testkit.Rule("", "namespaces", "get", "list", "watch"),
		testkit.Rule("", "namespaces/finalizers", "update"),
		testkit.Rule("", "nodes", "get", "list", "watch"),
		testkit.Rule("", "pods", "list"),
		testkit.Rule("apps", "replicasets", "get"),
		testkit.Rule("events.k8s.io", "events", "create", "patch"),
	},
	tenant: []rbacv1.PolicyRule{testkit.Rule("", "secrets", "get", "list", "watch", "create", "patch")},
	home:   []rbacv1.PolicyRule{testkit.Rule("", "secrets", "get", "list", "watch", "create", "patch")},
}

// run starts a manager with those rights.
func run(t *testing.T, c *testkit.ControlPlane, setup func(ctrl.Manager) error) {
	t.Helper()
	runAnswered(t, c, func(*http.Request) (*http.Response, error) { return nil, nil }, setup)
}

// runAnswered starts one that answer comes before the API server for.
func runAnswered(t *testing.T, c *testkit.ControlPlane, response func(*http.Request) (*http.Response, error), setup func(ctrl.Manager) error) {
	t.Helper()
	testkit.Allow(t, c, "", managerUser, rights.wide...)
	for _, role := range []string{names.RoleVirtualKubeletRemoteWide, names.RoleRemoteControlPlane} {
		testkit.Ensure(t, c, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: role}})
	}
	testkit.Manager(t, testkit.Answered(c.User(t, managerUser), response), kube.ManagerOptions{Name: "test"}, setup)
}

func liqoNamespace(t *testing.T, c *testkit.ControlPlane) string {
	t.Helper()
	ns := testkit.Namespace(t, c, "liqo", nil)
	testkit.Allow(t, c, ns, managerUser, rights.home...)
	return ns
}

func tenantNamespace(t *testing.T, c *testkit.ControlPlane, peer string) string {
	t.Helper()
	ns := testkit.Namespace(t, c, "tenant", map[string]string{names.TenantNamespace: "true", names.RemoteClusterID: peer})
	testkit.Allow(t, c, ns, managerUser, rights.tenant...)
	return ns
}
