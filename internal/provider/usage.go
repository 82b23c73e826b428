// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/policy"
)

// account identifies a user of a consumer, with at most one Quota.
type account struct{ consumer, user string }

func accountOf(obj client.Object) account {
	labels := obj.GetLabels()
	return account{consumer: labels[names.OffloadingOrigin], user: labels[names.CreatorUser]}
}

// quotaUsage is the quota usage of one account.
type quotaUsage struct {
	account account
	// budget is nil if the account has no Quota; version identifies the Quota and its generation.
	budget  *offv1beta1.QuotaSpec
	version string
	used    corev1.ResourceList
	// reservations is the number of reservations of the account.
	reservations int
	pending      pendingQueue
}

func newUsage(a account) *quotaUsage {
	return &quotaUsage{account: a, used: corev1.ResourceList{}, pending: newPendingQueue()}
}

// setQuota sets the current Quota and reports whether it changed.
func (u *quotaUsage) setQuota(q *offv1beta1.Quota) bool {
	var budget *offv1beta1.QuotaSpec
	version := ""
	if q != nil {
		budget, version = &q.Spec, fmt.Sprint(q.UID, "/", q.Generation)
	}
	changed := version != u.version
	u.budget, u.version = budget, version
	return changed
}

// checkFit returns why the need of w does not fit on top of used, nil if it fits.
func (u *quotaUsage) checkFit(w *pendingPod, used corev1.ResourceList) error {
	if u.budget == nil {
		return fmt.Errorf("failed getting quota: user %q has none for cluster %q", u.account.user, u.account.consumer)
	}
	if short := policy.FindShortages(w.need, used, u.budget.Resources); short != nil {
		return &overQuota{short, u.budget.Resources}
	}
	if w.ran {
		return nil
	}
	return policy.CheckQuota(u.budget, w.pod, used)
}

// rankOf returns the rank of w: the need of w and its own reservation. Pods of the same rank fit if w does. The rank of a pod
// larger than the whole Quota is unsatisfiable.
func (u *quotaUsage) rankOf(w *pendingPod, own *reservation) string {
	if u.checkFit(w, nil) != nil {
		return unsatisfiable
	}
	if own == nil {
		return listText(w.need)
	}
	return listText(w.need) + " instead of " + listText(own.need)
}

// overQuota is the error of a pod that exceeds the Quota. The message leaves out the current usage: each change of the usage
// would rewrite the status and the event of each pending pod.
type overQuota struct {
	short policy.Shortages
	total corev1.ResourceList
}

func (o *overQuota) Error() string {
	parts := make([]string, len(o.short))
	for i, s := range o.short {
		total := o.total[s.Resource]
		if parts[i] = s.String(); !s.Unlisted {
			parts[i] = fmt.Sprintf("peering %s quota usage exceeded - requested %s of %s", s.Resource, s.Need.String(), total.String())
		}
	}
	return strings.Join(parts, "; ")
}

// isTemporary reports whether the pod may fit later: the Quota lists every requested resource.
func (o *overQuota) isTemporary() bool {
	return !slices.ContainsFunc(o.short, func(s policy.Shortage) bool { return s.Unlisted })
}
