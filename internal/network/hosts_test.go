// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/api/networking/v1beta1/firewall"
	"liqo.io/liqo/internal/agent"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

// hostSays has hosts say of an object that it is done.
func (s *testEnv) hostSays(obj client.Object, hosts ...string) {
	s.Helper()
	for _, host := range hosts {
		if err := s.get(obj); err != nil {
			s.Fatal(err)
		}
		snapshot := &agent.Snapshot{}
		switch o := obj.(type) {
		case *networkingv1beta1.RouteConfiguration:
			snapshot.Routes = append(snapshot.Routes, o)
		case *networkingv1beta1.FirewallConfiguration:
			snapshot.Firewalls = append(snapshot.Firewalls, o)
		}
		r := agent.Reporter{Client: s.c.Client, Host: host}
		if err := r.Applied(s.Context(), snapshot, nil, nil); err != nil {
			s.Fatal(err)
		}
	}
}

// wantSaid expects these hosts to say something of an object, and no others, nor anything of others in what the API server keeps of writers.
func (s *testEnv) wantSaid(obj client.Object, hosts ...string) {
	s.Helper()
	slices.Sort(hosts)
	s.eventually(func() error {
		if err := s.get(obj); err != nil {
			return err
		}
		var got, writers []string
		for _, c := range *hostConditionsOf(obj) {
			got = append(got, c.Host)
		}
		slices.Sort(got)
		for _, m := range obj.GetManagedFields() {
			if m.Operation == metav1.ManagedFieldsOperationApply {
				writers = append(writers, m.Manager)
			}
		}
		if !slices.Equal(got, hosts) || len(writers) != len(hosts) {
			return fmt.Errorf("%s: %q say something, as %q; want %q", obj.GetName(), got, writers, hosts)
		}
		return nil
	})
}

func TestRemovedHost(t *testing.T) {
	s := newTestEnv(t)
	user := "system:serviceaccount:" + s.liqo + ":" + names.ControllerManager
	const group = networkingv1beta1.GroupName
	rights := []rbacv1.PolicyRule{
		testkit.Rule("", "nodes", "get", "list", "watch"),
		testkit.Rule(group, "firewallconfigurations/status", "patch"), testkit.Rule(group, "routeconfigurations/status", "patch"),
	}
	for _, kind := range []string{"firewallconfigurations", "routeconfigurations", "gatewayservers", "gatewayclients"} {
		rights = append(rights, testkit.Rule(group, kind, "get", "list", "watch"))
	}
	testkit.Allow(t, s.c, "", user, rights...)

	one, two := s.node("192.0.2.1"), s.node("192.0.2.2")
	template := &networkingv1beta1.WgGatewayServerTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: s.liqo, Name: "t"}}
	stays, goes := s.server("stays", template), s.server("goes", template)
	s.createTemporary(stays)
	s.createTemporary(goes)
	table := firewall.Table{Name: new("t"), Family: new(firewall.TableFamilyIPv4), Chains: []firewall.Chain{}}
	wall := func(namespace, name string, labels map[string]string) *networkingv1beta1.FirewallConfiguration {
		f := &networkingv1beta1.FirewallConfiguration{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}}
		f.Spec.Table = table
		s.createTemporary(f)
		return f
	}
	ofNodes := wall(s.liqo, "nodes", map[string]string{names.FirewallCategory: names.TargetFabric, names.FirewallSubcategory: names.TargetAllNodes})
	ofOne := wall(s.liqo, "one", map[string]string{
		names.FirewallCategory: names.TargetFabric, names.FirewallSubcategory: names.TargetSingleNode, names.FirewallUnique: one.Name,
	})
	ofGateways := wall(s.where, "gateways", map[string]string{names.FirewallCategory: names.TargetGateway, names.FirewallUnique: "rome"})
	routes := &networkingv1beta1.RouteConfiguration{ObjectMeta: metav1.ObjectMeta{
		Namespace: s.liqo, Name: "routes", Labels: map[string]string{names.RouteCategory: names.TargetFabric},
	}}
	routes.Spec.Table = networkingv1beta1.Table{Name: "t", Rules: []networkingv1beta1.Rule{{Routes: []networkingv1beta1.Route{{Dst: new(networkingv1beta1.CIDR("192.0.2.0/24"))}}}}}
	s.createTemporary(routes)

	s.hostSays(ofNodes, one.Name, two.Name, "gone-before")
	s.hostSays(ofOne, one.Name, two.Name)
	s.hostSays(ofGateways, "stays", "goes", one.Name)
	s.hostSays(routes, one.Name, two.Name, "gone-before")
	testkit.Manager(t, s.c.User(t, user), kube.ManagerOptions{Name: "hosts"}, func(mgr ctrl.Manager) error {
		return SetupHosts(mgr, HostOptions{LiqoNamespace: s.liqo})
	})
	s.wantSaid(ofNodes, one.Name, two.Name)
	s.wantSaid(ofOne, one.Name)
	s.wantSaid(ofGateways, "stays", "goes")
	s.wantSaid(routes, one.Name, two.Name)

	for _, obj := range []client.Object{two, goes} {
		if err := s.c.Client.Delete(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
	s.wantSaid(ofNodes, one.Name)
	s.wantSaid(ofGateways, "stays")
	s.wantSaid(routes, one.Name)
	t.Log("it is for no node any more")
	testkit.Update(t, s.c.Client, routes, func(r *networkingv1beta1.RouteConfiguration) { r.Labels = nil })
	s.wantUnapplied(routes, "the label networking.liqo.io/route-category is \"\"")

	t.Log("what no host applies says so, until one does")
	nobodys := wall(s.where, "nobodys", map[string]string{names.FirewallCategory: names.TargetGateway, names.FirewallUnique: "paris"})
	s.wantUnapplied(nobodys, `no gateway for "paris"`)
	misplaced := wall(s.where, "misplaced", map[string]string{names.FirewallCategory: names.TargetFabric, names.FirewallSubcategory: names.TargetAllNodes})
	s.wantUnapplied(misplaced, "from namespace "+s.liqo+" only")
	ofAll := wall(s.liqo, "all", map[string]string{names.FirewallCategory: names.TargetGateway, names.FirewallSubcategory: names.TargetAllGateways})
	paris := s.server("paris", template)
	paris.Labels[names.RemoteClusterID] = "paris"
	s.createTemporary(paris)
	s.wantSaid(nobodys)
	s.wantSaid(ofAll)
}

// wantUnapplied expects the status of an object to say that no host applies it.
func (s *testEnv) wantUnapplied(obj client.Object, reason string) {
	s.Helper()
	s.eventually(func() error {
		if err := s.get(obj); err != nil {
			return err
		}
		reported := *hostConditionsOf(obj)
		if len(reported) != 1 || reported[0].Host != networkingv1beta1.NoHost || reported[0].Status != metav1.ConditionFalse ||
			reported[0].Reason != networkingv1beta1.ReasonNoHost || !strings.Contains(reported[0].Message, reason) {
			return fmt.Errorf("%s: %+v", obj.GetName(), reported)
		}
		return nil
	})
}
