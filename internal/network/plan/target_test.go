// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/names"
)

func TestUnappliedReasons(t *testing.T) {
	const home, tenant = "liqo", "liqo-tenant-rome"
	firewall := func(namespace, category, subcategory, unique string) metav1.Object {
		labels := map[string]string{names.FirewallCategory: category, names.FirewallSubcategory: subcategory, names.FirewallUnique: unique}
		return &networkingv1beta1.FirewallConfiguration{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Labels: labels}}
	}
	route := func(namespace, category, subcategory, unique string) metav1.Object {
		labels := map[string]string{names.RouteCategory: category, names.RouteSubcategory: subcategory, names.RouteUnique: unique}
		return &networkingv1beta1.RouteConfiguration{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Labels: labels}}
	}
	for _, c := range []struct {
		of   metav1.Object
		want string
	}{
		{&networkingv1beta1.FirewallConfiguration{}, `the label networking.liqo.io/firewall-category is "": it must be gateway or fabric`},
		{&networkingv1beta1.RouteConfiguration{}, `the label networking.liqo.io/route-category is ""`},
		{firewall(home, "fabrik", "", ""), `is "fabrik"`},
		{firewall(tenant, "fabric", "all-nodes", ""), "nodes take a FirewallConfiguration from namespace liqo only"},
		{route(tenant, "fabric", "", ""), "nodes take a RouteConfiguration from namespace liqo only"},
		{firewall(home, "fabric", "some", ""), `firewall-subcategory is "some": for nodes it must be one of all-nodes, ip-mapping, single-node`},
		{firewall(home, "fabric", "single-node", "n"), `node "n"`},
		{firewall(home, "fabric", "all-nodes", ""), "there is no node"},
		{route(home, "fabric", "", ""), "there is no node"},
		{firewall(tenant, "gateway", "", "rome"), `no gateway for "rome"`},
		{route(tenant, "gateway", "", ""), "networking.liqo.io/route-subcategory and networking.liqo.io/route-unique are missing"},
		{firewall(tenant, "gateway", "all-gateways", ""), "no gateway exists in namespace liqo-tenant-rome"},
	} {
		if got := WhyUnapplied(c.of, home); !strings.Contains(got, c.want) {
			t.Errorf("%v: %q, want %q", c.of.GetLabels(), got, c.want)
		}
	}
}
