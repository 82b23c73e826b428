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
	"liqo.io/liqo/internal/await"
	"liqo.io/liqo/internal/ipam"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/network"
	"liqo.io/liqo/internal/testkit"
)

// town is a cluster with the networking module, and with one node whose kubelet is a fake.
type town struct {
	*testkit.ControlPlane
	id, liqo string
	stop     func()
	deaf     atomic.Bool // nothing comes back to its gateways
	idle     atomic.Bool // nobody starts them
	asleep   atomic.Bool // virtual kubelets make no nodes
}

func newTown(t *testing.T, n int, id string) *town {
	t.Helper()
	c := &town{ControlPlane: testkit.NthCluster(t, n, testkit.WithControllers("garbage-collector-controller", "namespace-controller")), id: id}
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
		_, err := ownNetworks(t.Context(), c.Client, c.liqo)
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
func giveTemplate(t *testing.T, c *town, file string, into client.Object) {
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
func (c *town) run(t *testing.T, pool string) {
	t.Helper()
	pools := []netip.Prefix{netip.MustParsePrefix(pool)}
	c.stop = testkit.Manager(t, c.Config, kube.ManagerOptions{Name: "network-" + c.id}, func(mgr ctrl.Manager) error {
		return errors.Join(
			ipam.Setup(mgr, ipam.Options{LiqoNamespace: c.liqo, Pools: pools}),
			network.SetupConfigurations(mgr, network.ConfigurationOptions{LiqoNamespace: c.liqo}),
			network.SetupGateways(mgr, network.GatewayOptions{LiqoNamespace: c.liqo}),
			ctrl.NewControllerManagedBy(mgr).For(&appsv1.Deployment{}).
				Watches(&networkingv1beta1.PublicKey{}, handler.EnqueueRequestsFromMapFunc(c.gateways)).
				Complete(reconcile.Func(c.play)),
		)
	})
}

// gateways are those in the namespace of a key.
func (c *town) gateways(ctx context.Context, key client.Object) (out []reconcile.Request) {
	var list appsv1.DeploymentList
	if err := c.Client.List(ctx, &list, client.InNamespace(key.GetNamespace())); err != nil {
		return nil
	}
	for i := range list.Items {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return out
}

// play is the kubelet and the gateway in its pod: it is ready, shows a Connection, and is connected once it has the key of the other.
func (c *town) play(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
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

func TestAPodThatDoesNotStartSaysWhy(t *testing.T) {
	container := func(restarts int32, reason, message string, ended *corev1.ContainerStateTerminated) corev1.PodStatus {
		return corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
			RestartCount: restarts, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}},
			LastTerminationState: corev1.ContainerState{Terminated: ended},
		}}}
	}
	unscheduled := corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/3 nodes are available"}}}
	crashed := &corev1.ContainerStateTerminated{ExitCode: 1, Message: "no such device"}
	for want, tc := range map[string]struct {
		pods []corev1.PodStatus
		ends bool
	}{
		"no pod of gw-milan is ready":                                                  {nil, false},
		"pod gw-milan-0 does not start: not scheduled: 0/3 nodes are available":        {[]corev1.PodStatus{unscheduled}, false},
		"pod gw-milan-0 does not start: ImagePullBackOff: no such image":               {[]corev1.PodStatus{container(0, "ImagePullBackOff", "no such image", nil)}, false},
		"pod gw-milan-0 does not start: InvalidImageName: no name":                     {[]corev1.PodStatus{container(0, "InvalidImageName", "no name", nil)}, true},
		"pod gw-milan-0 does not start: CrashLoopBackOff, exit code 1: has no device":  {[]corev1.PodStatus{container(1, "CrashLoopBackOff", "back-off", &corev1.ContainerStateTerminated{ExitCode: 1, Message: "has no device"})}, false},
		"pod gw-milan-0 does not start: ContainerCreating":                             {[]corev1.PodStatus{container(3, "ContainerCreating", "", crashed)}, false},
		"pod gw-milan-0 does not start: CrashLoopBackOff, exit code 1: no such device": {[]corev1.PodStatus{container(3, "CrashLoopBackOff", "back-off", crashed)}, true},
	} {
		var pods []corev1.Pod
		for _, status := range tc.pods {
			pods = append(pods, corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "gw-milan-0"}, Status: status})
		}
		err := notReady("gw-milan", pods)
		if _, waits := errors.AsType[await.Pending](err); err.Error() != want || waits == tc.ends {
			t.Errorf("got %q, waits %v; want %q", err, waits, want)
		}
	}
}

func TestWhyAConnectionIsNotUp(t *testing.T) {
	at := func(port int32, addresses ...string) networkingv1beta1.EndpointStatus {
		return networkingv1beta1.EndpointStatus{Addresses: addresses, Port: port, Protocol: new(corev1.ProtocolUDP)}
	}
	dials := func(spec networkingv1beta1.EndpointStatus, told *networkingv1beta1.EndpointStatus) *gateway {
		return gatewayOf(&networkingv1beta1.GatewayClient{
			Spec: networkingv1beta1.GatewayClientSpec{Endpoint: spec}, Status: networkingv1beta1.GatewayClientStatus{Endpoint: told},
		})
	}
	usual, serves := dials(at(31900, "198.51.100.7"), nil), gatewayOf(&networkingv1beta1.GatewayServer{})
	down := networkingv1beta1.ConnectionStatus{Value: networkingv1beta1.ConnectionError, Lost: networkingv1beta1.LostAll}
	for want, test := range map[string]struct {
		gw     *gateway
		status networkingv1beta1.ConnectionStatus
	}{
		"nothing came back yet from its server, dialled at 198.51.100.7:31900 by UDP": {usual, networkingv1beta1.ConnectionStatus{Value: networkingv1beta1.Connecting}},
		"nothing comes back from its server, dialled at 198.51.100.7:31900 by UDP":    {usual, down},
		"nothing comes back from its client":                                          {serves, down},
		"nothing comes back from its server, of which no address is known":            {dials(at(0), nil), down},
		"nothing comes back from its server, dialled at [fd00::7]:51840, milan.example.org:51840, 192.0.2.1:51840 by UDP": {
			dials(at(51840, "fd00::7", "milan.example.org"), new(at(51840, "milan.example.org", "192.0.2.1"))), down,
		},
		"nothing comes back from its server, dialled at a:1, b:1, c:1, d:1, e:1 and 2 more by UDP": {dials(at(1, "a", "b", "c", "d", "e", "f", "g"), nil), down},
		"nothing comes back from its server, dialled at 192.0.2.1:5, 192.0.2.1:6 by UDP": {
			dials(networkingv1beta1.EndpointStatus{Addresses: []string{"192.0.2.1"}, Ports: []int32{5, 6}}, nil), down,
		},
		"small packets get through, and large ones get lost between it and its server, dialled at 198.51.100.7:31900 by UDP": {
			usual, networkingv1beta1.ConnectionStatus{Value: networkingv1beta1.ConnectionError, Lost: networkingv1beta1.LostLarge},
		},
		"the tunnel is up, and pods of these nodes do not reach the peer: one, two": {
			usual, networkingv1beta1.ConnectionStatus{Value: networkingv1beta1.ConnectionError, Reach: networkingv1beta1.ReachSome, FailedNodes: []string{"one", "two"}},
		},
	} {
		if got := test.gw.connectionProblem(test.status); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}
