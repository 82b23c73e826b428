// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"reflect"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
)

// Remedy is the action on a pod created before its namespace was offloaded, or for another strategy.
type Remedy string

// Remedies, from no action to an action of the user.
const (
	Leave Remedy = "leave"
	// Tolerate adds the toleration of virtual nodes: of the required changes, only tolerations are mutable in a pod.
	Tolerate Remedy = "tolerate"
	// Recreate deletes the pod: its owner creates a steered replacement.
	Recreate Remedy = "recreate"
	// Evict requests the eviction of a running pod: its owner creates a replacement.
	Evict Remedy = "evict"
	// Tell leaves the action to the user.
	Tell Remedy = "tell"
)

// RemedyForWaiting returns the remedy for a pod that is not scheduled yet.
func RemedyForWaiting(pod *corev1.Pod, nso *offv1beta1.NamespaceOffloading, runtimeClass string) Remedy {
	if over(pod) || hasPlace(pod, runtimeClass) {
		return Leave
	}
	steered := pod.DeepCopy()
	changed := SteerPod(steered, nso, runtimeClass)
	switch {
	case isOutdated(pod, nso):
		return anew(pod)
	case !changed:
		return Leave
	case reflect.DeepEqual(steered.Spec.Affinity, pod.Spec.Affinity):
		return Tolerate
	default:
		return anew(pod)
	}
}

// isOutdated reports whether the pod was steered to nodes that the strategy does not select any more.
func isOutdated(pod *corev1.Pod, nso *offv1beta1.NamespaceOffloading) bool {
	was, steered := pod.Annotations[names.ImposedAffinity]
	if !steered || nso.Spec.PodOffloadingStrategy == offv1beta1.LocalPodOffloadingStrategyType {
		return steered
	}
	return was != describeTerms(imposed(nso.Spec.PodOffloadingStrategy, nso.Spec.ClusterSelector))
}

// RemedyForReleased returns the remedy for an unscheduled pod whose namespace is not offloaded any more. The remaining
// toleration might still place the pod on a virtual node, and it would never run.
func RemedyForReleased(pod *corev1.Pod, runtimeClass string) Remedy {
	_, steered := pod.Annotations[names.ImposedAffinity]
	switch {
	case over(pod), hasPlace(pod, runtimeClass):
		return Leave
	case steered:
		return anew(pod)
	case isReplaced(pod) && slices.Contains(pod.Spec.Tolerations, VirtualNodeToleration()):
		return Recreate
	default:
		return Leave
	}
}

// anew returns the remedy for a required change of immutable fields.
func anew(pod *corev1.Pod) Remedy {
	if isReplaced(pod) {
		return Recreate
	}
	return Tell
}

// RemedyForRunning returns the remedy for a scheduled pod, provided that the user wants the strategy enforced on scheduled pods. An
// unknown node, nil, violates no strategy.
func RemedyForRunning(pod *corev1.Pod, node *corev1.Node, nso *offv1beta1.NamespaceOffloading, runtimeClass string) Remedy {
	_, static := pod.Annotations[corev1.MirrorPodAnnotationKey]
	switch {
	case node == nil, static, over(pod), isElsewhereDecided(pod, runtimeClass), allows(nso, node):
		return Leave
	case metav1.GetControllerOf(pod) == nil:
		return Tell
	default:
		return Evict
	}
}

// RemedyForStranded returns the remedy for a pod bound to a virtual node, when the pod's namespace is no longer offloaded to the
// node. The virtual kubelet terminates pods that ran; a pod that never started would stay pending for ever.
func RemedyForStranded(pod *corev1.Pod) Remedy {
	waits := pod.Status.Phase == corev1.PodPending && len(pod.Status.ContainerStatuses) == 0
	if over(pod) || !waits || ofDaemonSet(pod) || !isReplaced(pod) {
		return Leave
	}
	return Recreate
}

// Ended reports whether a pod in that phase has ended and never runs again.
func Ended(phase corev1.PodPhase) bool {
	return phase == corev1.PodSucceeded || phase == corev1.PodFailed
}

func over(pod *corev1.Pod) bool {
	return !pod.DeletionTimestamp.IsZero() || Ended(pod.Status.Phase)
}

// isReplaced reports whether the owner replaces a deleted pod without further effects. Owners of pods that run to completion,
// such as Jobs, count the deletion as a failure.
func isReplaced(pod *corev1.Pod) bool {
	return metav1.GetControllerOf(pod) != nil && pod.Spec.RestartPolicy == corev1.RestartPolicyAlways
}

// allows reports whether the strategy permits pods on the node.
func allows(nso *offv1beta1.NamespaceOffloading, node *corev1.Node) bool {
	strategy := nso.Spec.PodOffloadingStrategy
	if strategy == offv1beta1.LocalPodOffloadingStrategyType {
		return node.Labels[names.NodeType] != names.NodeTypeVirtualNode
	}
	terms := imposed(strategy, nso.Spec.ClusterSelector)
	if len(terms) == 0 {
		return true
	}
	selector, err := nodeaffinity.NewNodeSelector(&corev1.NodeSelector{NodeSelectorTerms: terms})
	return err != nil || selector.Match(node)
}

// KeptOff reports whether a pod bound to a virtual node does not run on the node. Pods of DaemonSets that tolerate every
// taint are meant for nodes maintained by the consumer, and a provider runs such pods itself. A DaemonSet that tolerates the
// taint of virtual nodes by its key is meant for virtual nodes.
func KeptOff(pod *corev1.Pod) bool {
	if !ofDaemonSet(pod) {
		return false
	}
	for i := range pod.Spec.Tolerations {
		if pod.Spec.Tolerations[i].Key == names.VirtualNodeTaint {
			return false
		}
	}
	return true
}

// KeepDaemonSetOff excludes virtual nodes for the pods of a DaemonSet that tolerates every taint, and reports whether the DaemonSet
// changed: on a virtual node, the pods would never run, and a rollout would wait for ever. A DaemonSet that names virtual nodes, by
// their taint or their label, is meant for them.
func KeepDaemonSetOff(ds *appsv1.DaemonSet) bool {
	pod := &ds.Spec.Template.Spec
	everything := false
	for _, t := range pod.Tolerations {
		if t.Key == names.VirtualNodeTaint {
			return false
		}
		everything = everything || toleratesVirtualNodes(t)
	}
	if !everything || ds.Annotations[names.KeepOffVirtualNodes] == "false" || namesNodeType(pod) {
		return false
	}
	return require(pod, []corev1.NodeSelectorTerm{virtual(corev1.NodeSelectorOpNotIn)})
}

// namesNodeType reports whether a pod selects the type of its node itself.
func namesNodeType(pod *corev1.PodSpec) bool {
	if _, named := pod.NodeSelector[names.NodeType]; named {
		return true
	}
	if pod.Affinity == nil || pod.Affinity.NodeAffinity == nil || pod.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return false
	}
	return slices.ContainsFunc(pod.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms, func(t corev1.NodeSelectorTerm) bool {
		return slices.ContainsFunc(t.MatchExpressions, func(r corev1.NodeSelectorRequirement) bool { return r.Key == names.NodeType })
	})
}
