// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package consumer

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"

	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/policy"
)

// offloadingView is everything that the offloading of one namespace depends on.
type offloadingView struct {
	clusterID string
	nso       *offv1beta1.NamespaceOffloading
	// maps are our own NamespaceMaps: one per provider counts.
	maps  []offv1beta1.NamespaceMap
	nodes []offv1beta1.VirtualNode
	// kubeNodes are the Nodes of the VirtualNodes, by name.
	kubeNodes map[string]*corev1.Node
	// dead are the providers that nobody waits for, by cluster ID: those given up, and those of whose peering nothing but
	// the NamespaceMap is left.
	dead map[string]bool
}

// hasVirtualNode tells whether there is a virtual node of the cluster.
func (v *offloadingView) hasVirtualNode(clusterID string) bool {
	return slices.ContainsFunc(v.nodes, func(vn offv1beta1.VirtualNode) bool { return string(vn.Spec.ClusterID) == clusterID })
}

// providerOf is the cluster that a NamespaceMap is for.
func providerOf(nm *offv1beta1.NamespaceMap) string {
	if id := nm.Labels[names.ReplicationDestination]; id != "" {
		return id
	}
	return nm.Name
}

// isRelevant tells whether a NamespaceMap is the one that says what its provider has: while one goes with its tenant namespace, another
// may be there already, in a new one.
func (v *offloadingView) isRelevant(nm *offv1beta1.NamespaceMap) bool {
	first := policy.Oldest(v.maps, func(other *offv1beta1.NamespaceMap) bool { return providerOf(other) == providerOf(nm) })
	return first == nil || first == nm
}

// remoteName is the name of the twins.
func remoteName(nso *offv1beta1.NamespaceOffloading, clusterID string) string {
	switch nso.Spec.NamespaceMappingStrategy {
	case offv1beta1.EnforceSameNameMappingStrategyType:
		return nso.Namespace
	case offv1beta1.SelectedNameMappingStrategyType:
		return nso.Spec.RemoteNamespaceName
	default:
		return names.DefaultTwin(nso.Namespace, clusterID)
	}
}

// selectedClusters returns the providers that the cluster selector chooses: those with at least one virtual node that it matches.
// A node that is on its way out keeps what it has and gets nothing new, so that its pods can be drained.
func (v *offloadingView) selectedClusters() (map[string]bool, error) {
	matches, err := nodeMatcher(v.nso.Spec.ClusterSelector)
	if err != nil {
		return nil, err
	}
	out := map[string]bool{}
	for i := range v.maps {
		nm := &v.maps[i]
		_, mapped := nm.Spec.DesiredMapping[v.nso.Namespace]
		for j := range v.nodes {
			vn := &v.nodes[j]
			if string(vn.Spec.ClusterID) != providerOf(nm) || !vn.DeletionTimestamp.IsZero() && !mapped {
				continue
			}
			if matches(v.nodeOf(vn)) {
				out[nm.Name] = true
				break
			}
		}
	}
	return out, nil
}

// nodeMatcher reads the selector as Kubernetes reads that of a pod; only one without terms matches every node.
func nodeMatcher(selector *corev1.NodeSelector) (func(*corev1.Node) bool, error) {
	if selector == nil || len(selector.NodeSelectorTerms) == 0 {
		return func(*corev1.Node) bool { return true }, nil
	}
	parsed, err := nodeaffinity.NewNodeSelector(selector)
	if err != nil {
		return nil, fmt.Errorf("reading the cluster selector: %w", err)
	}
	return parsed.Match, nil
}

// nodeOf is the Node that the selector looks at: what its virtual kubelet makes of it, whether it is there already, or has
// all its labels already, or not. Labels that others gave the real one count.
func (v *offloadingView) nodeOf(vn *offv1beta1.VirtualNode) *corev1.Node {
	labels := map[string]string{}
	if node, ok := v.kubeNodes[vn.Name]; ok {
		maps.Copy(labels, node.Labels)
	}
	maps.Copy(labels, vn.Spec.Labels)
	labels[names.NodeType] = names.NodeTypeVirtualNode
	labels[names.RemoteClusterID] = string(vn.Spec.ClusterID)
	labels[names.StorageAvailable] = policy.StorageAvailable
	labels[corev1.LabelHostname] = vn.Name
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: vn.Name, Labels: labels}}
}

// servedNodes returns the virtual nodes whose kubelets get rights in the namespace: those of the providers that it was offloaded to. What a
// provider says that it has is no reason to give rights.
func (v *offloadingView) servedNodes(selected map[string]bool) []offv1beta1.VirtualNode {
	return v.nodesOf(func(nm *offv1beta1.NamespaceMap) bool { return selected[nm.Name] })
}

// leavingNodes returns the virtual nodes whose kubelets keep the rights that they have: those of the providers that still have a twin.
func (v *offloadingView) leavingNodes(selected map[string]bool) []offv1beta1.VirtualNode {
	return v.nodesOf(func(nm *offv1beta1.NamespaceMap) bool {
		_, current := nm.Status.CurrentMapping[v.nso.Namespace]
		return current && !selected[nm.Name]
	})
}

// nodesOf returns the virtual nodes of the providers whose NamespaceMap is chosen.
func (v *offloadingView) nodesOf(chosen func(*offv1beta1.NamespaceMap) bool) []offv1beta1.VirtualNode {
	providers := map[string]bool{}
	for i := range v.maps {
		if chosen(&v.maps[i]) {
			providers[providerOf(&v.maps[i])] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(v.nodes), func(vn offv1beta1.VirtualNode) bool { return !providers[string(vn.Spec.ClusterID)] })
}

// unreachedClusters are the virtual nodes of the providers that the namespace does not extend to, not even on its way out.
func (v *offloadingView) unreachedClusters(selected map[string]bool) []string {
	var out []string
	for i := range v.maps {
		nm := &v.maps[i]
		_, desired := nm.Spec.DesiredMapping[v.nso.Namespace]
		_, current := nm.Status.CurrentMapping[v.nso.Namespace]
		if selected[nm.Name] || desired || current {
			continue
		}
		for j := range v.nodes {
			if vn := &v.nodes[j]; string(vn.Spec.ClusterID) == providerOf(nm) && v.kubeNodes[vn.Name] != nil {
				out = append(out, vn.Name)
			}
		}
	}
	return out
}

// newStatus is what is known about all providers.
func (v *offloadingView) newStatus(selected map[string]bool, now metav1.Time) offv1beta1.NamespaceOffloadingStatus {
	out := offv1beta1.NamespaceOffloadingStatus{
		RemoteNamespaceName: remoteName(v.nso, v.clusterID),
		ObservedGeneration:  v.nso.Generation,
		MisplacedPods:       v.nso.Status.MisplacedPods, // counted after this
	}
	required, ready, failed := 0, 0, 0
	for i := range v.maps {
		nm := &v.maps[i]
		if !v.isRelevant(nm) {
			continue
		}
		before := v.nso.Status.RemoteNamespacesConditions[nm.Name]
		conditions := offv1beta1.RemoteNamespaceConditions{keepTransitionTime(before, requiredCondition(selected[nm.Name]), now)}
		current, mapped := nm.Status.CurrentMapping[v.nso.Namespace]
		if _, wanted := nm.Spec.DesiredMapping[v.nso.Namespace]; selected[nm.Name] || wanted || mapped {
			conditions = append(conditions, keepTransitionTime(before, readyCondition(current, mapped, out.RemoteNamespaceName, selected[nm.Name]), now))
		}
		if selected[nm.Name] {
			required++
			switch {
			case conditions[1].Status == corev1.ConditionTrue:
				ready++
			case conditions[1].Reason == string(offv1beta1.MappingCreationLoopBackOff):
				failed++
			}
		}
		if out.RemoteNamespacesConditions == nil {
			out.RemoteNamespacesConditions = map[string]offv1beta1.RemoteNamespaceConditions{}
		}
		out.RemoteNamespacesConditions[nm.Name] = conditions
	}
	out.OffloadingPhase = phaseOf(!v.nso.DeletionTimestamp.IsZero(), required, ready, failed)
	return out
}

func phaseOf(deleting bool, required, ready, failed int) offv1beta1.OffloadingPhaseType {
	switch {
	case deleting:
		return offv1beta1.TerminatingOffloadingPhaseType
	case required == 0:
		return offv1beta1.NoClusterSelectedOffloadingPhaseType
	case ready == required:
		return offv1beta1.ReadyOffloadingPhaseType
	case failed == required:
		return offv1beta1.AllFailedOffloadingPhaseType
	case failed > 0:
		return offv1beta1.SomeFailedOffloadingPhaseType
	default:
		return offv1beta1.InProgressOffloadingPhaseType
	}
}

func requiredCondition(selected bool) offv1beta1.RemoteNamespaceCondition {
	if selected {
		return offv1beta1.RemoteNamespaceCondition{
			Type: offv1beta1.NamespaceOffloadingRequired, Status: corev1.ConditionTrue, Reason: "ClusterSelected",
			Message: "The remote cluster has been selected through the ClusterSelector field",
		}
	}
	return offv1beta1.RemoteNamespaceCondition{
		Type: offv1beta1.NamespaceOffloadingRequired, Status: corev1.ConditionFalse, Reason: "ClusterNotSelected",
		Message: "The remote cluster has not been selected through the ClusterSelector field",
	}
}

func readyCondition(current offv1beta1.RemoteNamespaceStatus, mapped bool, remote string, wanted bool) offv1beta1.RemoteNamespaceCondition {
	c := offv1beta1.RemoteNamespaceCondition{Type: offv1beta1.NamespaceReady, Status: corev1.ConditionFalse}
	switch {
	case !wanted, mapped && current.Phase == offv1beta1.MappingTerminating:
		c.Reason, c.Message = "Terminating", "The remote namespace is being deleted"
	case mapped && current.IsRefused():
		c.Reason, c.Message = "CreationLoopBackOff", withReason("Some problems occurred during remote namespace creation", current)
	case mapped && current.Phase == offv1beta1.MappingAccepted && current.RemoteNamespace == remote:
		c.Status, c.Reason, c.Message = corev1.ConditionTrue, "NamespaceCreated", "Namespace correctly offloaded to the remote cluster"
	default:
		c.Reason, c.Message = "Creating", withReason("The remote namespace is being created", current)
	}
	return c
}

// withReason returns the text with what the provider says about the namespace, if it says anything.
func withReason(text string, current offv1beta1.RemoteNamespaceStatus) string {
	if said := foreignText(cmp.Or(current.Message, current.Reason)); said != "" {
		return text + ": " + said
	}
	return text
}

// foreignText returns a text of a peer without control characters, which terminals obey, and cut to a length that fits a message.
func foreignText(text string) string { return strings.TrimSpace(policy.CleanLine(text, 512)) }

// refusalEvents are the providers that refused the namespace, each as an event.
func refusalEvents(status *offv1beta1.NamespaceOffloadingStatus) []kube.Event {
	var out []kube.Event
	for _, cluster := range slices.Sorted(maps.Keys(status.RemoteNamespacesConditions)) {
		for _, c := range status.RemoteNamespacesConditions[cluster] {
			if c.Type == offv1beta1.NamespaceReady && c.Reason == string(offv1beta1.MappingCreationLoopBackOff) {
				out = append(out, kube.Event{Type: corev1.EventTypeWarning, Reason: c.Reason, Message: fmt.Sprintf("Cluster %s: %s", cluster, c.Message)})
			}
		}
	}
	return out
}

// keepTransitionTime dates the condition: now, unless its status is the same as before.
func keepTransitionTime(before offv1beta1.RemoteNamespaceConditions, c offv1beta1.RemoteNamespaceCondition, now metav1.Time) offv1beta1.RemoteNamespaceCondition {
	c.LastTransitionTime = now
	for i := range before {
		if before[i].Type == c.Type && before[i].Status == c.Status {
			c.LastTransitionTime = before[i].LastTransitionTime
		}
	}
	return c
}

// remainingClusters are the NamespaceMaps in which the namespace still is, those of dead providers aside.
func (v *offloadingView) remainingClusters() []string {
	var out []string
	for i := range v.maps {
		nm := &v.maps[i]
		_, desired := nm.Spec.DesiredMapping[v.nso.Namespace]
		_, current := nm.Status.CurrentMapping[v.nso.Namespace]
		if desired || current && !v.dead[providerOf(nm)] {
			out = append(out, nm.Name)
		}
	}
	return out
}
