// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/quota"
)

// account is a user of a consumer: it has one Quota, or none.
type account struct{ consumer, user string }

func accountOf(obj client.Object) account {
	labels := obj.GetLabels()
	return account{consumer: labels[names.OffloadingOrigin], user: labels[names.CreatorUser]}
}

// usage is one account.
type usage struct {
	account account
	// budget is nil where nothing was granted; version is that of the Quota.
	budget  *offv1beta1.QuotaSpec
	version string
	used    corev1.ResourceList
	entries int
	// held are the names whose share is held.
	held    map[types.NamespacedName]*reservation
	waiting pendingQueue
}

func newBook(a account) *usage {
	return &usage{account: a, used: corev1.ResourceList{}, held: map[types.NamespacedName]*reservation{}, waiting: newLine()}
}

// setQuota takes the Quota as it is now, and tells whether it says something else.
func (b *usage) setQuota(q *offv1beta1.Quota) bool {
	var budget *offv1beta1.QuotaSpec
	version := ""
	if q != nil {
		budget, version = &q.Spec, fmt.Sprint(q.UID, "/", q.Generation)
	}
	changed := version != b.version
	b.budget, b.version = budget, version
	return changed
}

// checkRoom tells why w does not get what it needs on top of what is used.
func (b *usage) checkRoom(w *pendingPod, used corev1.ResourceList) error {
	if b.budget == nil {
		return fmt.Errorf("failed getting quota: user %q has none for cluster %q", b.account.user, b.account.consumer)
	}
	if short := quota.Fit(w.need, used, b.budget.Resources); short != nil {
		return &overQuota{short, b.budget.Resources}
	}
	if w.ran {
		return nil
	}
	return quota.Check(b.budget, w.pod, used)
}

// rankOf tells what w lacks besides what its own entry has: whoever lacks the same fits when w does. It is hopeless for whoever
// would not even fit alone.
func (b *usage) rankOf(w *pendingPod, own *reservation) string {
	if b.checkRoom(w, nil) != nil {
		return hopeless
	}
	if own == nil {
		return listText(w.need)
	}
	return listText(w.need) + " instead of " + listText(own.need)
}

// overQuota is why there is no share for a pod. It does not say what the others take at this moment: those who wait would
// be written, and told of, each time that changes.
type overQuota struct {
	short quota.Shortages
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

// isTemporary tells whether it is a matter of time: nothing is asked for that the Quota does not know.
func (o *overQuota) isTemporary() bool {
	return !slices.ContainsFunc(o.short, func(s quota.Shortage) bool { return s.Unlisted })
}
