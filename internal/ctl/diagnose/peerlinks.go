// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/policy"
)

// addPeering adds the link of a peering: credentials and versions.
func (w *chainWriter) addPeering(s *Scene, provider liqov1beta1.ClusterID) {
	w.addLink(s, "the peering works", "", func() []Finding {
		fc := s.peerOf(provider)
		if provider == "" {
			return []Finding{newUnknown("ForeignCluster", "the provider of the node")}
		}
		if fc == nil {
			return []Finding{newFailure("ForeignCluster "+string(provider), "there is no peering with this cluster", "run: liqoctl peer", "docs/peering.md")}
		}
		return slices.Concat(s.findAuthentication(fc), s.findVersionGap(fc), weighFindings(s.findMisbehaviour(fc), false))
	}, "ForeignCluster", "Tenant")
}

// addNetwork adds the link of the network with a provider. A fault is a failure only if stops is true.
func (w *chainWriter) addNetwork(s *Scene, provider liqov1beta1.ClusterID, stops bool) {
	fc := s.peerOf(provider)
	note := ""
	if fc != nil {
		note = s.latencyOf(fc)
	}
	w.addLink(s, "the network is connected", note, func() []Finding {
		if fc == nil {
			return nil
		}
		all := s.findConfiguration(fc)
		all = append(all, s.findGateway(fc)...)
		all = append(all, s.findConnection(fc)...)
		return weighFindings(all, stops)
	}, "ForeignCluster", "Configuration", "GatewayServer", "GatewayClient", "Connection", "PublicKey")
}

// addVirtualNode adds the link of one virtual node. A node that takes no more pods does not stop a pod in the provider: news is false.
func (w *chainWriter) addVirtualNode(s *Scene, name string, news bool) {
	w.addLink(s, "the virtual node "+name+" is ready", "", func() []Finding { return s.findVirtualNode(name, news) }, "VirtualNode", "Node")
}

// findVirtualNode returns the faults of one virtual node, first the pod of the virtual kubelet.
func (s *Scene) findVirtualNode(name string, news bool) []Finding {
	vn := s.virtualNodeOf(name)
	if vn == nil {
		return []Finding{newFailure("VirtualNode "+name, "it does not exist", "run: liqoctl create virtualnode", pageNode)}
	}
	if n := s.nodeOf(name); n != nil && kube.NodeReady(n) && !n.Spec.Unschedulable {
		return weighFindings(s.findWithdrawn(n), news)
	}
	for i := range s.Pods {
		p := &s.Pods[i]
		if p.Labels[names.VirtualNode] != name || p.Namespace != vn.Namespace {
			continue
		}
		if problem := kube.PodProblemOf(p); problem != (kube.PodProblem{}) && problem.Reason != "ContainerCreating" {
			return []Finding{newFailure(Ref("Pod", p), "the virtual kubelet does not run: "+problem.String(), "see its log: kubectl logs -n "+p.Namespace+" "+p.Name, pageNode)}
		}
	}
	alone := *s.Facts
	alone.VirtualNodes = []offv1beta1.VirtualNode{*vn}
	return alone.findVirtualNodes(&liqov1beta1.ForeignCluster{Spec: liqov1beta1.ForeignClusterSpec{ClusterID: vn.Spec.ClusterID}})
}

// weighFindings returns findings as they are if they stop something, else as warnings.
func weighFindings(all []Finding, stops bool) []Finding {
	for i := range all {
		if !stops {
			all[i] = warningOf(all[i])
		}
	}
	return all
}

// findWithdrawn returns conditions of a Ready node that keep new pods away, or report misbehaviour of the provider.
func (s *Scene) findWithdrawn(n *corev1.Node) (all []Finding) {
	for _, c := range n.Status.Conditions {
		if c.Status != corev1.ConditionTrue {
			continue
		}
		switch string(c.Type) {
		case "ResourceSliceWithdrawn":
			all = append(all, newFailure(Ref("Node", n), c.Message, "see the ResourceSlice, and the Tenant in the provider", "docs/troubleshooting.md#resourceslicewithdrawn"))
		case string(liqov1beta1.PeerMisbehaves):
			all = append(all, warningOf(nodeMisbehaviour(n.Name, c)))
		}
	}
	return all
}

// addSlice adds the link of the ResourceSlice of a virtual node, if any.
func (w *chainWriter) addSlice(s *Scene, slice *authv1beta1.ResourceSlice, provider liqov1beta1.ClusterID) {
	w.addLink(s, "the ResourceSlice is accepted", slice.Name, func() []Finding {
		alone := *s.Facts
		alone.Slices = []authv1beta1.ResourceSlice{*slice}
		fc := &liqov1beta1.ForeignCluster{Spec: liqov1beta1.ForeignClusterSpec{ClusterID: provider}}
		all := alone.findSlices(fc)
		for i := range all { // a slice not judged yet gives no node
			all[i].Severity = Failed
		}
		return all
	}, "ResourceSlice")
}

// addTenant adds the link of the Tenant and the Quotas of a consumer in a provider. They do not stop a pod in the provider: news is false.
func (w *chainWriter) addTenant(provider *Scene, consumer liqov1beta1.ClusterID, slice string, news bool) {
	find := func() (all []Finding) {
		if consumer == "" {
			return []Finding{newUnknown("Tenant", "the ID of the consumer")}
		}
		i := slices.IndexFunc(provider.Tenants, func(t authv1beta1.Tenant) bool { return t.Spec.ClusterID == consumer })
		if i < 0 {
			return []Finding{newFailure("Tenant of "+string(consumer), "it does not exist", "run liqoctl authenticate again", "docs/troubleshooting.md#notenant")}
		}
		tenant := &provider.Tenants[i]
		if c := tenant.Spec.TenantCondition; c != "" && c != authv1beta1.TenantConditionActive {
			all = append(all, newFailure(Ref("Tenant", tenant), fmt.Sprintf("it is %s", c), "in the provider, run: liqoctl activate tenant "+tenant.Name, "docs/troubleshooting.md#tenantcordoned"))
		}
		for i := range provider.Slices {
			s := &provider.Slices[i]
			if s.Namespace == tenant.Namespace && s.Name == slice && policy.IsCordoned(s) {
				all = append(all, newFailure(Ref("ResourceSlice", s), "it is cordoned: new pods are refused", fmt.Sprintf("in the provider, run: liqoctl uncordon resourceslice %s --remote-cluster-id %s", s.Name, consumer), "docs/troubleshooting.md#user-is-cordoned"))
			}
		}
		return all
	}
	w.addLink(provider, "the Tenant and its Quota take pods", "", func() []Finding { return weighFindings(find(), news) }, "Tenant", "ResourceSlice")
}
