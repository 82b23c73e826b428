// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctltest

import (
	"bytes"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/peer"
	"liqo.io/liqo/internal/testkit"
)

// Peering has the objects of a healthy peering, in both roles.
type Peering struct {
	// Namespace is the tenant namespace.
	Namespace      string
	ForeignCluster *liqov1beta1.ForeignCluster
	Configuration  *networkingv1beta1.Configuration
	GatewayClient  *networkingv1beta1.GatewayClient
	PublicKey      *networkingv1beta1.PublicKey
	Connection     *networkingv1beta1.Connection
	Tenant         *authv1beta1.Tenant
	Identity       *authv1beta1.Identity
	ResourceSlice  *authv1beta1.ResourceSlice
	VirtualNode    *offv1beta1.VirtualNode
	Node           *corev1.Node
}

// ReadyNode returns a change of a Node to Ready, with an address.
func ReadyNode(address string) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}
		n.Status.NodeInfo.KernelVersion = "6.1.0"
	}
}

// LendPeering makes a healthy peering with a cluster until the end of the test.
func LendPeering(t *testing.T, c *testkit.ControlPlane, id string) *Peering {
	t.Helper()
	now := metav1.Now()
	p := &Peering{Namespace: testkit.Namespace(t, c, "tenant-"+id, map[string]string{names.TenantNamespace: "true", names.RemoteClusterID: id})}
	of := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: p.Namespace, Name: name, Labels: map[string]string{names.RemoteClusterID: id}}
	}
	isTrue := func(kind string) []metav1.Condition {
		return []metav1.Condition{{Type: kind, Status: metav1.ConditionTrue, Reason: "Fine", LastTransitionTime: now}}
	}
	p.ForeignCluster = &liqov1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: id}, Spec: liqov1beta1.ForeignClusterSpec{ClusterID: liqov1beta1.ClusterID(id)}}
	LendWithStatus(t, c, p.ForeignCluster, func(fc *liqov1beta1.ForeignCluster) {
		condition := func(kind liqov1beta1.ConditionType, status liqov1beta1.ConditionStatus) liqov1beta1.Module {
			return liqov1beta1.Module{Enabled: true, Conditions: []liqov1beta1.Condition{{Type: kind, Status: status, LastTransitionTime: now}}}
		}
		fc.Status.Modules.Networking = condition(liqov1beta1.NetworkConnectionStatus, liqov1beta1.ConditionEstablished)
		fc.Status.Modules.Authentication = condition(liqov1beta1.AuthIdentityControlPlaneStatus, liqov1beta1.ConditionReady)
		fc.Status.Modules.Offloading = condition(liqov1beta1.OffloadingNodeStatus, liqov1beta1.ConditionReady)
		fc.Status.Conditions = []liqov1beta1.Condition{{Type: liqov1beta1.APIServerStatus, Status: liqov1beta1.ConditionEstablished, Message: peer.Answers, LastTransitionTime: now}}
	})
	p.Configuration = &networkingv1beta1.Configuration{ObjectMeta: of(id)}
	p.Configuration.Spec.Remote.CIDR = networkingv1beta1.ClusterConfigCIDR{Pod: []networkingv1beta1.CIDR{"10.200.0.0/16"}, External: []networkingv1beta1.CIDR{"10.70.0.0/16"}}
	LendWithStatus(t, c, p.Configuration, func(cfg *networkingv1beta1.Configuration) {
		cfg.Status.Remote = &networkingv1beta1.ClusterConfig{CIDR: networkingv1beta1.ClusterConfigCIDR{Pod: []networkingv1beta1.CIDR{"10.71.0.0/16"}, External: []networkingv1beta1.CIDR{"10.72.0.0/16"}}}
		cfg.Status.Conditions, cfg.Status.ObservedRemote = isTrue(networkingv1beta1.ConditionNetworkCIDRsConfigured), &networkingv1beta1.ClusterConfig{CIDR: cfg.Spec.Remote.CIDR}
	})
	p.GatewayClient = &networkingv1beta1.GatewayClient{ObjectMeta: of(id)}
	p.GatewayClient.Spec.Endpoint = networkingv1beta1.EndpointStatus{Addresses: []string{"172.18.0.3"}, Port: 32133, Protocol: new(corev1.ProtocolUDP)}
	LendWithStatus(t, c, p.GatewayClient, func(g *networkingv1beta1.GatewayClient) {
		g.Status.Conditions = isTrue(networkingv1beta1.ConditionGatewayReady)
		g.Status.InternalEndpoint = &networkingv1beta1.InternalGatewayEndpoint{IP: new(networkingv1beta1.IP("10.200.1.77"))}
	})
	p.PublicKey = &networkingv1beta1.PublicKey{ObjectMeta: of(id), Spec: networkingv1beta1.PublicKeySpec{PublicKey: bytes.Repeat([]byte{1}, 32)}}
	Lend(t, c, p.PublicKey)
	p.Connection = &networkingv1beta1.Connection{ObjectMeta: of("gw-" + id), Spec: networkingv1beta1.ConnectionSpec{Type: networkingv1beta1.ConnectionTypeClient}}
	LendWithStatus(t, c, p.Connection, func(c *networkingv1beta1.Connection) { c.Status.Value = networkingv1beta1.Connected })
	p.Tenant = &authv1beta1.Tenant{ObjectMeta: of(id), Spec: authv1beta1.TenantSpec{ClusterID: liqov1beta1.ClusterID(id)}}
	LendWithStatus(t, c, p.Tenant, func(tenant *authv1beta1.Tenant) { tenant.Status.Conditions = isTrue(authv1beta1.TenantReady) })
	p.Identity = &authv1beta1.Identity{ObjectMeta: of("controlplane-" + id), Spec: authv1beta1.IdentitySpec{ClusterID: liqov1beta1.ClusterID(id), Type: authv1beta1.ControlPlaneIdentityType}}
	Lend(t, c, p.Identity)
	p.ResourceSlice = &authv1beta1.ResourceSlice{ObjectMeta: of(id)}
	LendWithStatus(t, c, p.ResourceSlice, func(s *authv1beta1.ResourceSlice) {
		s.Status.Conditions = []authv1beta1.ResourceSliceCondition{{Type: authv1beta1.ResourceSliceConditionTypeResources, Status: authv1beta1.ResourceSliceConditionAccepted, LastTransitionTime: now}}
	})
	p.VirtualNode = &offv1beta1.VirtualNode{ObjectMeta: of(id), Spec: offv1beta1.VirtualNodeSpec{ClusterID: liqov1beta1.ClusterID(id), KubeconfigSecretRef: &corev1.LocalObjectReference{Name: "kubeconfig-" + id}}}
	LendWithStatus(t, c, p.VirtualNode, func(vn *offv1beta1.VirtualNode) {
		vn.Status.Conditions = []offv1beta1.VirtualNodeCondition{{Type: offv1beta1.NodeConditionType, Status: offv1beta1.RunningConditionStatusType, LastTransitionTime: now}}
	})
	p.Node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: id, Labels: map[string]string{names.NodeType: names.NodeTypeVirtualNode, names.RemoteClusterID: id}}}
	LendWithStatus(t, c, p.Node, ReadyNode("10.200.3.4"))
	return p
}
