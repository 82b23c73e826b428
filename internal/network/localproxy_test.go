// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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
	proxy.Labels = map[string]string{names.IPType: names.IPTypeAPIServerProxy}
	testkit.Create(t, s.c.Client, proxy)
	allocateProxy := func(ip networkingv1beta1.IP, cidr networkingv1beta1.CIDR) {
		t.Helper()
		testkit.UpdateStatus(t, s.c.Client, proxy, func(p *ipamv1alpha1.IP) { p.Status.IP, p.Status.CIDR = ip, cidr })
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
	allocateProxy("10.70.0.9", "10.70.0.0/16")
	testkit.Create(t, s.c.Client, cfg)
	publishes("10.70.0.0/16", "10.70.0.9")

	// The proxy has no address in the next network yet. The condition of another Configuration shows that controllers ran meanwhile.
	allocateProxy("", "")
	allocate(names.NetworkTypeExternal, "10.79.0.0/16")
	rome := configuration(s.ns, "rome", "rome", cidrs("10.211.0.0/16"), cidrs("10.221.0.0/16"))
	testkit.Create(t, s.c.Client, rome)
	s.waitForCondition(rome, metav1.ConditionFalse, ReasonWaiting, "")
	if err := s.c.Client.Get(t.Context(), client.ObjectKeyFromObject(cfg), cfg); err != nil {
		t.Fatal(err)
	}
	if cfg.Spec.Local.CIDR.External[0] != "10.70.0.0/16" {
		t.Errorf("published before the proxy has an address: %+v", cfg.Spec.Local)
	}
	allocateProxy("10.79.0.9", "10.79.0.0/16")
	publishes("10.79.0.0/16", "10.79.0.9")

	if err := s.c.Client.Delete(t.Context(), proxy); err != nil { // it may be made anew
		t.Fatal(err)
	}
	naples := configuration(s.ns, "naples", "naples", cidrs("10.212.0.0/16"), cidrs("10.222.0.0/16"))
	testkit.Create(t, s.c.Client, naples)
	s.waitForCondition(naples, metav1.ConditionFalse, ReasonWaiting, "")
	publishes("10.79.0.0/16", "10.79.0.9")
	proxy.ObjectMeta = metav1.ObjectMeta{Namespace: s.installation, Name: names.APIServerProxyIP} // a user makes one of that name
	testkit.Create(t, s.c.Client, proxy)
	allocateProxy("10.79.0.8", "10.79.0.0/16")
	genoa := configuration(s.ns, "genoa", "genoa", cidrs("10.213.0.0/16"), cidrs("10.223.0.0/16"))
	testkit.Create(t, s.c.Client, genoa)
	s.waitForCondition(genoa, metav1.ConditionFalse, ReasonWaiting, "")
	publishes("10.79.0.0/16", "10.79.0.9")
	if genoa.Spec.Local == nil || genoa.Spec.Local.APIServerProxyIP != "" {
		t.Errorf("an IP that a user made is published: %+v", genoa.Spec.Local)
	}
}

func TestPublicationDelay(t *testing.T) {
	config := func(external, proxy string) *networkingv1beta1.ClusterConfig {
		return &networkingv1beta1.ClusterConfig{CIDR: networkingv1beta1.ClusterConfigCIDR{External: cidrs(external)}, APIServerProxyIP: networkingv1beta1.IP(proxy)}
	}
	now := time.Now()
	for name, v := range map[string]struct {
		published, next *networkingv1beta1.ClusterConfig
		age, want       time.Duration
	}{
		"first":                 {nil, config("10.70.0.0/16", ""), 0, 0},
		"no_proxy_before":       {config("10.70.0.0/16", ""), config("10.79.0.0/16", ""), 0, 0},
		"proxy_follows":         {config("10.70.0.0/16", "10.70.0.9"), config("10.79.0.0/16", ""), 0, proxyPatience},
		"proxy_follows_late":    {config("10.70.0.0/16", "10.70.0.9"), config("10.79.0.0/16", ""), proxyPatience - time.Second, time.Second},
		"proxy_does_not_follow": {config("10.70.0.0/16", "10.70.0.9"), config("10.79.0.0/16", ""), proxyPatience, 0},
		"proxy_has_followed":    {config("10.70.0.0/16", "10.70.0.9"), config("10.79.0.0/16", "10.79.0.9"), 0, 0},
		"clock_set_back":        {config("10.70.0.0/16", "10.70.0.9"), config("10.79.0.0/16", ""), -time.Hour, proxyPatience},
	} {
		t.Run(name, func(t *testing.T) {
			if got := publicationDelay(v.published, v.next, now.Add(-v.age), now); got != v.want {
				t.Errorf("got %s, want %s", got, v.want)
			}
		})
	}
}

// A CustomResourceDefinition of an earlier version does not stop the publication of networks.
func TestUndeclaredField(t *testing.T) {
	s := installed(t)
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"local": map[string]any{"notOfThisVersion": "10.70.0.9"}}}}
	u.SetGroupVersionKind(networkingv1beta1.GroupVersion.WithKind("Configuration"))
	u.SetNamespace(s.ns)
	u.SetName("milan")
	if _, err := kube.Ensure(t.Context(), s.c.Client, u); err == nil || !isUndeclared(err) {
		t.Errorf("applying a field that is not declared: %v", err)
	}
}
