// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package attacks

import (
	"context"
	"errors"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/test/story"
)

// A gateway of several replicas that was taken over leads its own Service to another replica of it, and no Service to anything else.
func TestGatewayReplica(t *testing.T) {
	var deployments appsv1.DeploymentList
	of := client.MatchingLabels{names.NetworkingComponent: names.ComponentGateway}
	if err := provider.Client.List(t.Context(), &deployments, client.InNamespace(providerTenant), of); err != nil || len(deployments.Items) != 1 {
		t.Fatalf("there are %d gateways: %v", len(deployments.Items), err)
	}
	gateway := authenticate(t, provider, providerTenant, deployments.Items[0].Spec.Template.Spec.ServiceAccountName)
	mine := metav1.ObjectMeta{Namespace: providerTenant, Name: deployments.Items[0].Name}
	own := &discoveryv1.EndpointSlice{ObjectMeta: mine}
	story.Eventually(t, "two endpoints, of which one is ready", patience, func(ctx context.Context) error {
		err := provider.Client.Get(ctx, client.ObjectKeyFromObject(own), own)
		if err == nil && (len(own.Endpoints) != 2 || *own.Endpoints[0].Conditions.Ready == *own.Endpoints[1].Conditions.Ready) {
			err = errors.New("that is not so yet")
		}
		return err
	})
	other := own.DeepCopy()
	other.ObjectMeta = metav1.ObjectMeta{Namespace: providerTenant, Name: "attacks-other-gateway", Labels: own.Labels}
	if err := provider.Client.Create(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kubectl(t, provider, "", "delete", "endpointslice", "-n", other.Namespace, other.Name) })
	edit := func(slice *discoveryv1.EndpointSlice, change func(*discoveryv1.EndpointSlice)) request {
		now := slice.DeepCopy()
		change(now)
		return func(ctx context.Context) error {
			return gateway.Patch(ctx, now.DeepCopy(), client.MergeFrom(slice), client.DryRunAll)
		}
	}
	swap := func(s *discoveryv1.EndpointSlice) {
		s.Endpoints[0].Conditions, s.Endpoints[1].Conditions = s.Endpoints[1].Conditions, s.Endpoints[0].Conditions
	}
	takeLease := func(name string) request {
		return func(ctx context.Context) error {
			lease := &coordinationv1.Lease{}
			if err := provider.Client.Get(ctx, client.ObjectKeyFromObject(own), lease); err != nil {
				return err
			}
			lease.Name = name
			return gateway.Update(ctx, lease, client.DryRunAll)
		}
	}
	const rule = "only change which endpoint of its Service is ready"
	allowed := edit(own, swap)
	system := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "kubernetes"}}
	runAttacks(t, map[string]attack{
		"another_slice":    {edit(other, swap), forbidden, allowed},
		"slice_of_cluster": {gateway.patch(system, `{"endpoints":[]}`), forbidden, allowed},
		"new_slice":        {gateway.create(&discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: providerTenant, Name: "attack"}, AddressType: own.AddressType}), forbidden, allowed},
		"deletion":         {gateway.remove(own), forbidden, allowed},
		"another_service": {edit(own, func(s *discoveryv1.EndpointSlice) {
			s.Labels[discoveryv1.LabelServiceName] = "attack"
		}), rule, allowed},
		"without_its_label": {edit(own, func(s *discoveryv1.EndpointSlice) { delete(s.Labels, names.NetworkingComponent) }), rule, allowed},
		"another_address":   {edit(own, func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Addresses = []string{"198.51.100.7"} }), rule, allowed},
		"another_pod":       {edit(own, func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].TargetRef.Name = "attack" }), rule, allowed},
		"another_port":      {edit(own, func(s *discoveryv1.EndpointSlice) { s.Ports[0].Port = new(int32(53)) }), rule, allowed},
		"one_more": {edit(own, func(s *discoveryv1.EndpointSlice) {
			s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{"198.51.100.7"}})
		}), rule, allowed},
		"both_ready": {edit(own, func(s *discoveryv1.EndpointSlice) {
			s.Endpoints[0].Conditions.Ready, s.Endpoints[1].Conditions.Ready = new(true), new(true)
		}), rule, allowed},
		"another_lease": {takeLease("attack"), forbidden, takeLease(own.Name)},
	})
}
