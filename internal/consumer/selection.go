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

// offloadingView is the input of the decisions about one namespace.
type offloadingView struct {
	clusterID string
	nso       *offv1beta1.NamespaceOffloading
	// maps are the local NamespaceMaps; one per provider is effective.
	maps  []offv1beta1.NamespaceMap
	nodes []offv1beta1.VirtualNode
	// kubeNodes are the Nodes of the VirtualNodes, by name.
	kubeNodes map[string]*corev1.Node
	// dead are the providers without a wait, by cluster ID: declared lost, or with no object of the peering but the
	// NamespaceMap.
	dead map[string]bool
	// volumes are those with data in a provider.
	volumes []corev1.PersistentVolume
}

// hasVirtualNode reports whether the cluster has a virtual node.
func (v *offloadingView) hasVirtualNode(clusterID string) bool {
	return slices.ContainsFunc(v.nodes, func(vn offv1beta1.VirtualNode) bool { return string(vn.Spec.ClusterID) == clusterID })
}

// providerOf returns the cluster of a NamespaceMap.
func providerOf(nm *offv1beta1.NamespaceMap) string {
	if id := nm.Labels[names.ReplicationDestination]; id != "" {
		return id
	}
	return nm.Name
}

// isRelevant reports whether a NamespaceMap is the effective one of its provider: while a map is deleted with its tenant namespace, a
// successor may exist in a new namespace.
func (v *offloadingView) isRelevant(nm *offv1beta1.NamespaceMap) bool {
	first := policy.Oldest(v.maps, func(other *offv1beta1.NamespaceMap) bool { return providerOf(other) == providerOf(nm) })
	return first == nil || first == nm
}

// remoteName is the name of the remote namespaces.
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

// selectedClusters returns the providers with at least one virtual node that the cluster selector matches. A VirtualNode
// in teardown keeps its namespaces for the drain and gets no new namespaces.
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

// keepData selects the providers with data of volumes in a remote namespace, and returns an error for each provider not selected before.
func (v *offloadingView) keepData(selected map[string]bool) []error {
	var out []error
	for i := range v.maps {
		nm := &v.maps[i]
		_, mapped := nm.Spec.DesiredMapping[v.nso.Namespace]
		if !mapped || selected[nm.Name] || v.dead[providerOf(nm)] {
			continue
		}
		if data := policy.DataIn(v.volumes, providerOf(nm), v.nso.Namespace); len(data) > 0 {
			selected[nm.Name] = true
			out = append(out, dataInProvider(providerOf(nm), data))
		}
	}
	return out
}

// dataInProvider is the error of a provider that is not left because data would be lost.
func dataInProvider(provider string, data []string) error {
	return kube.Invalid("DataInProvider", fmt.Errorf("cluster %q has the data of %s: delete or move them first", provider, kube.Some(data)))
}

// nodeMatcher interprets the selector as Kubernetes does for a pod; only a selector without terms matches
// every node.
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

// nodeOf returns the Node for the selector: the labels from the virtual kubelet, even before the Node exists or is
// complete, and labels added to the existing Node.
func (v *offloadingView) nodeOf(vn *offv1beta1.VirtualNode) *corev1.Node {
	labels := map[string]string{}
	if node, ok := v.kubeNodes[vn.Name]; ok {
		maps.Copy(labels, node.Labels)
	}
	maps.Copy(labels, vn.Spec.Labels)
	labels[names.NodeType] = names.NodeTypeVirtualNode
	labels[names.RemoteClusterID] = string(vn.Spec.ClusterID)
	labels[names.StorageAvailable] = policy.StorageAvailable(vn)
	labels[corev1.LabelHostname] = vn.Name
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: vn.Name, Labels: labels}}
}

// servedNodes returns the virtual nodes whose kubelets get permissions in the namespace: all nodes of the selected providers. The
// report of a provider never causes a grant.
func (v *offloadingView) servedNodes(selected map[string]bool) []offv1beta1.VirtualNode {
	return v.nodesOf(func(nm *offv1beta1.NamespaceMap) bool { return selected[nm.Name] })
}

// leavingNodes returns the virtual nodes whose kubelets keep their permissions: of the providers that still have a remote namespace.
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

// unreachedClusters returns the virtual nodes of the providers that the namespace neither extends to nor is leaving.
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

// newStatus returns the status for all providers.
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

// withReason appends the provider's message about the namespace, if any.
func withReason(text string, current offv1beta1.RemoteNamespaceStatus) string {
	if reported := foreignText(cmp.Or(current.Message, current.Reason)); reported != "" {
		return text + ": " + reported
	}
	return text
}

// foreignText returns a text of a peer without control characters, which terminals interpret, and truncated to the length of a
// message.
func foreignText(text string) string { return strings.TrimSpace(policy.CleanLine(text, 512)) }

// refusalEvents returns an event for each provider that rejected the namespace.
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

// keepTransitionTime sets the time of the condition: now, unless its status is unchanged.
func keepTransitionTime(before offv1beta1.RemoteNamespaceConditions, c offv1beta1.RemoteNamespaceCondition, now metav1.Time) offv1beta1.RemoteNamespaceCondition {
	c.LastTransitionTime = now
	for i := range before {
		if before[i].Type == c.Type && before[i].Status == c.Status {
			c.LastTransitionTime = before[i].LastTransitionTime
		}
	}
	return c
}

// remainingClusters returns the NamespaceMaps with the namespace, except maps of dead providers.
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
