// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/policy"
	"liqo.io/liqo/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

const patience = 3 * time.Minute

// provider is a cluster with our controllers and those of Kubernetes that they count on.
func provider(t *testing.T, o NamespaceMapOptions) *testkit.ControlPlane {
	t.Helper()
	c := testkit.Cluster(t, testkit.WithControllers("namespace-controller", "garbage-collector-controller", "serviceaccount-controller"))
	replica(t, c, kube.ManagerOptions{Name: "host"}, o, ShadowPodOptions{})
	return c
}

// replica is one process of the provider.
func replica(t *testing.T, c *testkit.ControlPlane, m kube.ManagerOptions, o NamespaceMapOptions, p ShadowPodOptions) (stop func()) {
	t.Helper()
	if p.Youth == 0 {
		p.Youth = time.Nanosecond
	}
	return testkit.Manager(t, c.Config, m, func(mgr ctrl.Manager) error {
		o.LiqoNamespace = "liqo"
		return errors.Join(SetupNamespaceMaps(mgr, o), SetupShadowPods(mgr, p), SetupShadowEndpointSlices(mgr, ShadowEndpointSliceOptions{LiqoNamespace: "liqo"}))
	})
}

// consumer makes what a consumer and the administrator have before the first offloading, and a NamespaceMap.
func consumer(t *testing.T, c *testkit.ControlPlane, id string, desired map[string]string) *offv1beta1.NamespaceMap {
	t.Helper()
	nm := stranger(t, c, id, desired)
	setTenantReady(t, c, nm.Namespace, metav1.ConditionTrue, "TenantReady")
	grant(t, c, nm.Namespace, "pool-"+id)
	return nm
}

// stranger is a consumer whose Tenant nobody has judged, and who was granted nothing.
func stranger(t *testing.T, c *testkit.ControlPlane, id string, desired map[string]string) *offv1beta1.NamespaceMap {
	t.Helper()
	namespace := testkit.Namespace(t, c, "peering-"+id, map[string]string{names.RemoteClusterID: id, names.TenantNamespace: "true"})
	tenant := &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: id}}
	tenant.Spec.ClusterID = liqov1beta1.ClusterID(id)
	nm := &offv1beta1.NamespaceMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "provider", Labels: map[string]string{
			names.Replicated: "true", names.ReplicationOrigin: id, names.RemoteClusterID: id,
		}},
		Spec: offv1beta1.NamespaceMapSpec{DesiredMapping: desired},
	}
	for _, obj := range []client.Object{tenant, nm} {
		if err := c.Client.Create(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
	// Its twins go while the manager of a later test runs, or with the servers.
	t.Cleanup(func() { _ = c.Client.Delete(context.Background(), nm) })
	return nm
}

func mapping(t *testing.T, c *testkit.ControlPlane, nm *offv1beta1.NamespaceMap, local, remote string, phase offv1beta1.MappingPhase) {
	t.Helper()
	testkit.Eventually(t, patience, func() error {
		if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(nm), nm); err != nil {
			return err
		}
		if got := nm.Status.CurrentMapping[local]; got.RemoteNamespace != remote || got.Phase != phase {
			return fmt.Errorf("mapping of %s is %+v, want %s %s", local, got, remote, phase)
		}
		return nil
	})
}

func eventually(t *testing.T, c *testkit.ControlPlane, obj client.Object, check func() error) {
	t.Helper()
	testkit.Eventually(t, patience, func() error {
		if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
			return err
		}
		return check()
	})
}

func waitUntilDeleted(t *testing.T, c *testkit.ControlPlane, obj client.Object) {
	t.Helper()
	testkit.Eventually(t, patience, func() error {
		if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); !apierrors.IsNotFound(err) {
			return fmt.Errorf("%T %s is still there (%v)", obj, obj.GetName(), err)
		}
		return nil
	})
}

func waitForEvent(t *testing.T, c *testkit.ControlPlane, obj client.Object, reason, text string) {
	t.Helper()
	testkit.Eventually(t, patience, func() error {
		list := &eventsv1.EventList{}
		if err := c.Client.List(t.Context(), list, client.InNamespace(obj.GetNamespace())); err != nil {
			return err
		}
		for i := range list.Items {
			e := &list.Items[i]
			if e.Regarding.Name == obj.GetName() && e.Reason == reason && strings.Contains(e.Note, text) {
				return nil
			}
		}
		return fmt.Errorf("none of %d events is %s with %q", len(list.Items), reason, text)
	})
}

// countEvents returns how often an object was told of.
func countEvents(t *testing.T, c *testkit.ControlPlane, obj client.Object, reason, text string) (count int) {
	t.Helper()
	list := &eventsv1.EventList{}
	if err := c.Client.List(t.Context(), list, client.InNamespace(obj.GetNamespace())); err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		e := &list.Items[i]
		if e.Regarding.Name != obj.GetName() || e.Reason != reason || !strings.Contains(e.Note, text) {
			continue
		}
		count++
		if e.Series != nil {
			count += int(e.Series.Count) - 1
		}
	}
	return count
}

func namespaceOf(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func bindingIn(nm *offv1beta1.NamespaceMap, namespace string) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: nm.Namespace}}
}

func TestRemoteNamespaces(t *testing.T) {
	c := provider(t, NamespaceMapOptions{Version: "v1.3.0"})
	nm := consumer(t, c, "blue", map[string]string{"demo": "demo-blue", "taken": "taken-blue"})
	mapping(t, c, nm, "demo", "demo-blue", offv1beta1.MappingAccepted)
	answered := &offv1beta1.NamespaceMap{}
	if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(nm), answered); err != nil || answered.Status.ProviderVersion != "v1.3.0" || len(answered.Status.ProviderCapabilities) == 0 {
		t.Errorf("the consumer is told of version %q, capable of %v, %v", answered.Status.ProviderVersion, answered.Status.ProviderCapabilities, err)
	}

	remoteNamespace := namespaceOf("demo-blue")
	eventually(t, c, remoteNamespace, func() error {
		if remoteNamespace.Labels[names.RemoteClusterID] != "blue" || remoteNamespace.Labels[policy.PodSecurityLabel] != "baseline" || remoteNamespace.Annotations[names.OriginalName] != "demo" {
			return fmt.Errorf("labels %v, annotations %v", remoteNamespace.Labels, remoteNamespace.Annotations)
		}
		return nil
	})
	rb := bindingIn(nm, "demo-blue")
	eventually(t, c, rb, func() error {
		if len(rb.Subjects) != 1 || rb.Subjects[0].Name != "pool-blue" || rb.Subjects[0].Kind != rbacv1.UserKind || rb.RoleRef.Name != names.RoleVirtualKubeletRemote {
			return fmt.Errorf("binding = %+v", rb)
		}
		return nil
	})

	t.Run("removed bindings are recreated", func(t *testing.T) {
		uid := rb.UID
		if err := c.Client.Delete(t.Context(), rb); err != nil {
			t.Fatal(err)
		}
		rb := bindingIn(nm, "demo-blue")
		testkit.Eventually(t, patience, func() error {
			if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(rb), rb); err != nil {
				return err
			}
			if rb.UID == uid {
				return errors.New("still the old one")
			}
			return nil
		})
	})
	t.Run("existing namespace blocks creation until deleted", func(t *testing.T) {
		inTheWay := namespaceOf("shop-blue")
		if err := c.Client.Create(t.Context(), inTheWay); err != nil {
			t.Fatal(err)
		}
		desire(t, c, nm, "shop", "shop-blue")
		mapping(t, c, nm, "shop", "shop-blue", offv1beta1.MappingCreationLoopBackOff)
		waitForEvent(t, c, nm, "CreationLoopBackOff", `"shop-blue" already exists`)
		if got := nm.Status.CurrentMapping["shop"]; got.Reason != offv1beta1.MappingNamespaceExists || !strings.Contains(got.Message, `"shop-blue" already exists`) {
			t.Errorf("the consumer is told %+v", got)
		}
		if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(inTheWay), inTheWay); err != nil || inTheWay.Labels[names.RemoteClusterID] != "" {
			t.Fatalf("the namespace of somebody else was changed: %v, %v", inTheWay.Labels, err)
		}
		if err := c.Client.Delete(t.Context(), inTheWay); err != nil {
			t.Fatal(err)
		}
		mapping(t, c, nm, "shop", "shop-blue", offv1beta1.MappingAccepted)
		if got := nm.Status.CurrentMapping["shop"]; got.Reason != "" || got.Message != "" {
			t.Errorf("the consumer is still told %+v", got)
		}
	})
	t.Run("a reserved name is refused", func(t *testing.T) {
		desire(t, c, nm, "system", "kube-system")
		mapping(t, c, nm, "system", "kube-system", offv1beta1.MappingCreationLoopBackOff)
		desire(t, c, nm, "system", nm.Namespace)
		mapping(t, c, nm, "system", nm.Namespace, offv1beta1.MappingCreationLoopBackOff)
		desire(t, c, nm, "system", "")
	})
	t.Run("unwanted namespace is deleted", func(t *testing.T) {
		desire(t, c, nm, "shop", "")
		waitUntilDeleted(t, c, namespaceOf("shop-blue"))
		testkit.Eventually(t, patience, func() error {
			if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(nm), nm); err != nil {
				return err
			}
			if left, exists := nm.Status.CurrentMapping["shop"]; exists {
				return fmt.Errorf("the mapping is still %v", left)
			}
			return nil
		})
	})
	t.Run("drained consumer", func(t *testing.T) { drainStory(t, c, nm) })
	t.Run("the last one goes with the map", func(t *testing.T) {
		if err := c.Client.Delete(t.Context(), nm); err != nil {
			t.Fatal(err)
		}
		waitUntilDeleted(t, c, namespaceOf("demo-blue"))
		waitUntilDeleted(t, c, nm)
	})
}

// desire changes one wish of the consumer; no remote name withdraws it.
func desire(t *testing.T, c *testkit.ControlPlane, nm *offv1beta1.NamespaceMap, local, remote string) {
	t.Helper()
	before := nm.DeepCopy()
	if remote == "" {
		delete(nm.Spec.DesiredMapping, local)
	} else {
		nm.Spec.DesiredMapping[local] = remote
	}
	if err := c.Client.Patch(t.Context(), nm, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

func switchTenant(t *testing.T, c *testkit.ControlPlane, namespace string, to authv1beta1.TenantCondition) {
	t.Helper()
	tenant := tenantIn(t, c, namespace)
	before := tenant.DeepCopy()
	tenant.Spec.TenantCondition = to
	if err := c.Client.Patch(t.Context(), tenant, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

func drainStory(t *testing.T, c *testkit.ControlPlane, nm *offv1beta1.NamespaceMap) {
	data := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "demo-blue", Name: "data"}}
	if err := c.Client.Create(t.Context(), data); err != nil {
		t.Fatal(err)
	}
	sp := shadowOf("demo-blue", "drained", "blue")
	if err := c.Client.Create(t.Context(), sp); err != nil {
		t.Fatal(err)
	}
	eventually(t, c, podNamed("demo-blue", "drained"), func() error { return nil })
	stuck := shadowOf("demo-blue", "stuck", "blue")
	stuck.Finalizers = []string{"example.com/kept"}
	if err := c.Client.Create(t.Context(), stuck); err != nil {
		t.Fatal(err)
	}
	eventually(t, c, podNamed("demo-blue", "stuck"), func() error { return nil })
	switchTenant(t, c, nm.Namespace, authv1beta1.TenantConditionDrained)
	waitUntilDeleted(t, c, bindingIn(nm, "demo-blue"))
	waitUntilDeleted(t, c, sp)
	waitUntilDeleted(t, c, podNamed("demo-blue", "drained"))
	waitUntilDeleted(t, c, podNamed("demo-blue", "stuck"))
	if err := c.Client.Patch(t.Context(), stuck, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))); err != nil {
		t.Fatal(err)
	}
	waitUntilDeleted(t, c, stuck)
	mapping(t, c, nm, "demo", "demo-blue", offv1beta1.MappingCreationLoopBackOff)
	switchTenant(t, c, nm.Namespace, authv1beta1.TenantConditionActive)
	setTenantReady(t, c, nm.Namespace, metav1.ConditionTrue, "TenantReady")
	mapping(t, c, nm, "demo", "demo-blue", offv1beta1.MappingAccepted)
	eventually(t, c, bindingIn(nm, "demo-blue"), func() error { return nil })
	if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(data), data); err != nil {
		t.Errorf("draining destroyed data: %v", err)
	}
}

func TestRemoteNamespacesWithoutTenant(t *testing.T) {
	c := provider(t, NamespaceMapOptions{})
	nm := consumer(t, c, "green", map[string]string{"demo": "demo-green"})
	mapping(t, c, nm, "demo", "demo-green", offv1beta1.MappingAccepted)
	if err := c.Client.DeleteAllOf(t.Context(), &authv1beta1.Tenant{}, client.InNamespace(nm.Namespace)); err != nil {
		t.Fatal(err)
	}
	waitUntilDeleted(t, c, bindingIn(nm, "demo-green"))
	desire(t, c, nm, "more", "more-green")
	mapping(t, c, nm, "more", "more-green", offv1beta1.MappingCreationLoopBackOff)
	mapping(t, c, nm, "demo", "demo-green", offv1beta1.MappingAccepted)
	if err := c.Client.Get(t.Context(), client.ObjectKey{Name: "demo-green"}, namespaceOf("")); err != nil {
		t.Error(err)
	}
}

func TestRemoteNamespacesLimit(t *testing.T) {
	c := provider(t, NamespaceMapOptions{MaxNamespaces: 1, PodSecurity: policy.PodSecurityRestricted})
	nm := consumer(t, c, "grey", map[string]string{"a": "a-grey", "b": "b-grey"})
	mapping(t, c, nm, "a", "a-grey", offv1beta1.MappingAccepted)
	mapping(t, c, nm, "b", "b-grey", offv1beta1.MappingCreationLoopBackOff)
	waitForEvent(t, c, nm, "CreationLoopBackOff", "the limit of 1 namespaces")
	remoteNamespace := namespaceOf("a-grey")
	eventually(t, c, remoteNamespace, func() error { return nil })
	if remoteNamespace.Labels[policy.PodSecurityLabel] != policy.PodSecurityRestricted {
		t.Errorf("labels = %v", remoteNamespace.Labels)
	}
	levelIs := func(want string) {
		t.Helper()
		eventually(t, c, nm, func() error {
			if got := nm.Status.CurrentMapping["a"].PodSecurity; got != want {
				return fmt.Errorf("the consumer is told of the level %q, not %q", got, want)
			}
			return nil
		})
	}
	levelIs(policy.PodSecurityRestricted)
	testkit.Update(t, c.Client, remoteNamespace, func(remoteNamespace *corev1.Namespace) {
		remoteNamespace.Labels[policy.PodSecurityLabel] = policy.PodSecurityPrivileged
	})
	levelIs(policy.PodSecurityPrivileged)
	desire(t, c, nm, "a", "")
	mapping(t, c, nm, "b", "b-grey", offv1beta1.MappingAccepted)
}

// An add-on that was removed, or that comes later, leaves bindings whose rights a consumer would have by pods under the ServiceAccount.
func TestBoundNamespaces(t *testing.T) {
	c := provider(t, NamespaceMapOptions{})
	bindingTo := func(name, namespace string) *rbacv1.ClusterRoleBinding {
		return &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: "default"}},
		}
	}
	group := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "addon-pewter"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:serviceaccounts:group-pewter"}},
	}
	account := bindingTo("addon-pewter", "account-pewter")
	testkit.Create(t, c.Client, account, group)
	nm := consumer(t, c, "pewter", map[string]string{"a": "account-pewter", "g": "group-pewter", "later": "later-pewter"})
	mapping(t, c, nm, "a", "account-pewter", offv1beta1.MappingCreationLoopBackOff)
	mapping(t, c, nm, "g", "group-pewter", offv1beta1.MappingCreationLoopBackOff)
	mapping(t, c, nm, "later", "later-pewter", offv1beta1.MappingAccepted)
	if got := nm.Status.CurrentMapping["a"]; got.Reason != offv1beta1.MappingNameBound || strings.Contains(got.Message, "addon-pewter") {
		t.Errorf("the consumer is told %+v", got)
	}
	waitForEvent(t, c, nm, "CreationLoopBackOff", "ClusterRoleBinding addon-pewter grants permissions")
	waitForEvent(t, c, nm, "CreationLoopBackOff", "RoleBinding default/addon-pewter grants permissions")

	t.Run("a_binding_that_comes_later_is_told", func(t *testing.T) {
		testkit.Create(t, c.Client, bindingTo("later-pewter", "later-pewter"))
		waitForEvent(t, c, nm, "NameBound", "ClusterRoleBinding later-pewter grants permissions")
		mapping(t, c, nm, "later", "later-pewter", offv1beta1.MappingAccepted)
	})
	t.Run("a_binding_that_goes_makes_room", func(t *testing.T) {
		if err := c.Client.Delete(t.Context(), group); err != nil {
			t.Fatal(err)
		}
		mapping(t, c, nm, "g", "group-pewter", offv1beta1.MappingAccepted)
	})
	t.Run("binding_labelled_with_consumer_is_allowed", func(t *testing.T) {
		testkit.Update(t, c.Client, account, func(b *rbacv1.ClusterRoleBinding) { b.Labels = map[string]string{names.RemoteClusterID: "pewter"} })
		mapping(t, c, nm, "a", "account-pewter", offv1beta1.MappingAccepted)
	})
}

func TestNamespaceMapPrecedence(t *testing.T) {
	c := provider(t, NamespaceMapOptions{})
	first := consumer(t, c, "zinc", map[string]string{})
	second := first.DeepCopy()
	second.ObjectMeta = metav1.ObjectMeta{Namespace: first.Namespace, Name: "second", Labels: first.Labels}
	second.Spec.DesiredMapping = map[string]string{"demo": "demo-zinc"}
	testkit.Create(t, c.Client, second)
	mapping(t, c, second, "demo", "demo-zinc", offv1beta1.MappingCreationLoopBackOff)
	if got := second.Status.CurrentMapping["demo"].Reason; got != offv1beta1.MappingNotTheOldest {
		t.Errorf("reason = %s", got)
	}
	if err := c.Client.Delete(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	mapping(t, c, second, "demo", "demo-zinc", offv1beta1.MappingAccepted)
}

func TestNamespaceMapSize(t *testing.T) {
	c := testkit.Cluster(t)
	namespace := testkit.Namespace(t, c, "bounds", nil)
	for name, desired := range map[string]map[string]string{
		"long-name": {"demo": strings.Repeat("a", 321)}, "long-key": {strings.Repeat("a", 64): "demo"}, "no-name": {"demo": ""}, "many": {},
	} {
		if name == "many" {
			for i := range 1001 {
				desired[fmt.Sprint("n-", i)] = "x"
			}
		}
		nm := &offv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: offv1beta1.NamespaceMapSpec{DesiredMapping: desired}}
		if err := c.Client.Create(t.Context(), nm); !apierrors.IsInvalid(err) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// A consumer that asks for many namespaces gets all of them, in several turns.
func TestNamespaceMapFairness(t *testing.T) {
	desired := map[string]string{}
	for i := range 2*turn + 1 {
		desired[fmt.Sprint("n-", i)] = fmt.Sprint("n-", i, "-iron")
	}
	c := provider(t, NamespaceMapOptions{})
	nm := consumer(t, c, "iron", desired)
	for local, remote := range desired {
		mapping(t, c, nm, local, remote, offv1beta1.MappingAccepted)
	}
}

// denying is a client that makes no namespaces of these names.
type denying struct {
	client.Client
	denied map[string]bool
}

func (d denying) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	if _, ok := obj.(*corev1.Namespace); ok && d.denied[obj.GetName()] {
		return apierrors.NewForbidden(corev1.Resource("namespaces"), obj.GetName(), errors.New("denied by a policy"))
	}
	return d.Client.Create(ctx, obj, opts...)
}

// However many namespaces a policy of the provider denies, the others are made.
func TestNamespaceMapDenials(t *testing.T) {
	desired, denied := map[string]string{}, map[string]bool{}
	for i := range 2*maxMissed + 3 {
		name := fmt.Sprintf("n-%02d-lead", i)
		desired[fmt.Sprintf("n-%02d", i)], denied[name] = name, true
	}
	desired["wanted"] = "wanted-lead"
	c := testkit.Cluster(t, testkit.WithControllers("namespace-controller"))
	nm := consumer(t, c, "lead", desired)
	s := &namespaceMaps{client: denying{c.Client, denied}, live: c.Client, options: NamespaceMapOptions{LiqoNamespace: "liqo", MaxNamespaces: 99, PodSecurity: "baseline"}}
	in := mapInput{desired: desired, owner: ownerKey(nm), tenant: nm.Namespace, consumer: "lead", limit: 99, level: "baseline", access: granted}
	for range 3 {
		if err := s.applyMap(t.Context(), nm, in); err == nil {
			t.Fatal("it says nothing of the namespaces that are denied")
		}
	}
	if err := c.Client.Get(t.Context(), client.ObjectKey{Name: "wanted-lead"}, &corev1.Namespace{}); err != nil {
		t.Error(err)
	}
}

func TestDroppedMetadata(t *testing.T) {
	c := testkit.Cluster(t, testkit.WithControllers("namespace-controller", "garbage-collector-controller", "serviceaccount-controller"))
	replica(t, c, kube.ManagerOptions{Name: "host"}, NamespaceMapOptions{}, ShadowPodOptions{DroppedMetadata: []string{"k8s.v1.cni.cncf.io/*"}})
	nm := consumer(t, c, "tin", map[string]string{"demo": "demo-tin"})
	mapping(t, c, nm, "demo", "demo-tin", offv1beta1.MappingAccepted)
	sp, pod := shadowOf("demo-tin", "web", "tin"), podNamed("demo-tin", "web")
	sp.Annotations["k8s.v1.cni.cncf.io/networks"] = "kube-system/host-bridge"
	sp.Labels["networking.liqo.io/component"] = "gateway"
	testkit.Create(t, c.Client, sp)
	check := func() error {
		_, label := pod.Labels["networking.liqo.io/component"]
		_, annotation := pod.Annotations["k8s.v1.cni.cncf.io/networks"]
		if label || annotation || pod.Labels["app"] == "" || pod.Labels[names.OffloadingOrigin] != "tin" {
			return fmt.Errorf("labels %v, annotations %v", pod.Labels, pod.Annotations)
		}
		return nil
	}
	eventually(t, c, pod, check)

	// Nor do they by a later change.
	testkit.Update(t, c.Client, sp, func(sp *offv1beta1.ShadowPod) {
		sp.Labels["networking.liqo.io/gateway-name"], sp.Labels["tier"] = "x", "changed"
		sp.Annotations["k8s.v1.cni.cncf.io/networks"] = "kube-system/other"
	})
	eventually(t, c, pod, func() error {
		if _, label := pod.Labels["networking.liqo.io/gateway-name"]; label || pod.Labels["tier"] != "changed" {
			return fmt.Errorf("labels = %v", pod.Labels)
		}
		return check()
	})
}

func TestDefaultLimits(t *testing.T) {
	quantity := resource.MustParse
	c := testkit.Cluster(t, testkit.WithControllers("namespace-controller", "garbage-collector-controller", "serviceaccount-controller", "resourcequota-controller"))
	replica(t, c, kube.ManagerOptions{Name: "host"}, NamespaceMapOptions{
		Quota: corev1.ResourceList{"count/configmaps": quantity("3")}, Requests: corev1.ResourceList{"cpu": quantity("10m")},
	}, ShadowPodOptions{})
	nm := consumer(t, c, "lead", map[string]string{"demo": "demo-lead"})
	mapping(t, c, nm, "demo", "demo-lead", offv1beta1.MappingAccepted)

	// The root CA that Kubernetes puts there counts, too, where its controller runs.
	var err error
	for i := 0; err == nil && i < 5; i++ {
		err = c.Client.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "demo-lead", Name: fmt.Sprint("c", i)}})
	}
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "exceeded quota: liqo-default") {
		t.Errorf("ConfigMaps are not counted: %v", err)
	}
	sp, pod := shadowOf("demo-lead", "web", "lead"), podNamed("demo-lead", "web")
	testkit.Create(t, c.Client, sp)
	eventually(t, c, pod, func() error {
		if got := pod.Spec.Containers[0].Resources.Requests.Cpu(); got.String() != "10m" {
			return fmt.Errorf("the container requests %s", got)
		}
		return nil
	})

	t.Run("what_the_administrator_changes_stays", func(t *testing.T) {
		quota := &corev1.ResourceQuota{ObjectMeta: defaultMeta("demo-lead")}
		limits := &corev1.LimitRange{ObjectMeta: defaultMeta("demo-lead")}
		testkit.Update(t, c.Client, quota, func(q *corev1.ResourceQuota) { q.Spec.Hard["count/configmaps"] = quantity("50") })
		if err := c.Client.Delete(t.Context(), limits); err != nil {
			t.Fatal(err)
		}
		// The controller has looked at the namespace again when it has put the label back and made another namespace.
		remoteNamespace := namespaceOf("demo-lead")
		testkit.Update(t, c.Client, remoteNamespace, func(n *corev1.Namespace) { delete(n.Labels, policy.PodSecurityLabel) })
		eventually(t, c, remoteNamespace, func() error {
			if remoteNamespace.Labels[policy.PodSecurityLabel] == "" {
				return errors.New("no level")
			}
			return nil
		})
		desire(t, c, nm, "next", "next-lead")
		mapping(t, c, nm, "next", "next-lead", offv1beta1.MappingAccepted)
		if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(quota), quota); err != nil || quota.Spec.Hard.Name("count/configmaps", resource.DecimalSI).Value() != 50 {
			t.Errorf("the quota is %v, %v", quota.Spec.Hard, err)
		}
		if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(limits), limits); !apierrors.IsNotFound(err) {
			t.Errorf("the LimitRange is back: %v", err)
		}
	})
}

func shadowOf(namespace, name, origin string) *offv1beta1.ShadowPod {
	return &offv1beta1.ShadowPod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name,
			Labels:      map[string]string{names.OffloadingOrigin: origin, "app": "web", "tier": "front"},
			Annotations: map[string]string{"note": "1"},
		},
		Spec: offv1beta1.ShadowPodSpec{Pod: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "web", Image: "web:1", Ports: []corev1.ContainerPort{{ContainerPort: 80}, {Name: "same", ContainerPort: 80}}}},
		}},
	}
}

func podNamed(namespace, name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

func TestShadowPods(t *testing.T) {
	c := provider(t, NamespaceMapOptions{})
	nm := consumer(t, c, "gold", map[string]string{"demo": "demo-gold"})
	mapping(t, c, nm, "demo", "demo-gold", offv1beta1.MappingAccepted)
	ctx := t.Context()

	sp, pod := shadowOf("demo-gold", "web", "gold"), podNamed("demo-gold", "web")
	if err := c.Client.Create(ctx, sp); err != nil {
		t.Fatal(err)
	}
	eventually(t, c, pod, func() error {
		if !metav1.IsControlledBy(pod, sp) || pod.Labels[names.ManagedBy] != "shadowpod" || pod.Labels["app"] != "web" || pod.Annotations["note"] != "1" {
			return fmt.Errorf("pod metadata = %+v", pod.ObjectMeta)
		}
		return nil
	})

	t.Run("labels and annotations are updated and removed", func(t *testing.T) {
		testkit.Update(t, c.Client, pod, func(p *corev1.Pod) { p.Labels["theirs"] = "stays" })
		before := sp.DeepCopy()
		delete(sp.Labels, "tier")
		sp.Labels["app"] = "web2"
		sp.Annotations["note"] = "2"
		if err := c.Client.Patch(ctx, sp, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
		eventually(t, c, pod, func() error {
			_, tier := pod.Labels["tier"]
			if tier || pod.Labels["app"] != "web2" || pod.Annotations["note"] != "2" || pod.Labels["theirs"] != "stays" {
				return fmt.Errorf("labels %v, annotations %v", pod.Labels, pod.Annotations)
			}
			return nil
		})
	})
	t.Run("a pod that is lost is made again", func(t *testing.T) {
		uid := pod.UID
		if err := c.Client.Delete(ctx, pod, client.GracePeriodSeconds(0)); err != nil {
			t.Fatal(err)
		}
		testkit.Eventually(t, patience, func() error {
			if err := c.Client.Get(ctx, client.ObjectKeyFromObject(sp), pod); err != nil {
				return err
			}
			if pod.UID == uid {
				return errors.New("still the old pod")
			}
			return nil
		})
	})
	t.Run("phase is updated until the end", func(t *testing.T) {
		for _, phase := range []corev1.PodPhase{corev1.PodRunning, corev1.PodSucceeded} {
			before := pod.DeepCopy()
			pod.Status.Phase = phase
			if err := c.Client.Status().Patch(ctx, pod, client.MergeFrom(before)); err != nil {
				t.Fatal(err)
			}
			eventually(t, c, sp, func() error {
				if sp.Status.Phase != phase {
					return fmt.Errorf("phase = %s", sp.Status.Phase)
				}
				return nil
			})
		}
		version := sp.ResourceVersion
		if err := c.Client.Delete(ctx, pod, client.GracePeriodSeconds(0)); err != nil {
			t.Fatal(err)
		}
		waitUntilDeleted(t, c, pod)
		// Something that the same workers do later shows that they have done nothing about this one.
		next := shadowOf("demo-gold", "next", "gold")
		if err := c.Client.Create(ctx, next); err != nil {
			t.Fatal(err)
		}
		eventually(t, c, podNamed("demo-gold", "next"), func() error { return nil })
		if err := c.Client.Get(ctx, client.ObjectKeyFromObject(sp), podNamed("", "")); !apierrors.IsNotFound(err) {
			t.Errorf("the pod ran again: %v", err)
		}
		if err := c.Client.Get(ctx, client.ObjectKeyFromObject(sp), sp); err != nil || sp.ResourceVersion != version {
			t.Errorf("the ShadowPod was written without need: %v", err)
		}
	})
	t.Run("status update keeps other fields", func(t *testing.T) {
		apply := func(labels string) {
			t.Helper()
			body := fmt.Sprintf(`{"apiVersion":"offloading.liqo.io/v1beta1","kind":"ShadowPod","metadata":{"name":"applied","namespace":"demo-gold","labels":{%s%q:%q}},
				"spec":{"pod":{"containers":[{"name":"web","image":"web:1"}]}}}`, labels, names.OffloadingOrigin, "gold")
			err := c.Client.Patch(ctx, &offv1beta1.ShadowPod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo-gold", Name: "applied"}},
				client.RawPatch(types.ApplyPatchType, []byte(body)), client.FieldOwner("consumer"), client.ForceOwnership)
			if err != nil {
				t.Fatal(err)
			}
		}
		apply(`"tier":"front",`)
		applied, pod := &offv1beta1.ShadowPod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo-gold", Name: "applied"}}, podNamed("demo-gold", "applied")
		for _, phase := range []corev1.PodPhase{corev1.PodRunning, corev1.PodFailed} {
			eventually(t, c, pod, func() error { return nil })
			before := pod.DeepCopy()
			pod.Status.Phase = phase
			if err := c.Client.Status().Patch(ctx, pod, client.MergeFrom(before)); err != nil {
				t.Fatal(err)
			}
			eventually(t, c, applied, func() error {
				if applied.Status.Phase != phase {
					return fmt.Errorf("phase = %s", applied.Status.Phase)
				}
				return nil
			})
		}
		if applied.Labels["tier"] != "front" || len(applied.Spec.Pod.Containers) != 1 || applied.Generation != 1 {
			t.Errorf("labels %v, generation %d, spec %+v", applied.Labels, applied.Generation, applied.Spec)
		}
		apply("")
		eventually(t, c, applied, func() error {
			if _, kept := applied.Labels["tier"]; kept || applied.Status.Phase != corev1.PodFailed {
				return fmt.Errorf("labels %v, phase %s", applied.Labels, applied.Status.Phase)
			}
			return nil
		})
	})
	t.Run("foreign pod is not adopted", func(t *testing.T) {
		foreign := podNamed("demo-gold", "foreign")
		foreign.Spec.Containers = []corev1.Container{{Name: "web", Image: "web:1"}}
		if err := c.Client.Create(ctx, foreign); err != nil {
			t.Fatal(err)
		}
		other := shadowOf("demo-gold", "foreign", "gold")
		if err := c.Client.Create(ctx, other); err != nil {
			t.Fatal(err)
		}
		waitForEvent(t, c, other, "FailedCreatePod", "already exists")
		if err := c.Client.Delete(ctx, foreign, client.GracePeriodSeconds(0)); err != nil {
			t.Fatal(err)
		}
		testkit.Eventually(t, patience, func() error {
			if err := c.Client.Get(ctx, client.ObjectKeyFromObject(foreign), foreign); err != nil {
				return err
			}
			if !metav1.IsControlledBy(foreign, other) {
				return errors.New("still the foreign pod")
			}
			return nil
		})
	})
	t.Run("policy applies without admission", func(t *testing.T) {
		bad := shadowOf("demo-gold", "bad", "gold")
		bad.Spec.Pod.HostNetwork = true
		if err := c.Client.Create(ctx, bad); err != nil {
			t.Fatal(err)
		}
		waitForEvent(t, c, bad, "FailedCreatePod", "spec.hostNetwork")
		eventually(t, c, bad, func() error {
			if bad.Status.Phase != corev1.PodPending {
				return fmt.Errorf("phase = %q", bad.Status.Phase)
			}
			return nil
		})
		stranger := shadowOf("demo-gold", "stranger", "red")
		if err := c.Client.Create(ctx, stranger); err != nil {
			t.Fatal(err)
		}
		waitForEvent(t, c, stranger, "FailedCreatePod", "mismatch")
	})
	t.Run("Pod Security judges what we do not", func(t *testing.T) {
		bad := shadowOf("demo-gold", "proc", "gold")
		bad.Spec.Pod.SecurityContext = &corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{{Name: "kernel.msgmax", Value: "1"}}}
		if err := c.Client.Create(ctx, bad); err != nil {
			t.Fatal(err)
		}
		waitForEvent(t, c, bad, "FailedCreatePod", "violates PodSecurity")
	})
	t.Run("the pod goes with its ShadowPod", func(t *testing.T) {
		if err := c.Client.Delete(ctx, shadowOf("demo-gold", "next", "gold")); err != nil {
			t.Fatal(err)
		}
		waitUntilDeleted(t, c, podNamed("demo-gold", "next"))
	})
}

func TestRemoteNamespaceUncached(t *testing.T) {
	c := testkit.Cluster(t, testkit.WithControllers("namespace-controller"))
	nm := consumer(t, c, "late", map[string]string{"demo": "demo-late"})
	late := &namespaceMaps{
		client: testkit.Unaware(c.Client, &corev1.NamespaceList{}), live: c.Client, options: NamespaceMapOptions{LiqoNamespace: "liqo", MaxNamespaces: 9, PodSecurity: "baseline"},
	}
	in := mapInput{desired: nm.Spec.DesiredMapping, owner: ownerKey(nm), tenant: nm.Namespace, consumer: "late", limit: 9, level: "baseline", access: granted}
	if err := late.applyMap(t.Context(), nm, in); err != nil {
		t.Fatal(err)
	}
	if err := late.Cleanup(t.Context(), nm); err == nil {
		t.Error("the end of the twin is not waited for")
	}
	waitUntilDeleted(t, c, namespaceOf("demo-late"))
}
