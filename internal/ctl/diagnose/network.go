// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/policy"
)

const (
	pageRange        = "docs/troubleshooting.md#networkintheway"
	pageInternalNode = "docs/troubleshooting.md#a-network-an-ip-or-an-internalnode-is-given-nothing"
)

// realNodes returns the nodes without the virtual nodes.
func (f *Facts) realNodes() (all []*corev1.Node) {
	for i := range f.Nodes {
		if f.Nodes[i].Labels[names.NodeType] != names.NodeTypeVirtualNode {
			all = append(all, &f.Nodes[i])
		}
	}
	return all
}

// rangeOf returns the prefix granted to a Network.
func rangeOf(n *ipamv1alpha1.Network) (netip.Prefix, bool) {
	p, err := netip.ParsePrefix(string(n.Status.CIDR))
	return p, err == nil && n.Labels[names.NetworkType] != names.NetworkTypeReserved && n.DeletionTimestamp == nil
}

// FindRanges returns Networks that overlap another Network or contain the address of a node.
func (f *Facts) FindRanges() (all []Finding) {
	for i := range f.Networks {
		a, ok := rangeOf(&f.Networks[i])
		if !ok {
			continue
		}
		ref := Ref("Network", &f.Networks[i])
		for j := range f.Networks[:i] {
			if b, ok := rangeOf(&f.Networks[j]); ok && a.Overlaps(b) {
				all = append(all, newFailure(ref, fmt.Sprintf("%s overlaps %s of %s", a, b, Ref("Network", &f.Networks[j])), "delete the one of the peer, which is given another prefix", pageRange))
			}
		}
		for _, n := range f.realNodes() {
			for _, address := range n.Status.Addresses {
				if ip, err := netip.ParseAddr(address.Address); err == nil && a.Contains(ip) {
					all = append(all, newFailure(ref, fmt.Sprintf("%s has the address %s of Node %s", a, ip, n.Name),
						"reserve the range of the nodes: liqoctl install --reserved-subnets, then delete the Network", pageRange))
				}
			}
		}
	}
	return all
}

// FindInternalNodes returns nodes without an address for peers, or without a fabric to use the address.
func (f *Facts) FindInternalNodes() (all []Finding) {
	d := slices.IndexFunc(f.DaemonSets, f.isFabric)
	if d < 0 {
		return nil // without networks
	}
	for _, n := range f.realNodes() {
		i := slices.IndexFunc(f.InternalNodes, func(in networkingv1beta1.InternalNode) bool { return in.Name == n.Name })
		if i < 0 {
			all = append(all, newFailure("InternalNode "+n.Name, "Node "+n.Name+" has no InternalNode", "see the log of liqo-controller-manager", pageInternalNode))
			continue
		}
		in := &f.InternalNodes[i]
		if c := apimeta.FindStatusCondition(in.Status.Conditions, ipamv1alpha1.ConditionAllocated); c != nil && c.Status == metav1.ConditionFalse {
			all = append(all, newFailure("InternalNode "+n.Name, c.Reason+": "+c.Message, "free addresses of the external CIDR", pageInternalNode))
		} else if in.Spec.Interface.Node.IP == "" {
			all = append(all, newFailure("InternalNode "+n.Name, "it has no address", "see the Network external-cidr", pageInternalNode))
		}
	}
	if s := f.DaemonSets[d].Status; int(s.DesiredNumberScheduled) < len(f.realNodes()) {
		all = append(all, warningOf(newFailure(Ref("DaemonSet", &f.DaemonSets[d]), fmt.Sprintf("it is for %d of %d nodes: pods of the others reach no peer", s.DesiredNumberScheduled, len(f.realNodes())),
			"see its node selector and the taints of the nodes", "docs/troubleshooting.md#connected-and-pods-of-one-node-do-not-reach-the-peer")))
	}
	return all
}

// isFabric reports whether a DaemonSet is the fabric of Liqo.
func (f *Facts) isFabric(d appsv1.DaemonSet) bool {
	return d.Namespace == f.Namespace && d.Labels[names.AppPartOf] == "liqo" && d.Labels[names.AppName] == "fabric"
}

// cnis are the names of CNIs, by the names of their DaemonSets.
var cnis = map[string]string{
	"calico-node": "Calico", policy.CiliumDaemonSet: "Cilium", "kube-flannel-ds": "flannel", "kube-flannel": "flannel", "canal": "Canal", "kube-router": "kube-router", "kindnet": "kindnet",
	"antrea-agent": "Antrea", "weave-net": "Weave Net", "aws-node": "Amazon VPC CNI", "azure-cns": "Azure CNI", "anetd": "GKE Dataplane V2", "ovnkube-node": "OVN-Kubernetes", "kube-ovn-cni": "Kube-OVN",
}

// FindCNILimits returns settings of Cilium that lose packets of peers, or leave their sources unverified.
func (f *Facts) FindCNILimits() (all []Finding) {
	for i := range f.CNISettings {
		ref, settings := Ref("ConfigMap", &f.CNISettings[i]), f.CNISettings[i].Data
		if policy.ReplacesKubeProxy(settings) {
			all = append(all, warningOf(newFailure(ref, "Cilium replaces kube-proxy: requests from outside the cluster to NodePorts and load balancers do not reach pods in peers",
				"let clients ask a pod of this cluster, such as an ingress, or run kube-proxy and, once it is ready, set kubeProxyReplacement=false", "docs/network-reach.md#cilium-without-kube-proxy")))
		}
		if settings["enable-source-ip-verification"] == "false" {
			all = append(all, warningOf(newFailure(ref, "Cilium does not verify the sources of pods: a pod can send in the name of a pod of a peer",
				"set enable-source-ip-verification=true", "docs/network-reach.md#cnis")))
		}
	}
	return all
}

// FindCNI returns the names of the CNIs of the cluster.
func (f *Facts) FindCNI() string {
	var found []string
	for i := range f.DaemonSets {
		if name := cnis[f.DaemonSets[i].Name]; name != "" && !slices.Contains(found, name) {
			found = append(found, name)
		}
	}
	slices.Sort(found)
	return strings.Join(found, ", ")
}
