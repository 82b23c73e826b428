// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/policy"
)

// ExplainNode returns why a node takes pods or not, nil if there is neither a node nor an object that would become a node. The remote scene is nil if
// no provider was asked.
func ExplainNode(s, remote *Scene, name string) *Explanation {
	vn, node, slice := s.virtualNodeOf(name), s.nodeOf(name), s.sliceOf(name)
	if vn != nil {
		slice = s.sliceOf(s.sliceOfNode(name))
	}
	switch {
	case vn != nil || node != nil && s.isVirtual(name, nil) || node == nil && slice != nil:
		return newExplanation("Node "+name, s.explainVirtualNode(remote, name, slice))
	case node != nil:
		return newExplanation("Node "+name, s.explainRealNode(node))
	}
	return nil
}

func (s *Scene) explainVirtualNode(remote *Scene, name string, slice *authv1beta1.ResourceSlice) *chainWriter {
	provider := s.ProviderOfNode(name)
	if provider == "" && slice != nil {
		provider = s.destinationOf(slice)
	}
	w := &chainWriter{chain: Chain{Name: fmt.Sprintf("Node %s, which stands for %s", name, provider)}}
	w.addPeering(s, provider)
	if remote != nil {
		sliceName := ""
		if slice != nil {
			sliceName = slice.Name
		}
		w.addTenant(remote, liqov1beta1.ClusterID(s.ClusterID), sliceName, true)
	}
	if slice != nil {
		w.addSlice(s, slice, provider)
		w.addLink(s, "the ResourceSlice asks for a virtual node", "", func() []Finding {
			if s.virtualNodeOf(name) != nil || policy.AsksForVirtualNode(slice) {
				return nil
			}
			return []Finding{newFailure(Ref("ResourceSlice", slice), "it does not ask for a virtual node", "run: liqoctl create virtualnode --resource-slice-name "+slice.Name, "docs/troubleshooting.md#both-conditions-accepted-and-no-node")}
		})
	}
	w.addNetwork(s, provider, true)
	w.addVirtualNode(s, name, true)
	w.addLink(s, "it has resources left", "", func() []Finding {
		alone := *s.Facts
		alone.VirtualNodes = slices.DeleteFunc(slices.Clone(s.VirtualNodes), func(vn offv1beta1.VirtualNode) bool { return vn.Name != name })
		return alone.findUsedUp(&liqov1beta1.ForeignCluster{Spec: liqov1beta1.ForeignClusterSpec{ClusterID: provider}})
	}, "VirtualNode", "Pod")
	return w
}

// destinationOf returns the provider of a ResourceSlice.
func (s *Scene) destinationOf(slice *authv1beta1.ResourceSlice) liqov1beta1.ClusterID {
	if slice.Spec.ProviderClusterID != nil {
		return *slice.Spec.ProviderClusterID
	}
	return ""
}

func (s *Scene) explainRealNode(node *corev1.Node) *chainWriter {
	w := &chainWriter{chain: Chain{Name: Ref("Node", node)}}
	alone := *s.Facts
	alone.Nodes = []corev1.Node{*node}
	w.addLink(s, "the node is Ready, with a supported kernel", node.Status.NodeInfo.KernelVersion, func() []Finding {
		all := alone.FindNodes()
		for i := range all {
			all[i].Severity = Failed
		}
		return all
	})
	w.addLink(s, "it has its fabric and its address for peers", "", func() []Finding { return append(alone.FindInternalNodes(), s.findFabric(node)...) }, "InternalNode", "DaemonSet", "Fabric")
	w.addLink(s, "its pods reach the peers", "", func() (all []Finding) {
		i := slices.IndexFunc(s.InternalNodes, func(in networkingv1beta1.InternalNode) bool { return in.Name == node.Name })
		if i < 0 {
			return nil
		}
		for _, p := range s.InternalNodes[i].Status.Peers {
			if p.Value != networkingv1beta1.Connected {
				all = append(all, newFailure("InternalNode "+node.Name, fmt.Sprintf("the peer %s does not answer this node: %s", p.ClusterID, p.Value), "see the fabric of the node, and liqoctl check --peer "+string(p.ClusterID),
					"docs/troubleshooting.md#connected-and-pods-of-one-node-do-not-reach-the-peer"))
			}
		}
		return all
	}, "InternalNode")
	return w
}

// findFabric returns that the pod of the fabric on a node does not run.
func (s *Scene) findFabric(node *corev1.Node) []Finding {
	if !slices.ContainsFunc(s.DaemonSets, s.isFabric) {
		return nil
	}
	for i := range s.Fabric {
		p := &s.Fabric[i]
		if p.Spec.NodeName != node.Name {
			continue
		}
		if podWorks(p) {
			return nil
		}
		return []Finding{newFailure(Ref("Pod", p), "the fabric of the node is not ready", "see its log", "docs/troubleshooting.md#connected-and-pods-of-one-node-do-not-reach-the-peer")}
	}
	return []Finding{newFailure("Node "+node.Name, "no pod of the fabric is on it", "see the node selector of DaemonSet liqo-fabric and the taints of the node",
		"docs/troubleshooting.md#connected-and-pods-of-one-node-do-not-reach-the-peer")}
}
