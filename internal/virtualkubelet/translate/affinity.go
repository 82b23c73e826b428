// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/internal/names"
)

// The presets of the anti-affinity of a remote pod.
const (
	presetPropagate = "propagate"
	presetSoft      = "soft"
	presetHard      = "hard"
)

// translateAffinity returns the affinity for the provider's scheduler. The pod's own affinity selected the virtual node and ends there.
func translateAffinity(in Input, labels map[string]string) *corev1.Affinity {
	out := &corev1.Affinity{PodAntiAffinity: antiAffinity(in, labels)}
	if in.Patch != nil && in.Patch.Affinity != nil && in.Patch.Affinity.NodeAffinity != nil {
		out.NodeAffinity = in.Patch.Affinity.NodeAffinity.DeepCopy()
	}
	if out.PodAntiAffinity == nil && out.NodeAffinity == nil {
		return nil
	}
	return out
}

func antiAffinity(in Input, labels map[string]string) *corev1.PodAntiAffinity {
	pod := in.Pod
	switch pod.Annotations[names.AntiAffinityPreset] {
	case presetPropagate:
		if pod.Spec.Affinity == nil {
			return nil
		}
		out := unmergeAntiAffinity(pod.Spec.Affinity.PodAntiAffinity.DeepCopy())
		in.toTwin(out)
		return out
	case presetSoft:
		return &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{
			{Weight: 1, PodAffinityTerm: likeMe(pod, labels)},
		}}
	case presetHard:
		return &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{likeMe(pod, labels)}}
	}
	return nil
}

// toTwin replaces the pod's namespace by the remote namespace in the terms.
func (in Input) toTwin(a *corev1.PodAntiAffinity) {
	if a == nil {
		return
	}
	replace := func(namespaces []string) {
		if i := slices.Index(namespaces, in.Pod.Namespace); i >= 0 {
			namespaces[i] = in.Namespace
		}
	}
	for _, term := range a.RequiredDuringSchedulingIgnoredDuringExecution {
		replace(term.Namespaces)
	}
	for _, term := range a.PreferredDuringSchedulingIgnoredDuringExecution {
		replace(term.PodAffinityTerm.Namespaces)
	}
}

// likeMe matches the pods of the same workload on one machine: pods with the labels listed in the annotation, or else with the
// labels of this pod that other pods share.
func likeMe(pod *corev1.Pod, labels map[string]string) corev1.PodAffinityTerm {
	match := listedLabels(pod, labels)
	if len(match) == 0 { // an empty selector would match every pod
		match = maps.Clone(labels)
		own := []string{
			appsv1.ControllerRevisionHashLabelKey, appsv1.DefaultDeploymentUniqueLabelKey,
			appsv1.StatefulSetPodNameLabel, appsv1.PodIndexLabel,
		}
		maps.DeleteFunc(match, func(k, _ string) bool { return slices.Contains(own, k) })
	}
	return corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: match}}
}

// listedLabels returns the labels that the annotation lists.
func listedLabels(pod *corev1.Pod, labels map[string]string) map[string]string {
	out := map[string]string{}
	for key := range strings.SplitSeq(pod.Annotations[names.AntiAffinityLabels], ",") {
		if value, ok := labels[strings.TrimSpace(key)]; ok {
			out[strings.TrimSpace(key)] = value
		}
	}
	return out
}

// The API server merges matchLabelKeys into the selector when a pod is created, and refuses a pod with both. Therefore
// unmergeSpread removes the local additions: the provider adds its own.

func unmergeSpread(constraints []corev1.TopologySpreadConstraint) []corev1.TopologySpreadConstraint {
	for i := range constraints {
		removeMergedKeys(constraints[i].LabelSelector, constraints[i].MatchLabelKeys, metav1.LabelSelectorOpIn)
	}
	return constraints
}

func unmergeAntiAffinity(a *corev1.PodAntiAffinity) *corev1.PodAntiAffinity {
	if a == nil {
		return nil
	}
	for i := range a.RequiredDuringSchedulingIgnoredDuringExecution {
		unmergeTerm(&a.RequiredDuringSchedulingIgnoredDuringExecution[i])
	}
	for i := range a.PreferredDuringSchedulingIgnoredDuringExecution {
		unmergeTerm(&a.PreferredDuringSchedulingIgnoredDuringExecution[i].PodAffinityTerm)
	}
	return a
}

func unmergeTerm(t *corev1.PodAffinityTerm) {
	removeMergedKeys(t.LabelSelector, t.MatchLabelKeys, metav1.LabelSelectorOpIn)
	removeMergedKeys(t.LabelSelector, t.MismatchLabelKeys, metav1.LabelSelectorOpNotIn)
}

func removeMergedKeys(selector *metav1.LabelSelector, keys []string, op metav1.LabelSelectorOperator) {
	if selector == nil || len(keys) == 0 {
		return
	}
	selector.MatchExpressions = slices.DeleteFunc(selector.MatchExpressions, func(r metav1.LabelSelectorRequirement) bool {
		return r.Operator == op && slices.Contains(keys, r.Key)
	})
}
