// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package replicator

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/testkit"
)

// Each cluster learns the networks of the other, by the credentials of the consumer and with the rights that the chart gives.
func TestNetworkReport(t *testing.T) {
	p := newPeering(t)
	provider, consumer := tenantCluster{p.provider, p.providerTenant, p.consumerID}, tenantCluster{p.consumer, p.consumerTenant, p.providerID}
	p.peered()
	p.run()
	of := func(pods ...networkingv1beta1.CIDR) *networkingv1beta1.ClusterConfig {
		return &networkingv1beta1.ClusterConfig{CIDR: networkingv1beta1.ClusterConfigCIDR{Pod: pods, External: []networkingv1beta1.CIDR{"10.70.0.0/16"}}}
	}
	there, here := &networkingv1beta1.Configuration{ObjectMeta: provider.meta("consumer")}, &networkingv1beta1.Configuration{ObjectMeta: consumer.meta("provider")}
	there.Spec.Local, here.Spec.Local = of("10.200.0.0/16"), of("10.201.0.0/16")
	p.create(provider.ControlPlane, there)
	p.create(consumer.ControlPlane, here)
	reported := func(c tenantCluster, to *networkingv1beta1.Configuration, want *networkingv1beta1.ClusterConfig) {
		t.Helper()
		testkit.Eventually(t, limit, func() error {
			now := &networkingv1beta1.Configuration{}
			if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(to), now); err != nil {
				return err
			}
			if diff := cmp.Diff(want, now.Status.ReportedRemote); diff != "" {
				return fmt.Errorf("(-want +got):\n%s", diff)
			}
			return nil
		})
	}
	reported(consumer, here, of("10.200.0.0/16"))
	reported(provider, there, of("10.201.0.0/16"))
	testkit.Update(t, p.provider.Client, there, func(c *networkingv1beta1.Configuration) { c.Spec.Local = of("10.200.0.0/16", "10.202.0.0/16") })
	testkit.Update(t, p.consumer.Client, here, func(c *networkingv1beta1.Configuration) { c.Spec.Local = of("10.201.0.0/16", "10.203.0.0/16") })
	reported(consumer, here, of("10.200.0.0/16", "10.202.0.0/16"))
	reported(provider, there, of("10.201.0.0/16", "10.203.0.0/16"))

	// Networks that nobody may report are not reported.
	testkit.Update(t, p.provider.Client, there, func(c *networkingv1beta1.Configuration) { c.Spec.Local = of("10.0.0.0/8") })
	testkit.Update(t, p.consumer.Client, here, func(c *networkingv1beta1.Configuration) { c.Spec.Local = of("10.204.0.0/16") })
	reported(provider, there, of("10.204.0.0/16"))
	reported(consumer, here, of("10.200.0.0/16", "10.202.0.0/16"))
}
