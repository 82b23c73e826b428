// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
)

func TestFindTransitions(t *testing.T) {
	now := metav1.Now()
	with := func(status liqov1beta1.ConditionStatus, reason string) liqov1beta1.Modules {
		return liqov1beta1.Modules{Networking: liqov1beta1.Module{Enabled: true, Conditions: []liqov1beta1.Condition{{
			Type: liqov1beta1.NetworkConnectionStatus, Status: status, Reason: reason, Message: "why", LastTransitionTime: metav1.NewTime(now.Add(-200 * time.Second)),
		}}}}
	}
	established, broken := with(liqov1beta1.ConditionEstablished, "ConnectionEstablished"), with(liqov1beta1.ConditionError, "ConnectionError")
	for name, tc := range map[string]struct {
		before, after  liqov1beta1.Modules
		failed, healed string
	}{
		"same":           {established, established, "", ""},
		"still_broken":   {broken, with(liqov1beta1.ConditionPending, "ConnectionPending"), "", ""},
		"new":            {liqov1beta1.Modules{}, broken, "", ""},
		"not_used":       {broken, liqov1beta1.Modules{}, "", ""},
		"fails":          {established, broken, "Warning ConnectionError: NetworkConnectionStatus is Error: why", ""},
		"heals":          {broken, established, "", "Normal Healed: NetworkConnectionStatus is Established again, after 3m20s of ConnectionError"},
		"without_reason": {with(liqov1beta1.ConditionNotReady, ""), established, "", "Normal Healed: NetworkConnectionStatus is Established again, after 3m20s of NotReady"},
	} {
		t.Run(name, func(t *testing.T) {
			text := func(all []transition) (out string) {
				for _, one := range all {
					out += one.event.Type + " " + one.event.Reason + ": " + one.event.Message
				}
				return out
			}
			failed, healed := findTransitions(tc.before, tc.after, now)
			if diff := cmp.Diff([]string{tc.failed, tc.healed}, []string{text(failed), text(healed)}); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
