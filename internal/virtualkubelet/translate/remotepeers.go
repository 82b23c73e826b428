// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"fmt"
	"slices"

	"go4.org/netipx"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// RemotePeers returns the policy that admits by address the remote pods that np admits by labels; nil if np admits none. CNI plugins that know
// only pods of their own nodes by labels need this policy. The namespaces have remote pods only. A rule with too many prefixes admits none, and
// named ports of remote pods are left out: problems has the reasons.
func RemotePeers(np *networkingv1.NetworkPolicy, namespaces []PolicyNamespace) (want *networkingv1.NetworkPolicySpec, problems []string) {
	p := remotePeers{namespace: np.Namespace, namespaces: namespaces, left: MaxPolicyPrefixes}
	out := &networkingv1.NetworkPolicySpec{PodSelector: *np.Spec.PodSelector.DeepCopy()}
	for i, rule := range rulesOf(np, networkingv1.PolicyTypeIngress, np.Spec.Ingress) {
		if blocks := p.listBlocks(fmt.Sprintf("ingress rule %d", i+1), rule.From); len(blocks) > 0 {
			out.Ingress = append(out.Ingress, networkingv1.NetworkPolicyIngressRule{Ports: rule.DeepCopy().Ports, From: blocks})
		}
	}
	for i, rule := range rulesOf(np, networkingv1.PolicyTypeEgress, np.Spec.Egress) {
		name := fmt.Sprintf("egress rule %d", i+1)
		blocks := p.listBlocks(name, rule.To)
		if len(blocks) == 0 {
			continue
		}
		numbered := slices.DeleteFunc(rule.DeepCopy().Ports, hasPortName)
		if len(numbered) < len(rule.Ports) {
			p.problems = append(p.problems, name+": named ports of remote pods are not resolved, only numbers are")
		}
		if len(numbered) > 0 || len(rule.Ports) == 0 {
			out.Egress = append(out.Egress, networkingv1.NetworkPolicyEgressRule{Ports: numbered, To: blocks})
		}
	}
	if len(out.Ingress) > 0 {
		out.PolicyTypes = append(out.PolicyTypes, networkingv1.PolicyTypeIngress)
	}
	if len(out.Egress) > 0 {
		out.PolicyTypes = append(out.PolicyTypes, networkingv1.PolicyTypeEgress)
	}
	if len(out.PolicyTypes) == 0 {
		return nil, p.problems
	}
	return out, p.problems
}

// rulesOf returns no rules of a type that the policy does not have: they are without effect, and the type would isolate the pods.
func rulesOf[T any](np *networkingv1.NetworkPolicy, of networkingv1.PolicyType, rules []T) []T {
	if slices.Contains(np.Spec.PolicyTypes, of) {
		return rules
	}
	return nil
}

func hasPortName(p networkingv1.NetworkPolicyPort) bool {
	return p.Port != nil && p.Port.Type == intstr.String
}

// SelectsByLabels reports whether a peer of the policy selects a pod by labels.
func SelectsByLabels(np *networkingv1.NetworkPolicy, ns PolicyNamespace) bool {
	selects := func(p networkingv1.NetworkPolicyPeer) bool {
		if p.IPBlock != nil {
			return false
		}
		for found := range selectNamespaces(&p, np.Namespace, []PolicyNamespace{ns}) {
			return len(found.Pods) > 0
		}
		return false
	}
	return slices.ContainsFunc(np.Spec.Ingress, func(r networkingv1.NetworkPolicyIngressRule) bool { return slices.ContainsFunc(r.From, selects) }) ||
		slices.ContainsFunc(np.Spec.Egress, func(r networkingv1.NetworkPolicyEgressRule) bool { return slices.ContainsFunc(r.To, selects) })
}

// remotePeers is the work on one NetworkPolicy.
type remotePeers struct {
	namespace  string
	namespaces []PolicyNamespace
	left       int // prefixes that may still be added
	problems   []string
}

// listBlocks returns the addresses of the pods that the peers of a rule select by labels.
func (p *remotePeers) listBlocks(rule string, peers []networkingv1.NetworkPolicyPeer) (out []networkingv1.NetworkPolicyPeer) {
	var addresses netipx.IPSetBuilder
	for i := range peers {
		if peers[i].IPBlock != nil {
			continue
		}
		for ns := range selectNamespaces(&peers[i], p.namespace, p.namespaces) {
			for _, pod := range ns.Pods {
				for _, a := range pod.Addresses {
					addresses.Add(a)
				}
			}
		}
	}
	set, err := addresses.IPSet()
	if err != nil {
		panic(err) // only valid addresses were added
	}
	prefixes := set.Prefixes()
	if len(prefixes) > p.left {
		p.problems = append(p.problems, fmt.Sprintf("%s: %d prefixes are more than the policy may have, %d: none of them is allowed", rule, len(prefixes), MaxPolicyPrefixes))
		return nil
	}
	p.left -= len(prefixes)
	for _, prefix := range prefixes {
		out = append(out, networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: prefix.String()}})
	}
	return out
}
