// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package consumer

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

const (
	kubeletCondition = offv1beta1.VirtualKubeletConditionType
	nodeCondition    = offv1beta1.NodeConditionType

	none     = offv1beta1.NoneConditionStatusType
	creating = offv1beta1.CreatingConditionStatusType
	running  = offv1beta1.RunningConditionStatusType
	draining = offv1beta1.DrainingConditionStatusType
	deleting = offv1beta1.DeletingConditionStatusType
)

type (
	conditionType   = offv1beta1.VirtualNodeConditionType
	conditionStatus = offv1beta1.VirtualNodeConditionStatusType
)

// statusOf returns the status of a condition, or None if it is missing.
func statusOf(vn *offv1beta1.VirtualNode, t conditionType) conditionStatus {
	for i := range vn.Status.Conditions {
		if vn.Status.Conditions[i].Type == t {
			return vn.Status.Conditions[i].Status
		}
	}
	return none
}

// setCondition changes a condition and leaves exactly one entry of the type. Some transitions are ignored: running
// to creating, none to deleting, and deleting to draining.
func setCondition(vn *offv1beta1.VirtualNode, t conditionType, to conditionStatus, message string, now metav1.Time) {
	next := offv1beta1.VirtualNodeCondition{Type: t, Status: to, Message: message, LastTransitionTime: now}
	var out []offv1beta1.VirtualNodeCondition
	found := false
	for _, c := range vn.Status.Conditions {
		switch {
		case c.Type != t:
			out = append(out, c)
		case found: // an older version appended one per transition
		case staysAs(c.Status, to):
			if c.Status == to {
				c.Message = message
			}
			out, found = append(out, c), true
		default:
			out, found = append(out, next), true
		}
	}
	if !found {
		out = append(out, next)
	}
	vn.Status.Conditions = out
}

func staysAs(from, to conditionStatus) bool {
	switch from {
	case to:
		return true
	case running:
		return to == creating
	case none:
		return to == draining || to == deleting
	case deleting:
		return to == draining
	default:
		return false
	}
}
