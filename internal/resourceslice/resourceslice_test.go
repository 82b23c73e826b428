// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package resourceslice

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

const patient = 3 * time.Minute

func cluster(t *testing.T) *testkit.ControlPlane {
	t.Helper()
	return testkit.Cluster(t, testkit.WithControllers(
		"certificatesigningrequest-signing-controller", "garbage-collector-controller", "namespace-controller"))
}

// rights are all that the two controllers need: the controller-manager of the tests has no others, so that a missing one
// shows here and not in a real cluster.
var rights = struct{ wide, tenant, home []rbacv1.PolicyRule }{
	wide: []rbacv1.PolicyRule{
		testkit.Rule("authentication.liqo.io", "resourceslices", "get", "list", "watch", "patch"),
		testkit.Rule("authentication.liqo.io", "resourceslices/status", "patch"),
		testkit.Rule("authentication.liqo.io", "resourceslices/finalizers", "update"),
		testkit.Rule("authentication.liqo.io", "identities", "get", "list", "watch", "create", "patch", "delete"),
		testkit.Rule("authentication.liqo.io", "tenants", "get", "list", "watch"),
		testkit.Rule("offloading.liqo.io", "quotas", "get", "list", "watch", "create", "patch", "delete"),
		testkit.Rule("offloading.liqo.io", "virtualnodes", "get", "list", "watch", "create", "patch", "delete"),
		testkit.Rule("certificates.k8s.io", "certificatesigningrequests", "get", "list", "watch", "create", "delete"),
		testkit.Rule("certificates.k8s.io", "certificatesigningrequests/approval", "update"),
		{APIGroups: []string{"certificates.k8s.io"}, Resources: []string{"signers"}, ResourceNames: []string{"kubernetes.io/kube-apiserver-client"}, Verbs: []string{"approve"}},
		testkit.Rule("core.liqo.io", "foreignclusters", "get", "list", "watch"),
		testkit.Rule("rbac.authorization.k8s.io", "clusterrolebindings", "get", "list", "watch"),
		testkit.Rule("rbac.authorization.k8s.io", "rolebindings", "get", "list", "watch"),
		testkit.Rule("storage.k8s.io", "storageclasses", "get", "list", "watch"),
		testkit.Rule("", "namespaces", "get", "list", "watch"),
		testkit.Rule("", "nodes", "get", "list", "watch"),
		testkit.Rule("events.k8s.io", "events", "create", "patch"),
	},
	tenant: []rbacv1.PolicyRule{testkit.Rule("", "secrets", "get", "list", "watch", "create", "patch")},
	home:   []rbacv1.PolicyRule{testkit.Rule("", "secrets", "get")},
}

const managerUser = "controller-manager"

// managerConfig is the connection of the controllers under test.
func managerConfig(t *testing.T, c *testkit.ControlPlane) *rest.Config {
	t.Helper()
	testkit.Allow(t, c, "", managerUser, rights.wide...)
	return c.User(t, managerUser)
}

// tenantNamespace makes the namespace of a peering, in which the controllers may handle Secrets.
func tenantNamespace(t *testing.T, c *testkit.ControlPlane, peer string) string {
	t.Helper()
	ns := testkit.Namespace(t, c, "tenant", map[string]string{names.TenantNamespace: "true", names.RemoteClusterID: peer})
	testkit.Allow(t, c, ns, managerUser, rights.tenant...)
	return ns
}

// wait reads the slice until check finds nothing wrong with it.
func wait(t *testing.T, c client.Client, slice *authv1beta1.ResourceSlice, check func(*authv1beta1.ResourceSlice) error) *authv1beta1.ResourceSlice {
	t.Helper()
	out := &authv1beta1.ResourceSlice{}
	testkit.Eventually(t, patient, func() error {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(slice), out); err != nil {
			return err
		}
		return check(out)
	})
	return out
}

// condition expects a condition with that status and a message that contains why; status "" is no condition.
func condition(kind authv1beta1.ResourceSliceConditionType, status authv1beta1.ResourceSliceConditionStatus, reason string) func(*authv1beta1.ResourceSlice) error {
	return func(slice *authv1beta1.ResourceSlice) error {
		i := slices.IndexFunc(slice.Status.Conditions, func(c authv1beta1.ResourceSliceCondition) bool { return c.Type == kind })
		switch {
		case i < 0 && status == "":
			return nil
		case i < 0:
			return fmt.Errorf("%s is not decided, want %s", kind, status)
		}
		if got := slice.Status.Conditions[i]; got.Status != status || !strings.Contains(got.Message, reason) {
			return fmt.Errorf("%s is %s (%s), want %q with %q", kind, got.Status, got.Message, status, reason)
		}
		return nil
	}
}

func both(checks ...func(*authv1beta1.ResourceSlice) error) func(*authv1beta1.ResourceSlice) error {
	return func(slice *authv1beta1.ResourceSlice) error {
		for _, check := range checks {
			if err := check(slice); err != nil {
				return err
			}
		}
		return nil
	}
}

// clock is a clock that only moves when told to.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Now()} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func run(t *testing.T, c *testkit.ControlPlane, setup func(ctrl.Manager) error) (stop func()) {
	t.Helper()
	return testkit.Manager(t, managerConfig(t, c), kube.ManagerOptions{Name: "test"}, setup)
}

func secretOf(t *testing.T, c *testkit.ControlPlane, namespace, name string) *corev1.Secret {
	t.Helper()
	secret := &corev1.Secret{}
	if err := c.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, secret); err != nil {
		t.Fatal(err)
	}
	return secret
}
