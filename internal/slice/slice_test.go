// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package slice

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

const patient = time.Minute

func cluster(t *testing.T) *testkit.ControlPlane {
	t.Helper()
	return testkit.Cluster(t, testkit.WithControllers(
		"certificatesigningrequest-signing-controller", "garbage-collector-controller", "namespace-controller"))
}

// rights are all that the two controllers need: the controller-manager of the tests has no others, so that a missing one
// shows here and not in a real cluster.
var rights = struct{ wide, tenant, home []rbacv1.PolicyRule }{
	wide: []rbacv1.PolicyRule{
		rule("authentication.liqo.io", "resourceslices", "get", "list", "watch", "patch"),
		rule("authentication.liqo.io", "resourceslices/status", "patch"),
		rule("authentication.liqo.io", "resourceslices/finalizers", "update"),
		rule("authentication.liqo.io", "identities", "get", "list", "watch", "create", "patch", "delete"),
		rule("authentication.liqo.io", "tenants", "get", "list", "watch"),
		rule("offloading.liqo.io", "quotas", "get", "list", "watch", "create", "patch", "delete"),
		rule("offloading.liqo.io", "virtualnodes", "get", "list", "watch", "create", "patch", "delete"),
		rule("certificates.k8s.io", "certificatesigningrequests", "get", "list", "watch", "create", "delete"),
		rule("certificates.k8s.io", "certificatesigningrequests/approval", "update"),
		{APIGroups: []string{"certificates.k8s.io"}, Resources: []string{"signers"}, ResourceNames: []string{"kubernetes.io/kube-apiserver-client"}, Verbs: []string{"approve"}},
		rule("storage.k8s.io", "storageclasses", "get", "list", "watch"),
		rule("", "namespaces", "get", "list", "watch"),
		rule("", "nodes", "get", "list", "watch"),
		rule("events.k8s.io", "events", "create", "patch"),
	},
	tenant: []rbacv1.PolicyRule{rule("", "secrets", "get", "create", "patch")},
	home:   []rbacv1.PolicyRule{rule("", "secrets", "get")},
}

func rule(group, resource string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
}

const managerUser = "controller-manager"

// managerConfig is the connection of the controllers under test.
func managerConfig(t *testing.T, c *testkit.ControlPlane) *rest.Config {
	t.Helper()
	meta := metav1.ObjectMeta{Name: "slice-test"}
	ensure(t, c, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rights.wide})
	ensure(t, c, &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: managerUser}},
	})
	return c.User(t, managerUser)
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

// tenantNamespace makes the namespace of a peering, in which the controllers may handle Secrets.
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

func updateStatus[T client.Object](t *testing.T, c client.Client, obj T, edit func(T)) {
	t.Helper()
	testkit.Eventually(t, patient, func() error {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
			return err
		}
		edit(obj)
		return c.Status().Update(t.Context(), obj)
	})
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
func condition(kind authv1beta1.ResourceSliceConditionType, status authv1beta1.ResourceSliceConditionStatus, why string) func(*authv1beta1.ResourceSlice) error {
	return func(slice *authv1beta1.ResourceSlice) error {
		i := slices.IndexFunc(slice.Status.Conditions, func(c authv1beta1.ResourceSliceCondition) bool { return c.Type == kind })
		switch {
		case i < 0 && status == "":
			return nil
		case i < 0:
			return fmt.Errorf("%s is not decided, want %s", kind, status)
		}
		if have := slice.Status.Conditions[i]; have.Status != status || !strings.Contains(have.Message, why) {
			return fmt.Errorf("%s is %s (%s), want %q with %q", kind, have.Status, have.Message, status, why)
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
