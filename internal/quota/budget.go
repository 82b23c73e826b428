// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

// Check returns why a new pod does not fit into the budget of its user on top of the usage of the user's pods, nil if it fits.
func Check(budget *offv1beta1.QuotaSpec, pod *corev1.PodSpec, used corev1.ResourceList) error {
	if budget.Cordoned != nil && *budget.Cordoned {
		return fmt.Errorf("user is cordoned: the pods of %q run on, and new ones are refused", budget.User)
	}
	hard := budget.LimitsEnforcement == offv1beta1.HardLimitsEnforcement
	if err := Requests(pod, hard || budget.LimitsEnforcement == offv1beta1.SoftLimitsEnforcement, hard); err != nil {
		return err
	}
	if short := Fit(Need(pod), used, budget.Resources); short != nil {
		return short
	}
	return nil
}
