// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package resourceslice

import (
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"liqo.io/liqo/internal/names"
)

// platformLabels are the labels that an image's platform has to match.
var platformLabels = []string{corev1.LabelArchStable, corev1.LabelOSStable}

// commonPlatformLabels returns the platformLabels that all nodes of this cluster share. In a mixed cluster a label is left out:
// one virtual node cannot have two platforms.
func commonPlatformLabels(nodes []corev1.Node) map[string]string {
	out := map[string]string{}
	for _, label := range platformLabels {
		if value := commonLabel(nodes, label); value != "" {
			out[label] = value
		}
	}
	return out
}

// commonLabel returns the value of a label that all real nodes share, or "".
func commonLabel(nodes []corev1.Node, label string) string {
	value := ""
	for i := range nodes {
		labels := nodes[i].Labels
		if labels[names.NodeType] == names.NodeTypeVirtualNode {
			continue
		}
		if labels[label] == "" || value != "" && labels[label] != value {
			return ""
		}
		value = labels[label]
	}
	return value
}

// platformChanged passes nodes that are added, deleted, or change their platform.
func platformChanged() predicate.Predicate {
	differ := func(a, b client.Object) bool {
		for _, label := range append(platformLabels, names.NodeType) {
			if a.GetLabels()[label] != b.GetLabels()[label] {
				return true
			}
		}
		return false
	}
	return predicate.Funcs{
		CreateFunc:  func(e event.CreateEvent) bool { return !e.IsInInitialList },
		DeleteFunc:  func(event.DeleteEvent) bool { return true },
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc:  func(e event.UpdateEvent) bool { return differ(e.ObjectOld, e.ObjectNew) },
	}
}
