// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/names"
)

// Peers are told of the addresses that gateways translate, and of no others.
func TestPublishedIPs(t *testing.T) {
	ip := func(name string, made int64, address, shown string) ipamv1alpha1.IP {
		return ipamv1alpha1.IP{
			ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: name, CreationTimestamp: metav1.Unix(made, 0)},
			Spec:       ipamv1alpha1.IPSpec{IP: networkingv1beta1.IP(address)}, Status: ipamv1alpha1.IPStatus{IP: networkingv1beta1.IP(shown)},
		}
	}
	leaving, hidden := ip("leaving", 1, "172.29.1.1", "10.70.0.1"), ip("hidden", 1, "172.29.1.2", "10.70.0.2")
	leaving.DeletionTimestamp = new(metav1.Unix(2, 0))
	hidden.Labels = map[string]string{names.HostUnreachable: "true"}
	otherNamespace := func(made int64, address, shown string) ipamv1alpha1.IP {
		out := ip("x", made, address, shown)
		out.Namespace = "demo"
		return out
	}
	for name, test := range map[string]struct {
		ips  []ipamv1alpha1.IP
		want string
	}{
		"one":                             {[]ipamv1alpha1.IP{ip("a", 1, "172.29.1.1", "10.70.0.1")}, "map[172.29.1.1:10.70.0.1]"},
		"the first of two, not by name":   {[]ipamv1alpha1.IP{ip("a", 2, "172.29.1.1", "10.70.0.1"), ip("b", 1, "172.29.1.1", "10.70.0.2")}, "map[172.29.1.1:10.70.0.2]"},
		"of one second, the one by name":  {[]ipamv1alpha1.IP{ip("b", 1, "172.29.1.1", "10.70.0.2"), ip("a", 1, "172.29.1.1", "10.70.0.1")}, "map[172.29.1.1:10.70.0.1]"},
		"one that goes leaves its place":  {[]ipamv1alpha1.IP{leaving, ip("b", 2, "172.29.1.1", "10.70.0.2")}, "map[172.29.1.1:10.70.0.2]"},
		"one that nobody is to translate": {[]ipamv1alpha1.IP{hidden}, "map[]"},
		"one that has no address yet":     {[]ipamv1alpha1.IP{ip("a", 1, "", "10.70.0.1"), ip("b", 1, "172.29.1.1", "")}, "map[]"},
		"an older one elsewhere":          {[]ipamv1alpha1.IP{ip("a", 2, "172.29.1.1", "10.70.0.1"), otherNamespace(1, "172.29.1.1", "10.70.0.2")}, "map[172.29.1.1:10.70.0.2]"},
		"a younger one elsewhere":         {[]ipamv1alpha1.IP{ip("a", 1, "172.29.1.1", "10.70.0.1"), otherNamespace(2, "172.29.1.1", "10.70.0.2")}, "map[172.29.1.1:10.70.0.1]"},
		"one elsewhere only":              {[]ipamv1alpha1.IP{otherNamespace(1, "172.29.1.1", "10.70.0.2")}, "map[]"},
		"an alias that is another's":      {[]ipamv1alpha1.IP{ip("a", 2, "172.29.1.1", "10.70.0.1"), otherNamespace(1, "172.29.1.9", "10.70.0.1")}, "map[]"},
		"what no gateway translates":      {[]ipamv1alpha1.IP{ip("a", 1, "169.254.169.254", "10.70.0.1"), ip("b", 1, "fd00::1", "10.70.0.2")}, "map[]"},
	} {
		if got := fmt.Sprint(publishedAddresses(test.ips)["web"]); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

func TestTranslationChanges(t *testing.T) {
	ready := ipamv1alpha1.IP{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "a"}, Spec: ipamv1alpha1.IPSpec{IP: "172.29.1.1"}, Status: ipamv1alpha1.IPStatus{IP: "10.70.0.1"}}
	for name, test := range map[string]struct {
		edit func(*ipamv1alpha1.IP)
		want bool
	}{
		"condition": {func(ip *ipamv1alpha1.IP) {
			ip.Status.Conditions = []metav1.Condition{{Type: ipamv1alpha1.ConditionAllocated}}
		}, false},
		"label":              {func(ip *ipamv1alpha1.IP) { ip.Labels = map[string]string{names.NetworkName: "external-cidr"} }, false},
		"address":            {func(ip *ipamv1alpha1.IP) { ip.Status.IP = "10.70.0.2" }, true},
		"no_address":         {func(ip *ipamv1alpha1.IP) { ip.Status.IP = "" }, true},
		"deletion":           {func(ip *ipamv1alpha1.IP) { ip.DeletionTimestamp = new(metav1.Unix(2, 0)) }, true},
		"host_not_reachable": {func(ip *ipamv1alpha1.IP) { ip.Labels = map[string]string{names.HostUnreachable: "true"} }, true},
		"type":               {func(ip *ipamv1alpha1.IP) { ip.Labels = map[string]string{names.IPType: names.IPTypeAPIServer} }, true},
	} {
		t.Run(name, func(t *testing.T) {
			after := ready.DeepCopy()
			test.edit(after)
			if got := translationChanged(event.UpdateEvent{ObjectOld: &ready, ObjectNew: after}); got != test.want {
				t.Errorf("changed is %t", got)
			}
		})
	}
}

func BenchmarkPublishedAddresses(b *testing.B) {
	var ips []ipamv1alpha1.IP
	for i := range 5000 {
		ips = append(ips, ipamv1alpha1.IP{
			ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprint("shop-", i%50), Name: fmt.Sprint("web-", i)},
			Spec:       ipamv1alpha1.IPSpec{IP: networkingv1beta1.IP(fmt.Sprintf("10.71.%d.%d", i/250, i%250))}, Status: ipamv1alpha1.IPStatus{IP: networkingv1beta1.IP(fmt.Sprintf("10.70.%d.%d", 1+i/250, i%250))},
		})
	}
	for b.Loop() {
		publishedAddresses(ips)
	}
}
