// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package replicator

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

type endpoint = networkingv1beta1.EndpointStatus

func TestServerEndpoint(t *testing.T) {
	at := func(name string, second int64, e *endpoint) networkingv1beta1.GatewayServer {
		out := networkingv1beta1.GatewayServer{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.Unix(second, 0)}}
		out.Status.Endpoint = e
		return out
	}
	leaving := at("leaving", 1, &endpoint{Addresses: []string{"a"}, Port: 1})
	leaving.DeletionTimestamp = new(metav1.Unix(9, 0))
	running := at("running", 5, &endpoint{Addresses: []string{"r"}, Port: 1})
	running.Status.InternalEndpoint = &networkingv1beta1.InternalGatewayEndpoint{}
	udp := new(corev1.ProtocolUDP)
	many := &endpoint{Port: 1}
	for i := range 1001 {
		many.Addresses = append(many.Addresses, fmt.Sprintf("node-%d", i))
	}
	for name, tc := range map[string]struct {
		servers []networkingv1beta1.GatewayServer
		want    *endpoint
	}{
		"nobody":   {},
		"all":      {servers: []networkingv1beta1.GatewayServer{at("a", 1, &endpoint{Addresses: []string{"192.0.2.1", "Rome.example.", "fd00::1"}, Port: 7, Protocol: udp})}, want: &endpoint{Addresses: []string{"192.0.2.1", "Rome.example.", "fd00::1"}, Port: 7, Protocol: udp}},
		"ports":    {servers: []networkingv1beta1.GatewayServer{at("a", 1, &endpoint{Addresses: []string{"a"}, Ports: []int32{2, 0, 3}})}, want: &endpoint{Addresses: []string{"a"}, Ports: []int32{2, 3}}},
		"one way":  {servers: []networkingv1beta1.GatewayServer{at("a", 1, &endpoint{Addresses: []string{"a"}, Port: 1, Ports: []int32{2}})}, want: &endpoint{Addresses: []string{"a"}, Port: 1}},
		"nowhere":  {servers: []networkingv1beta1.GatewayServer{at("a", 1, nil), at("b", 1, &endpoint{Port: 1}), at("c", 1, &endpoint{Addresses: []string{"a"}})}},
		"oldest":   {servers: []networkingv1beta1.GatewayServer{at("a", 3, &endpoint{Addresses: []string{"a"}, Port: 1}), at("b", 2, &endpoint{Addresses: []string{"b"}, Port: 1}), at("c", 1, nil)}, want: &endpoint{Addresses: []string{"b"}, Port: 1}},
		"running":  {servers: []networkingv1beta1.GatewayServer{at("a", 1, &endpoint{Addresses: []string{"a"}, Port: 1}), running}, want: &endpoint{Addresses: []string{"r"}, Port: 1}},
		"staying":  {servers: []networkingv1beta1.GatewayServer{leaving, at("b", 2, &endpoint{Addresses: []string{"b"}, Port: 1})}, want: &endpoint{Addresses: []string{"b"}, Port: 1}},
		"odd":      {servers: []networkingv1beta1.GatewayServer{at("a", 1, &endpoint{Addresses: []string{"a,b", "--name=x", "a b", "", "fe80::1%eth0", "a:1", "$(X)", strings.Repeat("a", 254), "b"}, Port: 1})}, want: &endpoint{Addresses: []string{"b"}, Port: 1}},
		"no ports": {servers: []networkingv1beta1.GatewayServer{at("a", 1, &endpoint{Addresses: []string{"a"}, Port: 70000, Ports: []int32{-1}})}},
		"many":     {servers: []networkingv1beta1.GatewayServer{at("a", 1, many)}, want: &endpoint{Addresses: many.Addresses[:1000], Port: 1}},
	} {
		if diff := cmp.Diff(tc.want, serverEndpoint(tc.servers)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Two clusters that reach each other write the same clients, and one may have an old view of the other.
func TestEndpointReportConflict(t *testing.T) {
	count := endpointReporter{}
	old, now := &endpoint{Addresses: []string{"a"}, Port: 1}, &endpoint{Addresses: []string{"b"}, Port: 1}
	saying := func(uid types.UID, e *endpoint) networkingv1beta1.GatewayClient {
		c := networkingv1beta1.GatewayClient{ObjectMeta: metav1.ObjectMeta{UID: uid}}
		c.Status.Endpoint = e
		return c
	}
	for _, step := range []struct {
		what   string
		client networkingv1beta1.GatewayClient
		want   *endpoint
		told   bool
	}{
		{"a new client", saying("1", nil), old, true},
		{"it says so", saying("1", old), old, false},
		{"the other side says otherwise", saying("1", now), old, false},
		{"what was said is taken away", saying("1", nil), old, true},
		{"the server moved", saying("1", old), now, true},
		{"another client of the name", saying("2", old), now, true},
	} {
		count.keepReported([]networkingv1beta1.GatewayClient{step.client})
		if got := !count.isReported(&step.client, step.want); got != step.told {
			t.Errorf("%s: told %t, want %t", step.what, got, step.told)
		}
		count[step.client.UID] = step.want
	}
	if len(count) != 1 {
		t.Errorf("%d clients are remembered", len(count))
	}
}

// tenantCluster is the tenant namespace of one end, with the cluster that it is for.
type tenantCluster struct {
	*testkit.ControlPlane
	namespace, peer string
}

func (s tenantCluster) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: s.namespace, Name: name, Labels: map[string]string{names.RemoteClusterID: s.peer}}
}

// Whichever side has the server: the credentials are the consumer's either way, with the rights that the chart gives.
func TestEndpointReport(t *testing.T) {
	for _, serverIn := range []string{"provider", "consumer"} {
		t.Run(serverIn, func(t *testing.T) {
			p := newPeering(t)
			from, to := tenantCluster{p.provider, p.providerTenant, p.consumerID}, tenantCluster{p.consumer, p.consumerTenant, p.providerID}
			if serverIn == "consumer" {
				from, to = to, from
			}
			p.peered()
			p.run()
			server := &networkingv1beta1.GatewayServer{ObjectMeta: from.meta("server")}
			p.create(from.ControlPlane, server)
			p.patchStatus(from.ControlPlane, server, `{"status":{"endpoint":{"addresses":["198.51.100.7"],"port":30742,"protocol":"UDP"}}}`)
			dialler := &networkingv1beta1.GatewayClient{ObjectMeta: to.meta("client"), Spec: networkingv1beta1.GatewayClientSpec{
				Endpoint: endpoint{Addresses: []string{"203.0.113.1"}, Port: 1},
			}}
			another := &networkingv1beta1.GatewayClient{ObjectMeta: to.meta("another")}
			another.Labels[names.RemoteClusterID] = "turin"
			p.create(to.ControlPlane, dialler, another)
			p.patchStatus(to.ControlPlane, dialler, `{"status":{"internalEndpoint":{"ip":"10.0.0.9","node":"n"}}}`)
			p.waitForEndpoint(to, dialler, &endpoint{Addresses: []string{"198.51.100.7"}, Port: 30742, Protocol: new(corev1.ProtocolUDP)})

			// It moves, and is reached by other means.
			p.patchStatus(from.ControlPlane, server, `{"status":{"endpoint":{"addresses":["198.51.100.8","lb.example"],"port":null,"ports":[7,8]}}}`)
			p.waitForEndpoint(to, dialler, &endpoint{Addresses: []string{"198.51.100.8", "lb.example"}, Ports: []int32{7, 8}, Protocol: new(corev1.ProtocolUDP)})
			if diff := cmp.Diff(endpoint{Addresses: []string{"203.0.113.1"}, Port: 1}, dialler.Spec.Endpoint); diff != "" {
				t.Errorf("the spec was changed: %s", diff)
			}
			if at := dialler.Status.InternalEndpoint; at == nil || at.IP.String() != "10.0.0.9" {
				t.Errorf("the gateway is at %v", at)
			}
			if err := to.Client.Get(t.Context(), client.ObjectKeyFromObject(another), another); err != nil || another.Status.Endpoint != nil {
				t.Errorf("the client of another cluster was told %v, %v", another.Status.Endpoint, err)
			}

			// What is taken away comes back.
			p.patchStatus(to.ControlPlane, dialler, `{"status":{"endpoint":null}}`)
			p.waitForEndpoint(to, dialler, &endpoint{Addresses: []string{"198.51.100.8", "lb.example"}, Ports: []int32{7, 8}, Protocol: new(corev1.ProtocolUDP)})
		})
	}
}

// A provider that is older gives no right to gateways: all else goes on, and it does not count as one that refuses us.
func TestEndpointReportOldPeer(t *testing.T) {
	p := newPeering(t)
	all := "create delete deletecollection get list patch replicate update watch"
	p.create(p.provider, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "older"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"authentication.liqo.io"}, Resources: []string{"renews", "resourceslices"}, Verbs: strings.Fields(all)},
		{APIGroups: []string{"offloading.liqo.io"}, Resources: []string{"namespacemaps"}, Verbs: strings.Fields(all)},
	}}, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.providerTenant, Name: "older"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "older"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: p.userName}},
	})
	mine := tenantCluster{p.consumer, p.consumerTenant, p.providerID}
	p.create(p.consumer, p.secret("cplane-secret", testkit.Kubeconfig(t, p.user)), p.guideSlice(p.consumerTenant),
		&networkingv1beta1.GatewayServer{ObjectMeta: mine.meta("server")}, &networkingv1beta1.GatewayClient{ObjectMeta: mine.meta("client")})
	p.run()
	p.copied(nil)
	p.condition(established, "the API server answers")
}

func (p *peering) waitForEndpoint(at tenantCluster, dialler *networkingv1beta1.GatewayClient, want *endpoint) {
	p.t.Helper()
	testkit.Eventually(p.t, limit, func() error {
		if err := at.Client.Get(p.t.Context(), client.ObjectKeyFromObject(dialler), dialler); err != nil {
			return err
		}
		if diff := cmp.Diff(want, dialler.Status.Endpoint); diff != "" {
			return errors.New("(-want +got) " + diff)
		}
		return nil
	})
}
