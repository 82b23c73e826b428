// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/peer"
	"liqo.io/liqo/internal/testkit"
)

const limit = 2 * time.Minute

func tenantLabels(id string) map[string]string {
	return map[string]string{"liqo.io/remote-cluster-id": id, "liqo.io/tenant-namespace": "true"}
}

func create(t *testing.T, c client.Client, objects ...client.Object) {
	t.Helper()
	for _, obj := range objects {
		if err := c.Create(t.Context(), obj); err != nil {
			t.Fatalf("creating %T %s: %v", obj, obj.GetName(), err)
		}
	}
}

// waitForConditions waits until the ForeignCluster has the wanted conditions.
func waitForConditions(t *testing.T, c client.Client, id string, want ...string) *liqov1beta1.ForeignCluster {
	t.Helper()
	fc := &liqov1beta1.ForeignCluster{}
	testkit.Eventually(t, limit, func() error {
		if err := c.Get(t.Context(), types.NamespacedName{Name: id}, fc); err != nil {
			return err
		}
		if diff := cmp.Diff(want, summary(fc.Status)); diff != "" {
			return errors.New(diff)
		}
		return nil
	})
	return fc
}

func waitUntilDeleted(t *testing.T, c client.Client, obj client.Object) {
	t.Helper()
	testkit.Eventually(t, limit, func() error {
		err := c.Get(t.Context(), client.ObjectKeyFromObject(obj), obj)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("still there, or %v", err)
	})
}

// runForeignClusters returns what the controller has seen.
func runForeignClusters(t *testing.T, c *testkit.ControlPlane) (seen client.Reader) {
	t.Helper()
	testkit.Manager(t, c.Config, kube.ManagerOptions{}, func(mgr ctrl.Manager) error {
		seen = mgr.GetCache()
		secrets, err := watchCredentials(mgr)
		if err != nil {
			return err
		}
		return setupForeignClusters(mgr, Options{}, secrets)
	})
	return seen
}

func TestForeignClusterStatus(t *testing.T) {
	c := testkit.Cluster(t)
	seen := runForeignClusters(t, c)
	ns := testkit.Namespace(t, c, "any-name", tenantLabels("milan"))
	label := map[string]string{"liqo.io/remote-cluster-id": "milan"}

	// As a provider: the guide's Tenant.
	guide := &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "my-tenant", Labels: label}, Spec: authv1beta1.TenantSpec{
		ClusterID: "milan", AuthzPolicy: new(authv1beta1.TolerateNoHandshake),
	}}
	create(t, c.Client, guide)
	waitForConditions(t, c.Client, "milan", "role Consumer", "local "+ns, "authentication", "authentication AuthTenantStatus NotReady (TenantNotReady)")
	guide.Status.TenantNamespace = ns
	if err := c.Client.Status().Update(t.Context(), guide); err != nil {
		t.Fatal(err)
	}
	fc := waitForConditions(t, c.Client, "milan", "role Consumer", "local "+ns, "authentication", "authentication AuthTenantStatus Ready (TenantReady)")
	if fc.Spec.ClusterID != "milan" || fc.Labels["liqo.io/remote-cluster-id"] != "milan" || fc.Status.ObservedGeneration != fc.Generation {
		t.Errorf("ForeignCluster %+v", fc)
	}

	// As a consumer, too: the guide's Secret.
	secret := credentials(t)
	secret.Namespace, secret.Labels = ns, map[string]string{"liqo.io/remote-cluster-id": "milan", "liqo.io/identity-type": "ControlPlane"}
	create(t, c.Client, &secret)
	waitForConditions(t, c.Client, "milan", "role ConsumerAndProvider", "api https://by-hand:6443", "local "+ns, "remote at-milan", "authentication",
		"authentication AuthTenantStatus Ready (TenantReady)", "authentication AuthIdentityControlPlaneStatus Pending (APIServerNotAsked)")

	// What the replicator writes stays, and is heard.
	fc.Status.Conditions = []liqov1beta1.Condition{{Type: liqov1beta1.APIServerStatus, Status: liqov1beta1.ConditionEstablished}}
	patchConditions(t, c.Client, fc)

	vn := &offv1beta1.VirtualNode{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "test", Labels: label}, Spec: offv1beta1.VirtualNodeSpec{ClusterID: "milan"}}
	create(t, c.Client, vn)
	fc = waitForConditions(t, c.Client, "milan", "role ConsumerAndProvider", "api https://by-hand:6443", "local "+ns, "remote at-milan", "authentication",
		"authentication AuthTenantStatus Ready (TenantReady)", "authentication AuthIdentityControlPlaneStatus Ready (IdentityReady)", "offloading",
		"offloading OffloadingVirtualNodeStatus NotReady (VirtualNodesNotReady)", "offloading OffloadingNodeStatus NotReady (NodesNotReady)")
	if len(fc.Status.Conditions) != 1 {
		t.Errorf("the conditions of the replicator are gone: %v", fc.Status.Conditions)
	}
	d := deployment("vk-test", 1, 1)[types.NamespacedName{Namespace: "tenant", Name: "vk-test"}]
	status := d.Status
	status.ObservedGeneration, status.Replicas = 1, 1
	d.Namespace, d.Generation, d.Labels = ns, 0, label
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: label}
	d.Spec.Template = corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: label}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "x", Image: "x"}}}}
	create(t, c.Client, d)
	d.Status = status
	if err := c.Client.Status().Update(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	n := node(corev1.ConditionTrue)
	n.Name, n.Labels = "test", map[string]string{"liqo.io/remote-cluster-id": "milan", "liqo.io/type": "virtual-node"}
	ready := n.Status
	create(t, c.Client, &n)
	t.Cleanup(func() { _ = c.Client.Delete(context.Background(), &n) })
	n.Status = ready
	if err := c.Client.Status().Update(t.Context(), &n); err != nil {
		t.Fatal(err)
	}
	waitForConditions(t, c.Client, "milan", "role ConsumerAndProvider", "api https://by-hand:6443", "local "+ns, "remote at-milan", "authentication",
		"authentication AuthTenantStatus Ready (TenantReady)", "authentication AuthIdentityControlPlaneStatus Ready (IdentityReady)", "offloading",
		"offloading OffloadingVirtualNodeStatus Ready (VirtualNodesReady)", "offloading OffloadingNodeStatus Ready (NodesReady)")

	// What worked and fails is told, and that it is over. What is established for the first time was not healed.
	setReady := func(ready corev1.ConditionStatus) {
		t.Helper()
		testkit.UpdateStatus(t, c.Client, &n, func(n *corev1.Node) { n.Status.Conditions[0].Status = ready })
	}
	setReady(corev1.ConditionFalse)
	testkit.WantEvent(t, c, fc, "NodesNotReady", "OffloadingNodeStatus is NotReady")
	setReady(corev1.ConditionTrue)
	testkit.WantEvent(t, c, fc, peer.ReasonHealed, "OffloadingNodeStatus is Ready again")
	var events corev1.EventList
	if err := c.Client.List(t.Context(), &events, client.InNamespace("default"), client.MatchingFields{"reason": peer.ReasonHealed, "involvedObject.name": "milan"}); err != nil || len(events.Items) != 1 {
		t.Errorf("%d failures were healed: %+v (%v)", len(events.Items), events.Items, err)
	}

	// A slice alone is enough to keep the object.
	before := &liqov1beta1.ForeignCluster{}
	if err := c.Client.Get(t.Context(), types.NamespacedName{Name: "milan"}, before); err != nil {
		t.Fatal(err)
	}
	touch := &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "test"}}
	create(t, c.Client, touch)
	testkit.Eventually(t, limit, func() error {
		return seen.Get(t.Context(), client.ObjectKeyFromObject(touch), &authv1beta1.ResourceSlice{})
	})

	for _, obj := range []client.Object{vn, d, &n, &secret, guide} {
		if err := c.Client.Delete(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
	after := waitForConditions(t, c.Client, "milan", "role Unknown", "local "+ns)
	if after.UID != before.UID {
		t.Error("the ForeignCluster was made anew")
	}
	if err := c.Client.Delete(t.Context(), touch); err != nil {
		t.Fatal(err)
	}
	waitUntilDeleted(t, c.Client, after)
}

// What the replicator says of a peer that sends too much is an event when it begins, and when it ends.
func TestForeignClusterMisbehaves(t *testing.T) {
	c := testkit.Cluster(t)
	runForeignClusters(t, c)
	ns := testkit.Namespace(t, c, "any-name", tenantLabels("greedy"))
	create(t, c.Client, &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "greedy", Labels: map[string]string{"liqo.io/remote-cluster-id": "greedy"}}, Spec: authv1beta1.TenantSpec{
		ClusterID: "greedy", AuthzPolicy: new(authv1beta1.TolerateNoHandshake),
	}})
	fc := waitForConditions(t, c.Client, "greedy", "role Consumer", "local "+ns, "authentication", "authentication AuthTenantStatus NotReady (TenantNotReady)")
	answers := liqov1beta1.Condition{Type: liqov1beta1.APIServerStatus, Status: liqov1beta1.ConditionEstablished, LastTransitionTime: metav1.Now()}
	tooMuch := liqov1beta1.Condition{Type: liqov1beta1.PeerMisbehaves, Status: liqov1beta1.ConditionError, Reason: "TooManyWrites", Message: "too many bytes in a second", LastTransitionTime: metav1.Now()}
	say := func(conditions ...liqov1beta1.Condition) {
		testkit.UpdateStatus(t, c.Client, fc, func(fc *liqov1beta1.ForeignCluster) { fc.Status.Conditions = conditions })
	}
	say(answers, tooMuch)
	testkit.WantEvent(t, c, fc, "TooManyWrites", "too many bytes in a second")
	say(answers)
	testkit.WantEvent(t, c, fc, peer.ReasonHealed, "the peer keeps to its limits again")
}

// A peer whose version does not work together with ours is told of once, and not any more when it was upgraded.
func TestForeignClusterVersion(t *testing.T) {
	c := testkit.Cluster(t)
	testkit.Manager(t, c.Config, kube.ManagerOptions{}, func(mgr ctrl.Manager) error {
		secrets, err := watchCredentials(mgr)
		if err != nil {
			return err
		}
		return setupForeignClusters(mgr, Options{Version: "v1.3.0"}, secrets)
	})
	ns := testkit.Namespace(t, c, "of-verona", tenantLabels("verona"))
	label := map[string]string{"liqo.io/remote-cluster-id": "verona"}
	nm := &offv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "verona", Labels: map[string]string{
		"liqo.io/remote-cluster-id": "verona", "liqo.io/replicated": "true",
	}, Annotations: map[string]string{"liqo.io/version": "v1.1.0"}}}
	create(t, c.Client, nm, &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "verona", Labels: label}, Spec: authv1beta1.TenantSpec{
		ClusterID: "verona", AuthzPolicy: new(authv1beta1.TolerateNoHandshake),
	}})
	usual := []string{"role Consumer", "local " + ns, "authentication", "authentication AuthTenantStatus NotReady (TenantNotReady)"}
	fc := waitForConditions(t, c.Client, "verona", append(usual, "authentication AuthVersionStatus Error (PeerTooOld)")...)
	if fc.Status.Version != "v1.1.0" {
		t.Errorf("its version is %q", fc.Status.Version)
	}
	testkit.WantEvent(t, c, fc, "PeerTooOld", "the peer has Liqo v1.1.0 and this cluster v1.3.0")
	testkit.Update(t, c.Client, nm, func(nm *offv1beta1.NamespaceMap) { nm.Annotations["liqo.io/version"] = "v1.2.0" })
	waitForConditions(t, c.Client, "verona", usual...)
	testkit.Update(t, c.Client, nm, func(nm *offv1beta1.NamespaceMap) { nm.Annotations["liqo.io/version"] = "v1.5.0" })
	fc = waitForConditions(t, c.Client, "verona", append(usual, "authentication AuthVersionStatus Error (PeerTooNew)")...)
	testkit.WantEvent(t, c, fc, "PeerTooNew", "upgrade this cluster")
}

func patchConditions(t *testing.T, c client.Client, fc *liqov1beta1.ForeignCluster) {
	t.Helper()
	u := &liqov1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: fc.Name}}
	body := []byte(`{"status":{"conditions":[{"type":"APIServerStatus","status":"Established"}]}}`)
	if err := c.Status().Patch(t.Context(), u, client.RawPatch(types.MergePatchType, body)); err != nil {
		t.Fatal(err)
	}
}

func TestForeignClusterRemovedAfterRestart(t *testing.T) {
	c := testkit.Cluster(t)
	stale := &liqov1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "naples"}, Spec: liqov1beta1.ForeignClusterSpec{ClusterID: "naples"}}
	create(t, c.Client, stale)
	runForeignClusters(t, c)
	waitUntilDeleted(t, c.Client, stale)
}
