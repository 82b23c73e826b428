// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
)

func TestConnectionProblem(t *testing.T) {
	at := func(port int32, addresses ...string) networkingv1beta1.EndpointStatus {
		return networkingv1beta1.EndpointStatus{Addresses: addresses, Port: port, Protocol: new(corev1.ProtocolUDP)}
	}
	dials := func(spec networkingv1beta1.EndpointStatus, reported *networkingv1beta1.EndpointStatus) *gateway {
		return GatewayOf(&networkingv1beta1.GatewayClient{
			Spec: networkingv1beta1.GatewayClientSpec{Endpoint: spec}, Status: networkingv1beta1.GatewayClientStatus{Endpoint: reported},
		})
	}
	usual, serves := dials(at(31900, "198.51.100.7"), nil), GatewayOf(&networkingv1beta1.GatewayServer{})
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
