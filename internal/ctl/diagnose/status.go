// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"cmp"
	"fmt"
	"slices"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
)

// Status of a module or a virtual node.
const (
	Healthy   = "Healthy"
	Unhealthy = "Unhealthy"
	Disabled  = "Disabled"
)

// ModuleStatus returns Healthy, Unhealthy or Disabled.
func ModuleStatus(m liqov1beta1.Module) string {
	switch {
	case !m.Enabled:
		return Disabled
	case len(Unready(m)) > 0:
		return Unhealthy
	}
	return Healthy
}

// ActionOf returns the action of this cluster with a ResourceSlice: Consuming or Providing.
func ActionOf(s *authv1beta1.ResourceSlice) string {
	if s.Labels[names.Replicated] == "true" {
		return "Providing"
	}
	return "Consuming"
}

// IsAccepted reports whether the provider has judged a ResourceSlice and denied nothing, and returns the denials.
func IsAccepted(s *authv1beta1.ResourceSlice) (accepted bool, alerts []string) {
	accepted = slices.ContainsFunc(s.Status.Conditions, func(c authv1beta1.ResourceSliceCondition) bool {
		return c.Type == authv1beta1.ResourceSliceConditionTypeResources
	})
	for _, c := range s.Status.Conditions {
		if c.Status != authv1beta1.ResourceSliceConditionAccepted {
			accepted, alerts = false, append(alerts, cmp.Or(c.Message, fmt.Sprintf("%s is %s", c.Type, c.Status)))
		}
	}
	return accepted, alerts
}

// NodeStatus returns whether the virtual kubelet of a VirtualNode and the Node exist: Healthy or Unhealthy.
func NodeStatus(vn *offv1beta1.VirtualNode) string {
	if len(vn.Status.Conditions) == 0 || slices.ContainsFunc(vn.Status.Conditions, func(c offv1beta1.VirtualNodeCondition) bool {
		return c.Status != offv1beta1.RunningConditionStatusType && c.Status != offv1beta1.NoneConditionStatusType
	}) {
		return Unhealthy
	}
	return Healthy
}
