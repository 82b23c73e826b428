// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package policy holds the decisions of admission and policy as functions of objects, shared by webhooks, controllers and the
// command line, with the requests of a pod as the Kubernetes scheduler computes them. Each denial is one sentence for the reader
// to act on.
package policy

import (
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
)

// SteerPod changes a new pod of an offloaded namespace to be scheduled according to the namespace's strategy, and reports whether
// the pod changed. SteerPod is idempotent. The policy liqo-pods of the chart does the same in the API server.
//
// Pods of a DaemonSet and pods of the Liqo runtime class are placed already. Pods with a nodeName are placed, too, and get only the
// toleration: without it they would be evicted from a virtual node at once.
func SteerPod(pod *corev1.Pod, nso *offv1beta1.NamespaceOffloading, runtimeClass string) (changed bool) {
	strategy := nso.Spec.PodOffloadingStrategy
	if strategy == offv1beta1.LocalPodOffloadingStrategyType || isElsewhereDecided(pod, runtimeClass) {
		return false
	}
	changed = tolerate(&pod.Spec)
	if pod.Spec.NodeName != "" {
		return changed
	}
	terms := imposed(strategy, nso.Spec.ClusterSelector)
	if !require(&pod.Spec, terms) {
		return changed
	}
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, names.ImposedAffinity, describeTerms(terms))
	return true
}

// describeTerms returns terms as text: each requirement is a key, an operator and values, and requirements of fields begin with @.
func describeTerms(terms []corev1.NodeSelectorTerm) string {
	var alternatives []string
	for _, t := range terms {
		var parts []string
		for _, r := range t.MatchExpressions {
			parts = append(parts, describeRequirement(r))
		}
		for _, r := range t.MatchFields {
			parts = append(parts, "@"+describeRequirement(r))
		}
		alternatives = append(alternatives, strings.Join(parts, "; "))
	}
	return strings.Join(alternatives, " | ")
}

func describeRequirement(r corev1.NodeSelectorRequirement) string {
	return strings.Join(append([]string{r.Key, string(r.Operator)}, r.Values...), " ")
}

func hasPlace(pod *corev1.Pod, runtimeClass string) bool {
	return pod.Spec.NodeName != "" || isElsewhereDecided(pod, runtimeClass)
}

func isElsewhereDecided(pod *corev1.Pod, runtimeClass string) bool {
	class := pod.Spec.RuntimeClassName
	return class != nil && *class == runtimeClass || ofDaemonSet(pod)
}

func ofDaemonSet(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	return owner != nil && owner.Kind == "DaemonSet"
}

// VirtualNodeToleration returns the toleration that permits a pod on virtual nodes.
func VirtualNodeToleration() corev1.Toleration {
	return corev1.Toleration{Key: names.VirtualNodeTaint, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}
}

func tolerate(spec *corev1.PodSpec) bool {
	if slices.ContainsFunc(spec.Tolerations, toleratesVirtualNodes) {
		return false
	}
	spec.Tolerations = append(spec.Tolerations, VirtualNodeToleration())
	return true
}

// toleratesVirtualNodes reports whether t tolerates virtual nodes without a time limit: after a limit, the pod would be
// evicted.
func toleratesVirtualNodes(t corev1.Toleration) bool {
	key := t.Key == names.VirtualNodeTaint || t.Key == "" && t.Operator == corev1.TolerationOpExists
	effect := t.Effect == corev1.TaintEffectNoExecute || t.Effect == ""
	value := t.Operator == corev1.TolerationOpExists || t.Value == "true"
	return key && effect && value && t.TolerationSeconds == nil
}

// imposed returns the node selector terms required by the strategy: the node must match a term. Without terms, any node
// matches.
func imposed(strategy offv1beta1.PodOffloadingStrategyType, selector *corev1.NodeSelector) []corev1.NodeSelectorTerm {
	var chosen []corev1.NodeSelectorTerm
	if selector != nil {
		chosen = slices.DeleteFunc(slices.Clone(selector.NodeSelectorTerms), matchesNothing)
	}
	if strategy == offv1beta1.RemotePodOffloadingStrategyType {
		if len(chosen) == 0 {
			return []corev1.NodeSelectorTerm{virtual(corev1.NodeSelectorOpIn)}
		}
		for i := range chosen {
			chosen[i] = both(chosen[i], virtual(corev1.NodeSelectorOpIn))
		}
		return chosen
	}
	if selector == nil || len(selector.NodeSelectorTerms) == 0 {
		return nil
	}
	return append(chosen, virtual(corev1.NodeSelectorOpNotIn))
}

// matchesNothing reports whether a term is empty. Kubernetes matches no node with an empty term; joined with another term, the empty term
// would match all nodes of the other term.
func matchesNothing(t corev1.NodeSelectorTerm) bool {
	return len(t.MatchExpressions) == 0 && len(t.MatchFields) == 0
}

func virtual(op corev1.NodeSelectorOperator) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
		{Key: names.NodeType, Operator: op, Values: []string{names.NodeTypeVirtualNode}},
	}}
}

// require adds terms to the required node affinity of the pod, and reports whether the affinity changed. Terms are alternatives:
// the pod's own (A or B) and (C or D) become (A and C), (A and D), (B and C), (B and D).
func require(spec *corev1.PodSpec, terms []corev1.NodeSelectorTerm) bool {
	if len(terms) == 0 {
		return false
	}
	own := required(spec)
	usable := slices.DeleteFunc(slices.Clone(*own), matchesNothing)
	if len(*own) > 0 && len(usable) == 0 {
		return false // the pod's own affinity matches no node
	}
	joined := join(usable, terms)
	if reflect.DeepEqual(joined, *own) {
		return false
	}
	*own = joined
	return true
}

// required returns the pod's required terms, and creates the structs around them.
func required(spec *corev1.PodSpec) *[]corev1.NodeSelectorTerm {
	if spec.Affinity == nil {
		spec.Affinity = &corev1.Affinity{}
	}
	if spec.Affinity.NodeAffinity == nil {
		spec.Affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	node := spec.Affinity.NodeAffinity
	if node.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		node.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{}
	}
	return &node.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
}

func join(own, imposed []corev1.NodeSelectorTerm) []corev1.NodeSelectorTerm {
	if len(own) == 0 {
		return imposed
	}
	var out []corev1.NodeSelectorTerm
	for _, a := range own {
		// (A and C) and (C or D) is (A and C).
		if slices.ContainsFunc(imposed, func(b corev1.NodeSelectorTerm) bool { return contains(a, b) }) {
			out = append(out, a)
			continue
		}
		for _, b := range imposed {
			out = append(out, both(a, b))
		}
	}
	return out
}

func both(a, b corev1.NodeSelectorTerm) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{
		MatchExpressions: slices.Concat(a.MatchExpressions, b.MatchExpressions),
		MatchFields:      slices.Concat(a.MatchFields, b.MatchFields),
	}
}

func contains(all, some corev1.NodeSelectorTerm) bool {
	return subset(some.MatchExpressions, all.MatchExpressions) && subset(some.MatchFields, all.MatchFields)
}

func subset(some, all []corev1.NodeSelectorRequirement) bool {
	for _, r := range some {
		if !slices.ContainsFunc(all, func(current corev1.NodeSelectorRequirement) bool {
			return current.Key == r.Key && current.Operator == r.Operator && slices.Equal(current.Values, r.Values)
		}) {
			return false
		}
	}
	return true
}
