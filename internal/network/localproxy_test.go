// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

// A peer reads another external CIDR of this cluster together with the address that the API server proxy has in it.
func TestConfigurationPublishesProxy(t *testing.T) {
	s := installed(t)
	s.stop = testkit.Manager(t, s.c.Config, kube.ManagerOptions{Name: "network"}, func(mgr ctrl.Manager) error { // without IPAM: the test allocates
		return SetupConfigurations(mgr, ConfigurationOptions{LiqoNamespace: s.installation})
	})
	allocate := func(kind string, cidr networkingv1beta1.CIDR) {
		t.Helper()
		n := &ipamv1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: s.installation, Name: kind}}
		testkit.UpdateStatus(t, s.c.Client, n, func(n *ipamv1alpha1.Network) { n.Status.CIDR = cidr })
	}
	proxy := &ipamv1alpha1.IP{ObjectMeta: metav1.ObjectMeta{Namespace: s.installation, Name: names.APIServerProxyIP}, Spec: ipamv1alpha1.IPSpec{IP: "10.96.0.20"}}
	testkit.Create(t, s.c.Client, proxy)
	allocateProxy := func(ip networkingv1beta1.IP, cidr networkingv1beta1.CIDR, allocated metav1.ConditionStatus) {
		t.Helper()
		testkit.UpdateStatus(t, s.c.Client, proxy, func(p *ipamv1alpha1.IP) {
			p.Status.IP, p.Status.CIDR = ip, cidr
			p.Status.Conditions = []metav1.Condition{{Type: ipamv1alpha1.ConditionAllocated, Status: allocated, Reason: "Test", LastTransitionTime: metav1.Now()}}
		})
	}
	cfg := configuration(s.ns, "milan", "milan", cidrs("10.210.0.0/16"), cidrs("10.220.0.0/16"))
	publishes := func(external networkingv1beta1.CIDR, proxyIP networkingv1beta1.IP) {
		t.Helper()
		want := &networkingv1beta1.ClusterConfig{CIDR: networkingv1beta1.ClusterConfigCIDR{Pod: cidrs("10.200.0.0/16"), External: cidrs(string(external))}, APIServerProxyIP: proxyIP}
		testkit.Eventually(t, limit, func() error {
			if err := s.c.Client.Get(t.Context(), client.ObjectKeyFromObject(cfg), cfg); err != nil {
				return err
			}
			if diff := cmp.Diff(want, cfg.Spec.Local); diff != "" {
				return fmt.Errorf("spec.local: -want +got:\n%s", diff)
			}
			return nil
		})
	}
	allocate(names.NetworkTypePod, "10.200.0.0/16")
	allocate(names.NetworkTypeExternal, "10.70.0.0/16")
	allocateProxy("10.70.0.9", "10.70.0.0/16", metav1.ConditionTrue)
	testkit.Create(t, s.c.Client, cfg)
	publishes("10.70.0.0/16", "10.70.0.9")

	// The proxy has no address in the next network yet. The condition of another Configuration shows that controllers ran meanwhile.
	allocateProxy("", "", metav1.ConditionTrue)
	allocate(names.NetworkTypeExternal, "10.79.0.0/16")
	rome := configuration(s.ns, "rome", "rome", cidrs("10.211.0.0/16"), cidrs("10.221.0.0/16"))
	testkit.Create(t, s.c.Client, rome)
	s.waitForCondition(rome, metav1.ConditionFalse, ReasonWaiting, "")
	if err := s.c.Client.Get(t.Context(), client.ObjectKeyFromObject(cfg), cfg); err != nil {
		t.Fatal(err)
	}
	if cfg.Spec.Local.CIDR.External[0] != "10.70.0.0/16" || rome.Spec.Local != nil {
		t.Errorf("published before the proxy has an address: %+v and %+v", cfg.Spec.Local, rome.Spec.Local)
	}
	allocateProxy("10.79.0.9", "10.79.0.0/16", metav1.ConditionTrue)
	publishes("10.79.0.0/16", "10.79.0.9")

	// It gets none: the network is full.
	allocate(names.NetworkTypeExternal, "10.80.0.0/16")
	allocateProxy("", "", metav1.ConditionFalse)
	publishes("10.80.0.0/16", "")
	allocateProxy("10.80.0.9", "10.80.0.0/16", metav1.ConditionTrue)
	publishes("10.80.0.0/16", "10.80.0.9")
	if err := s.c.Client.Delete(t.Context(), proxy); err != nil {
		t.Fatal(err)
	}
	publishes("10.80.0.0/16", "")
}
