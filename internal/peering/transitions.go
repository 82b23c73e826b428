// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/peer"
)

// transition is a change of a condition of a peering between working and failing.
type transition struct {
	condition liqov1beta1.ConditionType
	event     kube.Event
}

// isWorking reports whether a part of a peering works.
func isWorking(s liqov1beta1.ConditionStatus) bool {
	return s == liqov1beta1.ConditionEstablished || s == liqov1beta1.ConditionReady
}

// findTransitions returns the conditions that worked and fail now, and those that failed and work now. A condition that is new, or that is gone
// because its part is not used any more, is neither.
func findTransitions(before, after liqov1beta1.Modules, now metav1.Time) (failed, healed []transition) {
	for _, m := range []struct{ before, after liqov1beta1.Module }{
		{before.Networking, after.Networking}, {before.Authentication, after.Authentication}, {before.Offloading, after.Offloading},
	} {
		for _, c := range m.after.Conditions {
			i := slices.IndexFunc(m.before.Conditions, func(old liqov1beta1.Condition) bool { return old.Type == c.Type })
			if i < 0 {
				continue
			}
			switch old := m.before.Conditions[i]; {
			case isWorking(old.Status) && !isWorking(c.Status):
				failed = append(failed, transition{c.Type, kube.Event{
					Type: corev1.EventTypeWarning, Reason: cmp.Or(c.Reason, string(c.Status)), Message: fmt.Sprintf("%s is %s: %s", c.Type, c.Status, c.Message),
				}})
			case !isWorking(old.Status) && isWorking(c.Status):
				lasted := now.Sub(old.LastTransitionTime.Time).Round(time.Second)
				healed = append(healed, transition{c.Type, kube.Event{
					Type: corev1.EventTypeNormal, Reason: peer.ReasonHealed, Message: fmt.Sprintf("%s is %s again, after %s of %s", c.Type, c.Status, lasted, cmp.Or(old.Reason, string(old.Status))),
				}})
			}
		}
	}
	return failed, healed
}
