// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

func TestGatewayPolicy(t *testing.T) {
	c := install(t)
	where := testkit.Namespace(t, c, "tenant", nil)
	endpoint := func(name, ip string) discoveryv1.Endpoint {
		return discoveryv1.Endpoint{
			Addresses: []string{ip}, Conditions: discoveryv1.EndpointConditions{Ready: new(false)},
			NodeName: new("worker"), TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: where, Name: name},
		}
	}
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: where, Name: "gw", Labels: map[string]string{names.NetworkingComponent: names.ComponentGateway}},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{endpoint("gw-a", "10.0.0.7"), endpoint("gw-b", "10.0.0.8")},
		Ports: []discoveryv1.EndpointPort{{Name: new("tunnel"), Protocol: new(corev1.ProtocolUDP), Port: new(int32(51840))}},
	}
	testkit.Create(t, c.Client, slice)
	user := "gateway-" + where
	rule := testkit.Rule(discoveryv1.GroupName, "endpointslices", "get", "list", "watch", "patch")
	rule.ResourceNames = []string{"gw"}
	testkit.Allow(t, c, where, user, rule)
	gateway := clientOf(t, c.User(t, user, "system:serviceaccounts", "system:serviceaccounts:"+where))
	collector := clientOf(t, c.User(t, user, "system:serviceaccounts", "system:serviceaccounts:kube-system")) // may create none either
	rights(t, func() error { return gateway.Get(t.Context(), client.ObjectKeyFromObject(slice), slice.DeepCopy()) })
	const one = "only change which endpoint of its Service is ready"
	for name, tc := range map[string]struct {
		edit func(*discoveryv1.EndpointSlice)
		as   client.Client
		want string
	}{
		"one is ready": {func(s *discoveryv1.EndpointSlice) { *s.Endpoints[1].Conditions.Ready = true }, gateway, ""},
		"both are ready": {func(s *discoveryv1.EndpointSlice) {
			*s.Endpoints[0].Conditions.Ready, *s.Endpoints[1].Conditions.Ready = true, true
		}, gateway, one},
		"ready by default": {func(s *discoveryv1.EndpointSlice) {
			s.Endpoints[0].Conditions.Ready, *s.Endpoints[1].Conditions.Ready = nil, true
		}, gateway, one},
		"another address": {func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Addresses[0] = "10.96.0.10" }, gateway, one},
		"more addresses": {func(s *discoveryv1.EndpointSlice) {
			s.Endpoints[0].Addresses = append(s.Endpoints[0].Addresses, "10.96.0.10")
		}, gateway, one},
		"one more":          {func(s *discoveryv1.EndpointSlice) { s.Endpoints = append(s.Endpoints, endpoint("x", "10.96.0.10")) }, gateway, one},
		"one less":          {func(s *discoveryv1.EndpointSlice) { s.Endpoints = s.Endpoints[:1] }, gateway, one},
		"one twice":         {func(s *discoveryv1.EndpointSlice) { s.Endpoints[1] = s.Endpoints[0] }, gateway, one},
		"another port":      {func(s *discoveryv1.EndpointSlice) { *s.Ports[0].Port = 53 }, gateway, one},
		"another Service":   {func(s *discoveryv1.EndpointSlice) { s.Labels[discoveryv1.LabelServiceName] = "dns" }, gateway, one},
		"without its label": {func(s *discoveryv1.EndpointSlice) { delete(s.Labels, names.NetworkingComponent) }, gateway, one},
		"an owner": {func(s *discoveryv1.EndpointSlice) {
			s.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "x", UID: "x"}}
		}, gateway, one},
		"by the garbage collector": {func(s *discoveryv1.EndpointSlice) {
			s.Finalizers = append(s.Finalizers, metav1.FinalizerDeleteDependents)
		}, collector, ""},
		"by an administrator": {func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Addresses[0] = "10.96.0.10" }, c.Client, ""},
	} {
		t.Run(name, func(t *testing.T) {
			now := slice.DeepCopy()
			tc.edit(now)
			expect(t, tc.as.Patch(t.Context(), now, client.MergeFrom(slice), client.DryRunAll), tc.want)
		})
	}
}
