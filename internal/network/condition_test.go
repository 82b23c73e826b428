// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/internal/kube"
)

func TestObservedGeneration(t *testing.T) {
	var (
		waits   = kube.Wait(0, "no address yet")
		failure = errors.New("the API server is ill")
		invalid = kube.Invalid(reasonInvalidService, errors.New("no such type"))
	)
	for name, tc := range map[string]struct {
		err    error
		reason string // "" for none
	}{
		"done":                       {nil, reasonReady},
		"waits":                      {errors.Join(nil, waits), reasonPending},
		"failed":                     {failure, ""},
		"failed beside a wait":       {errors.Join(failure, waits), ""},
		"failed deeper in":           {errors.Join(waits, errors.Join(waits, failure)), ""},
		"invalid beside all of them": {errors.Join(waits, failure, errors.Join(failure, invalid)), reasonInvalidService},
	} {
		t.Run(name, func(t *testing.T) {
			var conditions []metav1.Condition
			reportReady(&conditions, 7, tc.err)
			if tc.reason == "" {
				if len(conditions) > 0 {
					t.Errorf("it says %+v", conditions)
				}
				return
			}
			if len(conditions) != 1 || conditions[0].Reason != tc.reason || conditions[0].ObservedGeneration != 7 {
				t.Errorf("it says %+v, not %s", conditions, tc.reason)
			}
		})
	}
}
