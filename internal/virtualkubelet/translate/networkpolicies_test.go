// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/prefix"
)

func networkPair(local, remote string) prefix.Pair {
	return prefix.Pair{Local: netip.MustParsePrefix(local), Remote: netip.MustParsePrefix(remote)}
}

func policyPod(label string, addresses ...string) PolicyPod {
	out := PolicyPod{Labels: labels.Set{"app": label}}
	for _, a := range addresses {
		out.Addresses = append(out.Addresses, netip.MustParseAddr(a))
	}
	return out
}

// policyView is that of rome for milan. Both have the same networks: milan sees rome's pods as 10.81.0.0/16 and its external addresses as
// 10.78.0.0/16, and rome sees milan's as 10.71.0.0/16 and 10.68.0.0/16. Pods in oslo are seen as 10.69.0.0/16 by rome.
func policyView() PolicyView {
	return PolicyView{
		Own:  []prefix.Pair{networkPair("10.200.0.0/16", "10.81.0.0/16"), networkPair("10.70.0.0/16", "10.78.0.0/16")},
		Peer: []prefix.Pair{networkPair("10.71.0.0/16", "10.200.0.0/16"), networkPair("10.68.0.0/16", "10.70.0.0/16")},
		Exposed: map[netip.Addr]netip.Addr{
			netip.MustParseAddr("10.69.1.5"): netip.MustParseAddr("10.70.0.31"), netip.MustParseAddr("10.96.0.1"): netip.MustParseAddr("10.70.0.25"),
		},
		Namespaces: []PolicyNamespace{
			{Name: "shop", Labels: labels.Set{"team": "a"}, Remote: "shop-rome", Pods: []PolicyPod{
				policyPod("web", "10.200.1.4"), policyPod("web", "10.200.1.5"), policyPod("web", "10.71.1.5"), policyPod("web", "10.69.1.5"), policyPod("db", "10.200.2.7"),
			}},
			{Name: "billing", Labels: labels.Set{"team": "a"}, Remote: "billing-rome", Pods: []PolicyPod{policyPod("web", "10.71.1.6")}},
			{Name: "monitoring", Labels: labels.Set{"team": "b"}, Pods: []PolicyPod{policyPod("prometheus", "10.200.3.1")}},
			{Name: "elsewhere", Labels: labels.Set{"team": "c"}, Pods: []PolicyPod{policyPod("web", "10.69.1.6")}},
			{Name: "kube-system", Labels: labels.Set{"kubernetes.io/metadata.name": "kube-system"}, Pods: []PolicyPod{policyPod("dns", "10.200.0.2")}},
		},
	}
}

func TestNetworkPolicy(t *testing.T) {
	many := policyView()
	for i := range 2 * MaxPolicyPrefixes {
		many.Namespaces[2].Pods = append(many.Namespaces[2].Pods, policyPod("prometheus", fmt.Sprintf("10.200.%d.%d", 100+i/100, i%100*2)))
	}
	flat := policyView()
	flat.Flat = true
	for name, tc := range map[string]struct {
		view     PolicyView
		spec     string
		want     string
		problems string
	}{
		"deny_all": {policyView(), `{podSelector: {}, policyTypes: [Ingress, Egress]}`, `{podSelector: {}, policyTypes: [Ingress, Egress]}`, ""},
		"all_of_a_port": {policyView(), `{podSelector: {matchLabels: {app: web}}, ingress: [{ports: [{port: http, protocol: TCP}]}]}`,
			`{podSelector: {matchLabels: {app: web}}, ingress: [{ports: [{port: http, protocol: TCP}]}]}`, ""},
		"pods_of_the_namespace": {policyView(), `{podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {app: web}}}]}]}`,
			`{podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {app: web}}}, {ipBlock: {cidr: 10.78.0.31/32}}, {ipBlock: {cidr: 10.81.1.4/31}}]}]}`, ""},
		"pods_of_namespaces": {policyView(), `{podSelector: {}, ingress: [{from: [{namespaceSelector: {matchLabels: {team: a}}, podSelector: {matchLabels: {app: db}}}]}]}`,
			`{podSelector: {}, ingress: [{from: [{namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: In, values: [billing-rome, shop-rome]}]}, podSelector: {matchLabels: {app: db}}}, {ipBlock: {cidr: 10.81.2.7/32}}]}]}`, ""},
		"a_namespace_that_is_not_offloaded": {policyView(), `{podSelector: {}, ingress: [{from: [{namespaceSelector: {matchLabels: {team: b}}}], ports: [{port: 9090}]}]}`,
			`{podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 10.81.3.1/32}}], ports: [{port: 9090}]}]}`, ""},
		"pods_that_are_not_known": {policyView(), `{podSelector: {}, policyTypes: [Ingress], ingress: [{from: [{namespaceSelector: {matchLabels: {team: c}}}]}]}`,
			`{podSelector: {}, policyTypes: [Ingress]}`, "ingress rule 1: the provider does not know the addresses of 1 pods"},
		"no_namespace": {policyView(), `{podSelector: {}, policyTypes: [Ingress], ingress: [{from: [{namespaceSelector: {matchLabels: {team: z}}}]}]}`,
			`{podSelector: {}, policyTypes: [Ingress]}`, ""},
		"too_many": {many, `{podSelector: {}, ingress: [{from: [{namespaceSelector: {matchLabels: {team: b}}}]}, {from: [{ipBlock: {cidr: 192.0.2.0/24}}]}]}`,
			`{podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 192.0.2.0/24}}]}]}`, "ingress rule 1: 2001 prefixes are more than the policy may have, 1000: none of them is allowed"},
		"DNS_of_the_provider": {policyView(), `{podSelector: {}, egress: [{to: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: kube-system}}}], ports: [{port: 53, protocol: UDP}]}]}`,
			`{podSelector: {}, egress: [{to: [{ipBlock: {cidr: 10.81.0.2/32}}], ports: [{port: 53, protocol: UDP}]}, {ports: [{port: 53, protocol: UDP}]}]}`, ""},
		"DNS_among_all_ports": {policyView(), `{podSelector: {}, egress: [{to: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: kube-system}}}]}]}`,
			`{podSelector: {}, egress: [{to: [{ipBlock: {cidr: 10.81.0.2/32}}]}, {ports: [{port: 53, protocol: UDP}, {port: 53, protocol: TCP}]}]}`, ""},
		"no_DNS": {policyView(), `{podSelector: {}, egress: [{to: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: kube-system}}}], ports: [{port: 9153}]}]}`,
			`{podSelector: {}, egress: [{to: [{ipBlock: {cidr: 10.81.0.2/32}}], ports: [{port: 9153}]}]}`, ""},
		"block_of_pods": {policyView(), `{podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 10.200.4.0/22, except: [10.200.4.0/24]}}]}]}`,
			`{podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 10.81.5.0/24}}, {ipBlock: {cidr: 10.81.6.0/23}}]}]}`, ""},
		"block_of_pods_of_the_provider": {policyView(), `{podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 10.71.4.0/24}}]}]}`,
			`{podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 10.200.4.0/24}}]}]}`, ""},
		"block_elsewhere": {policyView(), `{podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 192.0.2.0/24}}]}]}`,
			`{podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 192.0.2.0/24}}]}]}`, ""},
		"all_but_pods": {policyView(), `{podSelector: {}, egress: [{to: [{ipBlock: {cidr: 0.0.0.0/0, except: [10.200.0.0/16, 192.0.2.0/24]}}]}]}`,
			`{podSelector: {}, egress: [{to: [{ipBlock: {cidr: 0.0.0.0/0, except: [10.81.0.0/16, 192.0.2.0/24]}}]}]}`, ""},
		"API_server": {policyView(), `{podSelector: {}, egress: [{to: [{ipBlock: {cidr: 10.96.0.1/32}}], ports: [{port: 443}]}]}`,
			`{podSelector: {}, egress: [{to: [{ipBlock: {cidr: 10.78.0.25/32}}], ports: [{port: 443}]}]}`, ""},
		"label_that_is_not_reflected": {policyView(), `{podSelector: {matchLabels: {secret: x}}}`, `{podSelector: {matchLabels: {secret: x}}}`, "the label secret of pods is not reflected"},
		"one_network": {flat, `{podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {app: db}}}, {ipBlock: {cidr: 10.200.0.0/24}}]}]}`,
			`{podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {app: db}}}, {ipBlock: {cidr: 10.200.0.0/24}}, {ipBlock: {cidr: 10.200.2.7/32}}]}]}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			parse := func(text string) (out networkingv1.NetworkPolicySpec) {
				if err := yaml.UnmarshalStrict([]byte(text), &out); err != nil {
					t.Fatal(err)
				}
				return out
			}
			local := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: parse(tc.spec)}
			target := Target{Namespace: "shop-rome", Origin: "rome", Destination: "milan", Patch: &offv1beta1.OffloadingPatch{LabelsNotReflected: []string{"secret"}}}
			got, problems := target.NetworkPolicy(local, tc.view)
			if diff := cmp.Diff(parse(tc.want), got.Spec); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(tc.problems, strings.Join(problems, "; ")); diff != "" {
				t.Error(diff)
			}
			if !target.Owns(got) || got.Namespace != "shop-rome" {
				t.Errorf("the copy is %s/%s of %v", got.Namespace, got.Name, got.Labels)
			}
		})
	}
}

// TestPolicyAddresses checks the translation of blocks address by address: an address of a block is allowed under what it is in the provider,
// and nothing else is.
func TestPolicyAddresses(t *testing.T) {
	view := policyView()
	rapid.Check(t, func(t *rapid.T) {
		address := func(label string) netip.Addr {
			second := rapid.SampledFrom([]byte{200, 70, 71, 68, 81, 78, 1}).Draw(t, label)
			return netip.AddrFrom4([4]byte{10, second, rapid.Byte().Draw(t, label), rapid.Byte().Draw(t, label)})
		}
		block := netip.PrefixFrom(address("block"), rapid.IntRange(9, 32).Draw(t, "bits")).Masked()
		set := view.translateSet(setOfBlock(&networkingv1.IPBlock{CIDR: block.String()}))
		a := address("address")
		seen, networks := a, slices.Concat(view.Own, view.Peer)
		for _, p := range networks {
			if p.Local.Contains(a) {
				seen = prefix.Move(a, p.Remote)
			}
		}
		if seen == a && slices.ContainsFunc(networks, func(p prefix.Pair) bool { return p.Remote.Contains(a) }) {
			return // an address that pods in the provider cannot mean
		}
		if got := set.Contains(seen); got != block.Contains(a) {
			t.Fatalf("%s, in the provider %s, is allowed: %t; in the block %s: %t", a, seen, got, block, block.Contains(a))
		}
	})
}
