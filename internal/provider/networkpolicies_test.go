// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/peer"
	"liqo.io/liqo/internal/testkit"
)

// apiGroups is a discovery client that knows these groups, or none at all.
type apiGroups []string

func (g apiGroups) ServerGroups() (*metav1.APIGroupList, error) {
	if g == nil {
		return nil, errors.New("no answer")
	}
	out := &metav1.APIGroupList{}
	for _, name := range g {
		out.Groups = append(out.Groups, metav1.APIGroup{Name: name})
	}
	return out, nil
}

func TestPolicyEnforcement(t *testing.T) {
	daemonSet := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-router"}}
	k3s := func(name, arguments string) client.Object {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"k3s.io/node-args": arguments}}}
	}
	agent, virtual := k3s("agent", `["agent"]`), k3s("virtual", `["server"]`)
	virtual.SetLabels(map[string]string{names.NodeType: names.NodeTypeVirtualNode})
	for name, tc := range map[string]struct {
		setting string
		groups  apiGroups
		objects []client.Object
		want    bool
	}{
		"unknown":     {"", apiGroups{"apps", "example.io"}, nil, false},
		"cilium":      {PoliciesDetected, apiGroups{"apps", "cilium.io"}, nil, true},
		"calico":      {"", apiGroups{"crd.projectcalico.org"}, nil, true},
		"antrea":      {"", apiGroups{"crd.antrea.io"}, nil, true},
		"kube-router": {"", apiGroups{"apps"}, []client.Object{daemonSet}, true},
		"k3s":         {"", apiGroups{"helm.cattle.io"}, []client.Object{k3s("server", `["server","--disable","traefik"]`), agent}, true},
		"k3s_without": {"", apiGroups{}, []client.Object{k3s("server", `["server","--disable-network-policy"]`)}, false},
		"k3s_one_of_two_without": {
			"", apiGroups{}, []client.Object{k3s("first", `["server"]`), k3s("second", `["server","--disable-network-policy","true","--flannel-backend","none"]`)}, false,
		},
		"k3s_with_false":       {"", apiGroups{}, []client.Object{k3s("server", `["server","--disable-network-policy","false"]`)}, true},
		"k3s_without_twice":    {"", apiGroups{}, []client.Object{k3s("server", `["server","--disable-network-policy","false","--disable-network-policy"]`)}, false},
		"k3s_servers_no_nodes": {"", apiGroups{}, []client.Object{agent}, false},
		"virtual_node_of_k3s":  {"", apiGroups{}, []client.Object{virtual}, false},
		"unreadable_arguments": {"", apiGroups{}, []client.Object{k3s("server", `server`)}, false},
		"no_answer":            {"", nil, []client.Object{daemonSet}, false},
		"stated":               {PoliciesEnforced, apiGroups{}, nil, true},
		"denied":               {PoliciesUnenforced, apiGroups{"cilium.io"}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			objects := fake.NewClientBuilder().WithScheme(kube.Scheme).WithObjects(tc.objects...).Build()
			e := policyEnforcement{setting: tc.setting, groups: tc.groups, live: objects, nodes: objects}
			for range 2 {
				if got := e.isEnforced(context.Background()); got != tc.want {
					t.Errorf("enforced: %t", got)
				}
			}
		})
	}
}

// TestConsumerNetworks has a consumer told how this cluster sees its networks, and that policies are enforced.
func TestConsumerNetworks(t *testing.T) {
	c := provider(t, NamespaceMapOptions{Version: "v1.3.0", NetworkPolicies: PoliciesEnforced})
	nm := consumer(t, c, "teal", map[string]string{"demo": "demo-teal"})
	mapping(t, c, nm, "demo", "demo-teal", offv1beta1.MappingAccepted)
	configuration := &networkingv1beta1.Configuration{ObjectMeta: metav1.ObjectMeta{
		Namespace: nm.Namespace, Name: "teal", Labels: map[string]string{names.RemoteClusterID: "teal"},
	}}
	cidrs := func(pods, external networkingv1beta1.CIDR) networkingv1beta1.ClusterConfigCIDR {
		return networkingv1beta1.ClusterConfigCIDR{Pod: []networkingv1beta1.CIDR{pods}, External: []networkingv1beta1.CIDR{external}}
	}
	configuration.Spec.Remote.CIDR = cidrs("10.200.0.0/16", "10.70.0.0/16")
	testkit.Create(t, c.Client, configuration)
	t.Cleanup(func() { _ = c.Client.Delete(context.Background(), configuration) })
	told := func(want ...offv1beta1.TranslatedNetwork) {
		t.Helper()
		eventually(t, c, nm, func() error {
			if !slices.Contains(nm.Status.ProviderCapabilities, peer.EnforcedNetworkPolicies) || !slices.IsSorted(nm.Status.ProviderCapabilities) {
				return fmt.Errorf("capabilities %q", nm.Status.ProviderCapabilities)
			}
			if diff := cmp.Diff(want, nm.Status.ConsumerNetworks); diff != "" {
				return errors.New(diff)
			}
			return nil
		})
	}
	told()
	testkit.UpdateStatus(t, c.Client, configuration, func(c *networkingv1beta1.Configuration) {
		c.Status.Remote = &networkingv1beta1.ClusterConfig{CIDR: cidrs("10.71.0.0/16", "10.68.0.0/16")}
		c.Status.Conditions = []metav1.Condition{{
			Type: networkingv1beta1.ConditionNetworkCIDRsConfigured, Status: metav1.ConditionTrue, Reason: "Placed",
			ObservedGeneration: c.Generation, LastTransitionTime: metav1.Now(),
		}}
	})
	told(offv1beta1.TranslatedNetwork{CIDR: "10.200.0.0/16", TranslatedCIDR: "10.71.0.0/16"}, offv1beta1.TranslatedNetwork{CIDR: "10.70.0.0/16", TranslatedCIDR: "10.68.0.0/16"})
}
