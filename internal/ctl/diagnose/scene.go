// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
)

// Scene is the state of one cluster about the object to explain. In the scene of a provider, the namespace is the remote namespace.
type Scene struct {
	*Facts
	ClusterID string
	// Scope is the name of the namespace. The namespace exists if Namespace is not nil.
	Scope      string
	Namespace  *corev1.Namespace
	Offloading *offv1beta1.NamespaceOffloading
	Maps       []offv1beta1.NamespaceMap

	Pod       *corev1.Pod
	ShadowPod *offv1beta1.ShadowPod
	Claims    []corev1.PersistentVolumeClaim
	// Pods are the pods of the namespace, or of the kubelet of a virtual node.
	Pods []corev1.Pod
	// Resolvers are the pods of the DNS of the cluster.
	Resolvers []corev1.Pod

	Service        *corev1.Service
	EndpointSlices []discoveryv1.EndpointSlice // of the Service
	ShadowSlices   []offv1beta1.ShadowEndpointSlice
	Events         []corev1.Event // of the namespace
	Network
}

// peerOf returns the ForeignCluster of an ID, nil if there is none.
func (f *Facts) peerOf(id liqov1beta1.ClusterID) *liqov1beta1.ForeignCluster {
	i := slices.IndexFunc(f.Peers, func(fc liqov1beta1.ForeignCluster) bool { return fc.Spec.ClusterID == id })
	if i < 0 {
		return nil
	}
	return &f.Peers[i]
}

// nodeOf returns a Node by name, nil if there is none.
func (f *Facts) nodeOf(name string) *corev1.Node {
	i := slices.IndexFunc(f.Nodes, func(n corev1.Node) bool { return n.Name == name })
	if i < 0 {
		return nil
	}
	return &f.Nodes[i]
}

// virtualNodeOf returns a VirtualNode by name, nil if there is none.
func (f *Facts) virtualNodeOf(name string) *offv1beta1.VirtualNode {
	i := slices.IndexFunc(f.VirtualNodes, func(vn offv1beta1.VirtualNode) bool { return vn.Name == name })
	if i < 0 {
		return nil
	}
	return &f.VirtualNodes[i]
}

// sliceOf returns a ResourceSlice sent by this cluster, by name, nil if there is none.
func (f *Facts) sliceOf(name string) *authv1beta1.ResourceSlice {
	i := slices.IndexFunc(f.Slices, func(s authv1beta1.ResourceSlice) bool { return s.Name == name && s.Labels[names.Replicated] != "true" })
	if i < 0 {
		return nil
	}
	return &f.Slices[i]
}

// ProviderOfNode returns the provider behind a node, "" if it is a real one or not known.
func (f *Facts) ProviderOfNode(name string) liqov1beta1.ClusterID {
	if vn := f.virtualNodeOf(name); vn != nil {
		return vn.Spec.ClusterID
	}
	if n := f.nodeOf(name); n != nil && n.Labels[names.NodeType] == names.NodeTypeVirtualNode {
		return liqov1beta1.ClusterID(n.Labels[names.RemoteClusterID])
	}
	return ""
}

// TenantNamespace returns the tenant namespace of a peer, "" if it is not known.
func (f *Facts) TenantNamespace(id liqov1beta1.ClusterID) string {
	for i := range f.Namespaces {
		if f.Namespaces[i].Labels[names.RemoteClusterID] == string(id) {
			return f.Namespaces[i].Name
		}
	}
	return ""
}

// RemoteNamespace returns the name of the namespace in a provider, "" if the namespace is not offloaded.
func (s *Scene) RemoteNamespace() string {
	if s.Offloading == nil {
		return ""
	}
	return s.Offloading.Status.RemoteNamespaceName
}

// remoteCondition returns a condition of the remote namespace in a provider, nil if the offloading has none.
func (s *Scene) remoteCondition(provider liqov1beta1.ClusterID, kind offv1beta1.RemoteNamespaceConditionType) *offv1beta1.RemoteNamespaceCondition {
	if s.Offloading == nil {
		return nil
	}
	all := s.Offloading.Status.RemoteNamespacesConditions[string(provider)]
	i := slices.IndexFunc(all, func(c offv1beta1.RemoteNamespaceCondition) bool { return c.Type == kind })
	if i < 0 {
		return nil
	}
	return &all[i]
}

// mapOf returns the NamespaceMap of a provider, nil if there is none.
func (s *Scene) mapOf(provider liqov1beta1.ClusterID) *offv1beta1.NamespaceMap {
	for i := range s.Maps {
		m := &s.Maps[i]
		if m.Labels[names.Replicated] != "true" && m.DeletionTimestamp == nil && cmp.Or(m.Labels[names.ReplicationDestination], m.Name) == string(provider) {
			return m
		}
	}
	return nil
}

// eventTime returns when an event was last seen.
func eventTime(e *corev1.Event) time.Time {
	switch {
	case e.Series != nil:
		return e.Series.LastObservedTime.Time
	case !e.LastTimestamp.IsZero():
		return e.LastTimestamp.Time
	case !e.EventTime.IsZero():
		return e.EventTime.Time
	}
	return e.CreationTimestamp.Time
}

// latestEvent returns the last event about an object with one of the reasons, nil if there is none. Events of virtual kubelets count only for the
// given virtual nodes; nil stands for all.
func (s *Scene) latestEvent(kind string, about client.Object, virtualNodes []string, reasons ...string) (last *corev1.Event) {
	for i := range s.Events {
		e := &s.Events[i]
		of := e.InvolvedObject
		if of.Kind != kind || of.Name != about.GetName() || of.UID != "" && of.UID != about.GetUID() || !slices.Contains(reasons, e.Reason) {
			continue
		}
		if e.Source.Host != "" && virtualNodes != nil && !slices.Contains(virtualNodes, e.Source.Host) {
			continue
		}
		if last == nil || !eventTime(e).Before(eventTime(last)) {
			last = e
		}
	}
	return last
}

// virtualNodesOf returns the names of the virtual nodes of a provider, nil if they are not known.
func (f *Facts) virtualNodesOf(id liqov1beta1.ClusterID) (all []string) {
	for i := range f.VirtualNodes {
		if f.VirtualNodes[i].Spec.ClusterID == id {
			all = append(all, f.VirtualNodes[i].Name)
		}
	}
	return all
}

// isProvider reports whether a scene is the scene of a provider with a known namespace.
func (s *Scene) isProvider(id liqov1beta1.ClusterID) bool {
	return s != nil && s.ClusterID == string(id) && s.Scope != ""
}

// isVirtual reports whether a node is virtual, as far as known.
func (s *Scene) isVirtual(node string, pod *corev1.Pod) bool {
	if n := s.nodeOf(node); n != nil {
		return n.Labels[names.NodeType] == names.NodeTypeVirtualNode
	}
	return s.virtualNodeOf(node) != nil || pod != nil && pod.Labels[names.ShadowPod] == "true"
}

// joinNonEmpty joins the non-empty parts.
func joinNonEmpty(separator string, parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), separator)
}
