// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"fmt"
	"iter"
	"net/netip"
	"slices"

	"go4.org/netipx"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"liqo.io/liqo/internal/prefix"
)

// MaxPolicyPrefixes is the maximum number of prefixes in the copy of a NetworkPolicy.
const MaxPolicyPrefixes = 1000

const portDNS = 53

// PolicyView is what the peers of NetworkPolicies are in the provider.
type PolicyView struct {
	// Flat is set if addresses mean the same in both clusters.
	Flat bool
	// Own are the networks of this cluster and Peer the provider's: Local is the prefix in this cluster and Remote the prefix in the provider.
	Own, Peer []prefix.Pair
	// Exposed maps addresses to those published to peers.
	Exposed map[netip.Addr]netip.Addr
	// Namespaces are all namespaces of this cluster.
	Namespaces []PolicyNamespace
}

// PolicyNamespace is a namespace of this cluster.
type PolicyNamespace struct {
	Name   string
	Labels labels.Set
	// Remote is the remote namespace in the provider; empty for none.
	Remote string
	// Pods are those with an address of their own.
	Pods []PolicyPod
}

// PolicyPod is a pod of a PolicyNamespace.
type PolicyPod struct {
	Labels    labels.Set
	Addresses []netip.Addr
}

// NetworkPolicy returns the copy of a NetworkPolicy. Pods of this cluster running in the provider stay selected by labels; all others become
// the prefixes under which the provider sees them. A rule whose peers are unknown or too many allows none of them, and problems has the
// reason.
func (t Target) NetworkPolicy(local *networkingv1.NetworkPolicy, v PolicyView) (want *networkingv1.NetworkPolicy, problems []string) {
	from := local.Spec.DeepCopy()
	want = &networkingv1.NetworkPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: networkingv1.SchemeGroupVersion.String(), Kind: "NetworkPolicy"},
		ObjectMeta: t.objectMeta(local.Name, local),
		Spec:       networkingv1.NetworkPolicySpec{PodSelector: from.PodSelector, PolicyTypes: from.PolicyTypes},
	}
	p := policyTranslation{target: t, view: v, namespace: local.Namespace, left: MaxPolicyPrefixes}
	p.checkSelector(&from.PodSelector)
	for i, rule := range from.Ingress {
		if peers, some := p.translatePeers(fmt.Sprintf("ingress rule %d", i+1), rule.From); some {
			want.Spec.Ingress = append(want.Spec.Ingress, networkingv1.NetworkPolicyIngressRule{Ports: rule.Ports, From: peers})
		}
	}
	for i, rule := range from.Egress {
		p.dns = false
		if peers, some := p.translatePeers(fmt.Sprintf("egress rule %d", i+1), rule.To); some {
			want.Spec.Egress = append(want.Spec.Egress, networkingv1.NetworkPolicyEgressRule{Ports: rule.Ports, To: peers})
		}
		if ports := portsOfDNS(rule.Ports); p.dns && len(ports) > 0 {
			// Pods in the provider ask the DNS servers of the provider.
			want.Spec.Egress = append(want.Spec.Egress, networkingv1.NetworkPolicyEgressRule{Ports: ports})
		}
	}
	slices.Sort(p.problems)
	return want, slices.Compact(p.problems)
}

// policyTranslation is the translation of one NetworkPolicy.
type policyTranslation struct {
	target    Target
	view      PolicyView
	namespace string
	left      int // prefixes that may still be added
	// dns is set if a peer of the present rule has pods in the namespace of the DNS servers.
	dns      bool
	problems []string
}

// translatePeers returns the peers of a rule, and false if the rule has peers and none is left: without peers it would allow all.
func (p *policyTranslation) translatePeers(rule string, peers []networkingv1.NetworkPolicyPeer) (out []networkingv1.NetworkPolicyPeer, some bool) {
	if len(peers) == 0 {
		return nil, true
	}
	var addresses netipx.IPSetBuilder
	unknown := 0
	for i := range peers {
		peer := &peers[i]
		if peer.IPBlock != nil {
			if whole, ok := p.translateWhole(peer.IPBlock); ok {
				out = append(out, networkingv1.NetworkPolicyPeer{IPBlock: whole})
			} else {
				addresses.AddSet(p.view.translateSet(setOfBlock(peer.IPBlock)))
			}
			continue
		}
		selected, pods := p.selectPods(peer)
		if selected != nil {
			out = append(out, *selected)
		}
		for _, pod := range pods {
			for _, a := range pod.Addresses {
				switch seen, ok := p.view.translatePod(a); {
				case ok && seen.IsValid():
					addresses.Add(seen)
				case !ok:
					unknown++
				}
			}
		}
	}
	set, err := addresses.IPSet()
	if err != nil {
		panic(err) // only valid addresses were added
	}
	prefixes := set.Prefixes()
	if unknown > 0 {
		p.problems = append(p.problems, fmt.Sprintf("%s: the provider does not know the addresses of %d pods", rule, unknown))
	}
	if len(prefixes) > p.left {
		p.problems = append(p.problems, fmt.Sprintf("%s: %d prefixes are more than the policy may have, %d: none of them is allowed", rule, len(prefixes), MaxPolicyPrefixes))
		prefixes = nil
	}
	p.left -= len(prefixes)
	for _, prefix := range prefixes {
		out = append(out, networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: prefix.String()}})
	}
	return out, len(out) > 0
}

// selectPods returns the peer that selects pods in the provider, nil for none, and all pods selected by the peer.
func (p *policyTranslation) selectPods(peer *networkingv1.NetworkPolicyPeer) (selected *networkingv1.NetworkPolicyPeer, pods []PolicyPod) {
	p.checkSelector(peer.PodSelector)
	var remotes []string
	for ns := range selectNamespaces(peer, p.namespace, p.view.Namespaces) {
		if ns.Remote != "" {
			remotes = append(remotes, ns.Remote)
		}
		pods = append(pods, ns.Pods...)
		p.dns = p.dns || ns.Name == metav1.NamespaceSystem && len(ns.Pods) > 0
	}
	switch {
	case peer.NamespaceSelector == nil:
		return &networkingv1.NetworkPolicyPeer{PodSelector: peer.PodSelector}, pods
	case len(remotes) == 0:
		return nil, pods
	}
	slices.Sort(remotes)
	return &networkingv1.NetworkPolicyPeer{PodSelector: peer.PodSelector, NamespaceSelector: &metav1.LabelSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: remotes}},
	}}, pods
}

// selectNamespaces returns the namespaces that a peer of a policy in namespace selects by labels, each with only the selected pods.
func selectNamespaces(peer *networkingv1.NetworkPolicyPeer, namespace string, all []PolicyNamespace) iter.Seq[PolicyNamespace] {
	podSelector, namespaceSelector := labels.Everything(), labels.Nothing()
	var err, also error
	if peer.PodSelector != nil {
		podSelector, err = metav1.LabelSelectorAsSelector(peer.PodSelector)
	}
	if peer.NamespaceSelector != nil {
		namespaceSelector, also = metav1.LabelSelectorAsSelector(peer.NamespaceSelector)
	}
	return func(yield func(PolicyNamespace) bool) {
		if err != nil || also != nil {
			return // the API server accepts only valid selectors
		}
		for _, ns := range all {
			own := peer.NamespaceSelector == nil && ns.Name == namespace
			if !own && !namespaceSelector.Matches(ns.Labels) {
				continue
			}
			ns.Pods = slices.DeleteFunc(slices.Clone(ns.Pods), func(pod PolicyPod) bool { return !podSelector.Matches(pod.Labels) })
			if !yield(ns) {
				return
			}
		}
	}
}

// checkSelector adds a problem if a selector of pods names a label that pods in the provider do not have.
func (p *policyTranslation) checkSelector(s *metav1.LabelSelector) {
	if s == nil {
		return
	}
	keys := map[string]string{}
	for key := range s.MatchLabels {
		keys[key] = ""
	}
	for _, e := range s.MatchExpressions {
		keys[e.Key] = ""
	}
	kept := p.target.Labels(keys)
	for key := range keys {
		if _, ok := kept[key]; !ok {
			p.problems = append(p.problems, fmt.Sprintf("the label %s of pods is not reflected", key))
		}
	}
}

// translateWhole translates a block of all addresses of a family with exceptions, by translating the exceptions, and returns false for other blocks.
func (p *policyTranslation) translateWhole(block *networkingv1.IPBlock) (*networkingv1.IPBlock, bool) {
	cidr, err := netip.ParsePrefix(block.CIDR)
	if err != nil || cidr.Bits() > 0 {
		return nil, false
	}
	var except netipx.IPSetBuilder
	for _, text := range block.Except {
		if e, err := netip.ParsePrefix(text); err == nil {
			except.AddPrefix(e.Masked())
		}
	}
	set, err := except.IPSet()
	if err != nil {
		panic(err) // parsed prefixes are valid
	}
	out := &networkingv1.IPBlock{CIDR: block.CIDR}
	for _, e := range p.view.translateSet(set).Prefixes() {
		out.Except = append(out.Except, e.String())
	}
	if len(out.Except) > p.left {
		return nil, false
	}
	p.left -= len(out.Except)
	return out, true
}

// setOfBlock returns the addresses of a block.
func setOfBlock(block *networkingv1.IPBlock) *netipx.IPSet {
	var b netipx.IPSetBuilder
	if cidr, err := netip.ParsePrefix(block.CIDR); err == nil {
		b.AddPrefix(cidr.Masked())
	}
	for _, text := range block.Except {
		if e, err := netip.ParsePrefix(text); err == nil {
			b.RemovePrefix(e.Masked())
		}
	}
	set, err := b.IPSet()
	if err != nil {
		panic(err) // parsed prefixes are valid
	}
	return set
}

// translatePod returns the address of a pod in the provider, the zero address for a pod running in the provider, and false for an unknown pod.
func (v PolicyView) translatePod(local netip.Addr) (netip.Addr, bool) {
	if v.Flat {
		return local, true
	}
	if slices.ContainsFunc(v.Peer, func(p prefix.Pair) bool { return p.Local.Contains(local) }) {
		return netip.Addr{}, true
	}
	for _, a := range []netip.Addr{local, v.Exposed[local]} { // pods in other clusters are known by their published addresses
		for _, p := range v.Own {
			if a.IsValid() && p.Local.Contains(a) {
				return prefix.Move(a, p.Remote), true
			}
		}
	}
	return netip.Addr{}, false
}

// translateSet translates addresses: addresses of networks by their prefix, and others stay. Addresses with another meaning in the provider are
// left out.
func (v PolicyView) translateSet(in *netipx.IPSet) *netipx.IPSet {
	if v.Flat {
		return in
	}
	var out, rest netipx.IPSetBuilder
	rest.AddSet(in)
	for a, published := range v.Exposed {
		if !in.Contains(a) {
			continue
		}
		for _, p := range v.Own {
			if p.Local.Contains(published) {
				out.Add(prefix.Move(published, p.Remote))
				rest.Remove(a)
			}
		}
	}
	networks := slices.Concat(v.Own, v.Peer)
	for _, p := range networks {
		var within netipx.IPSetBuilder
		within.AddSet(in)
		var network netipx.IPSetBuilder
		network.AddPrefix(p.Local)
		only, err := network.IPSet()
		if err != nil {
			panic(err) // prefixes of pairs are valid
		}
		within.Intersect(only)
		inside, err := within.IPSet()
		if err != nil {
			panic(err)
		}
		for _, part := range inside.Prefixes() {
			out.AddPrefix(netip.PrefixFrom(prefix.Move(part.Addr(), p.Remote), part.Bits()))
		}
	}
	for _, p := range networks {
		rest.RemovePrefix(p.Local)
		rest.RemovePrefix(p.Remote)
	}
	same, err := rest.IPSet()
	if err != nil {
		panic(err)
	}
	out.AddSet(same)
	set, err := out.IPSet()
	if err != nil {
		panic(err)
	}
	return set
}

// portsOfDNS returns the ports of DNS in a rule: without ports, a rule has all.
func portsOfDNS(ports []networkingv1.NetworkPolicyPort) []networkingv1.NetworkPolicyPort {
	var out []networkingv1.NetworkPolicyPort
	for _, protocol := range []corev1.Protocol{corev1.ProtocolUDP, corev1.ProtocolTCP} {
		has := len(ports) == 0 || slices.ContainsFunc(ports, func(p networkingv1.NetworkPolicyPort) bool {
			if p.Protocol != nil && *p.Protocol != protocol || p.Protocol == nil && protocol != corev1.ProtocolTCP {
				return false
			}
			if p.Port == nil || p.Port.Type == intstr.String {
				return p.Port == nil || p.Port.StrVal == "dns" || p.Port.StrVal == "dns-tcp"
			}
			return p.Port.IntVal == portDNS || p.EndPort != nil && p.Port.IntVal <= portDNS && portDNS <= *p.EndPort
		})
		if has {
			out = append(out, networkingv1.NetworkPolicyPort{Protocol: new(protocol), Port: new(intstr.FromInt32(portDNS))})
		}
	}
	return out
}
