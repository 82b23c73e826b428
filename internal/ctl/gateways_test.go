// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/yaml"

	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/ctl/network"
	"liqo.io/liqo/internal/ipam"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	netcontroller "liqo.io/liqo/internal/network"
	"liqo.io/liqo/internal/testkit"
)

// testCluster is a cluster with the networking module, and with one node whose kubelet is a fake.
type testCluster struct {
	*testkit.ControlPlane
	id, liqo string
	stop     func()
	deaf     atomic.Bool // nothing comes back to its gateways
	idle     atomic.Bool // nobody starts them
	asleep   atomic.Bool // virtual kubelets make no nodes
}

func newTestCluster(t *testing.T, n int, id string) *testCluster {
	t.Helper()
	c := &testCluster{ControlPlane: testkit.NthCluster(t, n, testkit.WithControllers("garbage-collector-controller", "namespace-controller")), id: id}
	c.liqo = testkit.Namespace(t, c.ControlPlane, "liqo", nil)
	testkit.Create(t, c.Client, identityOf(id, c.liqo))
	for kind, cidr := range map[string]networkingv1beta1.CIDR{names.NetworkTypePod: "10.200.0.0/16", names.NetworkTypeExternal: "10.70.0.0/16"} {
		n := &ipamv1alpha1.Network{Spec: ipamv1alpha1.NetworkSpec{CIDR: cidr}}
		n.Namespace, n.Name, n.Labels = c.liqo, kind, map[string]string{names.NetworkType: kind, names.NetworkNotRemapped: "true"}
		n.Annotations = map[string]string{names.Preinstalled: "true"}
		if kind == names.NetworkTypeExternal {
			n.Spec.PreAllocated = 1
		}
		testkit.Create(t, c.Client, n)
	}
	giveTemplate(t, c, "wireguard-server.yaml", &networkingv1beta1.WgGatewayServerTemplate{})
	giveTemplate(t, c, "wireguard-client.yaml", &networkingv1beta1.WgGatewayClientTemplate{})
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "node-"}}
	testkit.Create(t, c.Client, node)
	testkit.UpdateStatus(t, c.Client, node, func(n *corev1.Node) {
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	})
	c.run(t, "10.0.0.0/8")
	testkit.Eventually(t, time.Minute, func() error {
		_, err := network.OwnNetworks(t.Context(), c.Client, c.liqo)
		return err
	})
	return c
}

// identityOf is where an installation says what its cluster is called.
func identityOf(id, namespace string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: names.ClusterIDConfigMap, Labels: map[string]string{names.AppName: names.ClusterIDApp}},
		Data:       map[string]string{names.ClusterIDKey: id},
	}
}

// giveTemplate makes a template that users are given.
func giveTemplate(t *testing.T, c *testCluster, file string, into client.Object) {
	t.Helper()
	data, err := os.ReadFile("../../examples/networking/" + file)
	if err == nil {
		err = yaml.UnmarshalStrict(data, into)
	}
	if err != nil {
		t.Fatal(err)
	}
	into.SetNamespace(c.liqo)
	testkit.Create(t, c.Client, into)
}

// run runs the networking controllers, and what stands in for the gateways.
func (c *testCluster) run(t *testing.T, pool string) {
	t.Helper()
	pools := []netip.Prefix{netip.MustParsePrefix(pool)}
	c.stop = testkit.Manager(t, c.Config, kube.ManagerOptions{Name: "network-" + c.id}, func(mgr ctrl.Manager) error {
		return errors.Join(
			ipam.Setup(mgr, ipam.Options{LiqoNamespace: c.liqo, Pools: pools}),
			netcontroller.SetupConfigurations(mgr, netcontroller.ConfigurationOptions{LiqoNamespace: c.liqo}),
			netcontroller.SetupGateways(mgr, netcontroller.GatewayOptions{LiqoNamespace: c.liqo}),
			ctrl.NewControllerManagedBy(mgr).For(&appsv1.Deployment{}).
				Watches(&networkingv1beta1.PublicKey{}, handler.EnqueueRequestsFromMapFunc(c.gateways)).
				Complete(reconcile.Func(c.runGateway)),
		)
	})
}

// gateways are those in the namespace of a key.
func (c *testCluster) gateways(ctx context.Context, key client.Object) (out []reconcile.Request) {
	var list appsv1.DeploymentList
	if err := c.Client.List(ctx, &list, client.InNamespace(key.GetNamespace())); err != nil {
		return nil
	}
	for i := range list.Items {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return out
}

// runGateway is the kubelet and the gateway in its pod: it is ready, shows a Connection, and is connected once it has the key of the other.
func (c *testCluster) runGateway(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	d := &appsv1.Deployment{}
	if err := c.Client.Get(ctx, req.NamespacedName, d); err != nil || d.Labels[names.NetworkingComponent] != names.ComponentGateway || !d.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if c.idle.Load() { // the Deployment is seen, and no pod of it starts
		if d.Status.ObservedGeneration < d.Generation {
			d.Status.ObservedGeneration, d.Status.UpdatedReplicas = d.Generation, 0
			return reconcile.Result{}, c.Client.Status().Update(ctx, d)
		}
		return reconcile.Result{RequeueAfter: probing}, nil
	}
	d.Status.ObservedGeneration, d.Status.Replicas, d.Status.UpdatedReplicas, d.Status.ReadyReplicas = d.Generation, 1, 1, 1
	if err := c.Client.Status().Update(ctx, d); err != nil {
		return reconcile.Result{}, err
	}
	var keys networkingv1beta1.PublicKeyList
	if err := c.Client.List(ctx, &keys, client.InNamespace(d.Namespace), client.MatchingLabels{names.RemoteClusterID: d.Labels[names.RemoteClusterID]}); err != nil {
		return reconcile.Result{}, err
	}
	connection := &networkingv1beta1.Connection{
		ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: d.Name, OwnerReferences: d.OwnerReferences, Labels: map[string]string{names.RemoteClusterID: d.Labels[names.RemoteClusterID]}},
		Spec:       networkingv1beta1.ConnectionSpec{Type: networkingv1beta1.ConnectionTypeServer},
	}
	if err := client.IgnoreAlreadyExists(c.Client.Create(ctx, connection)); err != nil {
		return reconcile.Result{}, err
	}
	if err := c.Client.Get(ctx, req.NamespacedName, connection); err != nil {
		return reconcile.Result{}, err
	}
	status := networkingv1beta1.Connecting
	if len(keys.Items) == 1 && len(keys.Items[0].Spec.PublicKey) == 32 {
		status = networkingv1beta1.Connected
	}
	if c.deaf.Load() {
		status, connection.Status.Lost = networkingv1beta1.ConnectionError, networkingv1beta1.LostAll
	}
	again := reconcile.Result{RequeueAfter: probing} // the controllers see no pod, and say that the tunnel is down
	if connection.Status.Value == status {
		return again, nil
	}
	if connection.Status.Value = status; status != networkingv1beta1.ConnectionError {
		connection.Status.Lost = ""
	}
	return again, c.Client.Status().Update(ctx, connection)
}

// probing is how often a gateway looks how its tunnel fares.
const probing = 200 * time.Millisecond
