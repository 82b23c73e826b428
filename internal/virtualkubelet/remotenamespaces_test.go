// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"testing"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/multicluster"
)

func TestHostileRemoteNamespaces(t *testing.T) {
	for name, tc := range map[string]struct {
		desired, remote string
		phase           offv1beta1.MappingPhase
		reason          string
		state           offloadingState
		pair            bool
	}{
		"agreed":                     {desired: "twin", remote: "twin", phase: offv1beta1.MappingAccepted, state: reflected, pair: true},
		"never_asked_for":            {remote: "loot", phase: offv1beta1.MappingAccepted, state: pending},
		"another_name":               {desired: "twin", remote: "loot", phase: offv1beta1.MappingAccepted, state: pending},
		"no_name":                    {desired: "twin", phase: offv1beta1.MappingAccepted, state: pending},
		"not_accepted":               {desired: "twin", remote: "twin", phase: offv1beta1.MappingCreationLoopBackOff, state: pending},
		"drained":                    {desired: "twin", remote: "twin", phase: offv1beta1.MappingCreationLoopBackOff, reason: offv1beta1.MappingTenantDrained, state: drained},
		"drained_before_it_was_made": {desired: "twin", phase: offv1beta1.MappingCreationLoopBackOff, reason: offv1beta1.MappingTenantDrained, state: drained},
		"drained_but_not_asked_for":  {remote: "twin", phase: offv1beta1.MappingCreationLoopBackOff, reason: offv1beta1.MappingTenantDrained, state: pending},
		"refused_otherwise":          {desired: "twin", remote: "twin", phase: offv1beta1.MappingCreationLoopBackOff, reason: offv1beta1.MappingTenantNotReady, state: pending},
		"not_answered":               {desired: "twin", state: pending},
		"on_its_way_out":             {remote: "twin", phase: offv1beta1.MappingTerminating, state: pending},
		"neither_asked_nor_there":    {state: absent},
	} {
		t.Run(name, func(t *testing.T) {
			nm := &offv1beta1.NamespaceMap{}
			if tc.desired != "" {
				nm.Spec.DesiredMapping = map[string]string{"web": tc.desired}
			}
			if tc.phase != "" {
				nm.Status.CurrentMapping = map[string]offv1beta1.RemoteNamespaceStatus{"web": {RemoteNamespace: tc.remote, Phase: tc.phase, Reason: tc.reason}}
			}
			all := &remoteNamespaces{}
			all.Set(nm)
			if state, _ := all.Standing("web"); state != tc.state {
				t.Errorf("standing %d, want %d", state, tc.state)
			}
			pairs := all.Pairs()
			if got := len(pairs) == 1 && pairs[0] == (multicluster.Pair{Local: "web", Remote: "twin"}); got != tc.pair || !tc.pair && len(pairs) > 0 {
				t.Errorf("pairs %v", pairs)
			}
		})
	}
}
