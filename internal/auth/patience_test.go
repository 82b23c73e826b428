// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/kube"
)

func TestMissingKeyBackoff(t *testing.T) {
	for waited, want := range map[time.Duration]time.Duration{
		0:                10 * time.Second,
		10 * time.Second: 10 * time.Second,
		20 * time.Second: 20 * time.Second,
		time.Minute:      time.Minute,
		24 * time.Hour:   5 * time.Minute,
	} {
		if got := keyDelay(waited); got != want {
			t.Errorf("after %s it is looked for in %s, want %s", waited, got, want)
		}
	}
}

func TestMissingKeyCondition(t *testing.T) {
	noKey := kube.Wait(time.Minute, errNoKey.Error())
	for name, test := range map[string]struct {
		age  time.Duration
		err  error
		told bool
	}{
		"not at once":           {time.Second, noKey, false},
		"later":                 {time.Hour, noKey, true},
		"not for another delay": {time.Hour, kube.Wait(time.Minute, "something else"), false},
	} {
		t.Run(name, func(t *testing.T) {
			identity := &authv1beta1.Identity{}
			identity.CreationTimestamp = metav1.NewTime(time.Now().Add(-test.age))
			events := (&identities{}).Report(identity, test.err)
			if reported := len(events) == 1 && events[0].Reason == reasonNoKey; reported != test.told || len(events) > 1 {
				t.Errorf("the events are %v, want told=%t", events, test.told)
			}
		})
	}
}
