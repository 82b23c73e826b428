// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"fmt"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

// What passes on to another peer goes to the holder of the Lease of that peer's gateway, whatever the controller-manager has published.
func TestGatewayFollowsOtherLease(t *testing.T) {
	a, _ := newTestGateways(t)
	a.own(t)
	meta := metav1.ObjectMeta{Namespace: testkit.Namespace(t, a.cluster, "oslo", nil), Name: a.options.Name, Labels: map[string]string{names.RemoteClusterID: "oslo"}}
	cidr := func(pod, external networkingv1beta1.CIDR) networkingv1beta1.ClusterConfig {
		return networkingv1beta1.ClusterConfig{CIDR: networkingv1beta1.ClusterConfigCIDR{
			Pod: []networkingv1beta1.CIDR{pod}, External: []networkingv1beta1.CIDR{external},
		}}
	}
	peer := &networkingv1beta1.Configuration{ObjectMeta: meta, Spec: networkingv1beta1.ConfigurationSpec{Remote: cidr("10.200.0.0/16", "10.70.0.0/16")}}
	gateway := &networkingv1beta1.GatewayServer{ObjectMeta: meta}
	lease := &coordinationv1.Lease{ObjectMeta: meta, Spec: coordinationv1.LeaseSpec{HolderIdentity: new("gw-1")}}
	lease.Name, lease.Labels = names.Gateway(gateway.Name), map[string]string{names.NetworkingComponent: names.ComponentGateway}
	testkit.Create(t, a, peer, gateway, lease)
	t.Cleanup(func() { // gateways of other tests see them, too
		for _, obj := range []client.Object{peer, gateway, lease} {
			_ = a.Delete(context.Background(), obj)
		}
	})
	testkit.UpdateStatus(t, a, peer, func(c *networkingv1beta1.Configuration) {
		c.Status.ObservedRemote, c.Status.Remote = c.Spec.Remote.DeepCopy(), new(cidr("10.64.0.0/16", "10.69.0.0/16"))
		c.Status.Conditions = []metav1.Condition{{
			Type: networkingv1beta1.ConditionNetworkCIDRsConfigured, Status: metav1.ConditionTrue, Reason: "Test", LastTransitionTime: metav1.Now(),
		}}
	})
	testkit.UpdateStatus(t, a, gateway, func(g *networkingv1beta1.GatewayServer) {
		at := func(n int) networkingv1beta1.IP { return networkingv1beta1.IP(fmt.Sprintf("192.0.2.1%d", n)) }
		g.Status.InternalEndpoint = &networkingv1beta1.InternalGatewayEndpoint{IP: new(at(1)), Node: new("worker-1")}
		g.Status.Replicas = []networkingv1beta1.GatewayReplica{{Name: "gw-1", IP: at(1), Node: "worker-1"}, {Name: "gw-2", IP: at(2), Node: "worker-2"}}
	})
	a.run(t)
	leads := func(to string) {
		t.Helper()
		testkit.Eventually(t, patience, func() error { return a.holds("route 10.64.0.0/16 via " + to + " dev liqo.fabric") })
	}
	leads("192.0.2.11")
	for _, change := range []struct{ holder, leads string }{{"gw-2", "192.0.2.12"}, {"a stranger", "192.0.2.11"}} {
		testkit.Update(t, a, lease, func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = &change.holder })
		leads(change.leads)
	}
}
