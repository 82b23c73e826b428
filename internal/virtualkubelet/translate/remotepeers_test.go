// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"
)

func TestRemotePeers(t *testing.T) {
	remote := []PolicyNamespace{
		{Name: "shop", Labels: labels.Set{"team": "a"}, Pods: []PolicyPod{policyPod("web", "10.71.1.4"), policyPod("web", "10.71.1.5"), policyPod("db", "10.69.2.7")}},
		{Name: "billing", Labels: labels.Set{"team": "a"}, Pods: []PolicyPod{policyPod("web", "10.71.1.6")}},
	}
	many := []PolicyNamespace{{Name: "shop"}}
	for i := range MaxPolicyPrefixes + 1 {
		many[0].Pods = append(many[0].Pods, policyPod("web", fmt.Sprintf("10.71.%d.%d", i/100, i%100*2)))
	}
	for name, tc := range map[string]struct {
		remote   []PolicyNamespace
		spec     string
		want     string // empty for none
		problems string
	}{
		"deny_all":      {remote, `{podSelector: {}, policyTypes: [Ingress, Egress]}`, "", ""},
		"all_peers":     {remote, `{podSelector: {}, ingress: [{}], policyTypes: [Ingress]}`, "", ""},
		"blocks":        {remote, `{podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 10.71.0.0/16}}]}], policyTypes: [Ingress]}`, "", ""},
		"no_remote_pod": {remote, `{podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {app: other}}}]}], policyTypes: [Ingress]}`, "", ""},
		"pods_of_the_namespace": {remote, `{podSelector: {matchLabels: {app: db}}, ingress: [{ports: [{port: sql}], from: [{podSelector: {matchLabels: {app: web}}}, {ipBlock: {cidr: 192.0.2.0/24}}]}], policyTypes: [Ingress]}`,
			`{podSelector: {matchLabels: {app: db}}, ingress: [{ports: [{port: sql}], from: [{ipBlock: {cidr: 10.71.1.4/31}}]}], policyTypes: [Ingress]}`, ""},
		"pods_of_namespaces": {remote, `{podSelector: {}, egress: [{ports: [{port: 80}], to: [{namespaceSelector: {matchLabels: {team: a}}, podSelector: {matchLabels: {app: web}}}]}], policyTypes: [Egress]}`,
			`{podSelector: {}, egress: [{ports: [{port: 80}], to: [{ipBlock: {cidr: 10.71.1.4/31}}, {ipBlock: {cidr: 10.71.1.6/32}}]}], policyTypes: [Egress]}`, ""},
		"all_namespaces": {remote, `{podSelector: {}, ingress: [{from: [{namespaceSelector: {}}]}], policyTypes: [Ingress, Egress]}`,
			`{podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 10.69.2.7/32}}, {ipBlock: {cidr: 10.71.1.4/31}}, {ipBlock: {cidr: 10.71.1.6/32}}]}], policyTypes: [Ingress]}`, ""},
		"rules_without_effect": {remote, `{podSelector: {}, egress: [{to: [{podSelector: {}}]}], policyTypes: [Ingress]}`, "", ""},
		"named_ports": {remote, `{podSelector: {}, egress: [{ports: [{port: http}], to: [{podSelector: {}}]}, {ports: [{port: http}, {port: 81}], to: [{podSelector: {matchLabels: {app: db}}}]}], policyTypes: [Egress]}`,
			`{podSelector: {}, egress: [{ports: [{port: 81}], to: [{ipBlock: {cidr: 10.69.2.7/32}}]}], policyTypes: [Egress]}`,
			"egress rule 1: named ports of remote pods are not resolved, only numbers are; egress rule 2: named ports of remote pods are not resolved, only numbers are"},
		"too_many": {many, `{podSelector: {}, ingress: [{from: [{podSelector: {}}]}], policyTypes: [Ingress]}`, "", "ingress rule 1: 1001 prefixes are more than the policy may have, 1000: none of them is allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			np := &networkingv1.NetworkPolicy{}
			np.Namespace = "shop"
			if err := yaml.UnmarshalStrict([]byte(tc.spec), &np.Spec); err != nil {
				t.Fatal(err)
			}
			var want *networkingv1.NetworkPolicySpec
			if tc.want != "" {
				if err := yaml.UnmarshalStrict([]byte(tc.want), &want); err != nil {
					t.Fatal(err)
				}
			}
			got, problems := RemotePeers(np, tc.remote)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if diff := cmp.Diff(tc.problems, strings.Join(problems, "; ")); diff != "" {
				t.Errorf("problems: -want +got:\n%s", diff)
			}
		})
	}
}

func TestSelectsByLabels(t *testing.T) {
	np := &networkingv1.NetworkPolicy{}
	np.Namespace = "shop"
	if err := yaml.UnmarshalStrict([]byte(`{podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 10.0.0.0/8}}, {podSelector: {matchLabels: {app: web}}}]}], egress: [{to: [{namespaceSelector: {matchLabels: {team: b}}}]}]}`), &np.Spec); err != nil {
		t.Fatal(err)
	}
	web, db := policyPod("web", "10.71.1.4"), policyPod("db", "10.71.1.5")
	for name, tc := range map[string]struct {
		in   PolicyNamespace
		want bool
	}{
		"selected_in_the_namespace": {PolicyNamespace{Name: "shop", Pods: []PolicyPod{web}}, true},
		"other_label":               {PolicyNamespace{Name: "shop", Pods: []PolicyPod{db}}, false},
		"other_namespace":           {PolicyNamespace{Name: "billing", Pods: []PolicyPod{web}}, false},
		"selected_namespace":        {PolicyNamespace{Name: "billing", Labels: labels.Set{"team": "b"}, Pods: []PolicyPod{db}}, true},
		"no_pod":                    {PolicyNamespace{Name: "shop"}, false},
	} {
		if got := SelectsByLabels(np, tc.in); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
