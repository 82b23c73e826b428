// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/kube"
)

func TestFailureEvents(t *testing.T) {
	created := time.Now()
	at := func(minutes int) time.Time { return created.Add(time.Duration(minutes) * time.Minute) }
	with := func(since time.Time, status liqov1beta1.ConditionStatus, reason string, kinds ...liqov1beta1.ConditionType) liqov1beta1.Modules {
		m := liqov1beta1.Modules{Networking: liqov1beta1.Module{Enabled: true}}
		for _, kind := range kinds {
			m.Networking.Conditions = append(m.Networking.Conditions, liqov1beta1.Condition{Type: kind, Status: status, Reason: reason, Message: "why", LastTransitionTime: metav1.NewTime(since)})
		}
		return m
	}
	const connection, gateway = liqov1beta1.NetworkConnectionStatus, liqov1beta1.NetworkGatewayClientStatus
	works := with(at(1), liqov1beta1.ConditionEstablished, "ConnectionEstablished", connection)
	broken := with(at(20), liqov1beta1.ConditionError, "ConnectionError", connection)
	pending := with(at(29), liqov1beta1.ConditionPending, "ConnectionPending", connection)
	type step struct {
		at            int // minute
		before, after liqov1beta1.Modules
	}
	tooMuch := liqov1beta1.Modules{Offloading: with(at(20), liqov1beta1.ConditionError, "TooManyWrites", liqov1beta1.PeerMisbehaves).Networking}
	for name, tc := range map[string]struct {
		started int // minute of the start of the process
		steps   []step
		want    []string
	}{
		"same":         {0, []step{{20, works, works}}, nil},
		"still_broken": {0, []step{{20, broken, pending}}, nil},
		"new":          {0, []step{{20, liqov1beta1.Modules{}, broken}}, nil},
		"not_used":     {0, []step{{20, works, broken}, {21, broken, liqov1beta1.Modules{}}}, []string{"Warning ConnectionError: NetworkConnectionStatus is Error: why"}},
		"established":  {0, []step{{2, with(at(0), liqov1beta1.ConditionPending, "ConnectionPending", connection), works}}, nil},
		"fails_and_heals": {0, []step{{20, works, broken}, {29, broken, pending}, {30, pending, works}}, []string{
			"Warning ConnectionError: NetworkConnectionStatus is Error: why", "Normal Healed: NetworkConnectionStatus is Established again, after 10m0s of ConnectionError",
		}},
		"heals_once": {0, []step{{20, works, broken}, {21, broken, works}, {21, broken, works}}, []string{
			"Warning ConnectionError: NetworkConnectionStatus is Error: why", "Normal Healed: NetworkConnectionStatus is Established again, after 1m0s of ConnectionError",
		}},
		"heals_after_restart":       {25, []step{{30, broken, works}}, []string{"Normal Healed: NetworkConnectionStatus is Established again, after 10m0s of ConnectionError"}},
		"established_after_restart": {2, []step{{5, with(at(1), liqov1beta1.ConditionPending, "ConnectionPending", connection), works}}, nil},
		"misbehaves": {0, []step{{20, works, tooMuch}, {21, tooMuch, tooMuch}, {30, tooMuch, works}, {31, works, works}}, []string{
			"Warning TooManyWrites: why", "Normal Healed: the peer keeps to its limits again, 10m0s after TooManyWrites",
		}},
		"misbehaves_after_restart": {25, []step{{26, tooMuch, tooMuch}, {30, tooMuch, works}}, []string{"Normal Healed: the peer keeps to its limits again, 10m0s after TooManyWrites"}},
		"two_at_once": {0, []step{
			{20, with(at(1), liqov1beta1.ConditionReady, "", connection, gateway), with(at(20), liqov1beta1.ConditionNotReady, "", connection, gateway)},
			{21, with(at(20), liqov1beta1.ConditionNotReady, "", connection, gateway), with(at(21), liqov1beta1.ConditionReady, "", connection, gateway)},
		}, []string{
			"Warning NotReady: NetworkConnectionStatus is NotReady: why; NetworkGatewayClientStatus is NotReady: why",
			"Normal Healed: NetworkConnectionStatus is Ready again, after 1m0s of NotReady; NetworkGatewayClientStatus is Ready again, after 1m0s of NotReady",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			fc := &liqov1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{UID: "x", CreationTimestamp: metav1.NewTime(created)}}
			f := newFailures(at(tc.started))
			var got []string
			for _, s := range tc.steps {
				for _, e := range f.findEvents(fc, s.before, s.after, at(s.at)) {
					got = append(got, text(e))
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func text(e kube.Event) string { return e.Type + " " + e.Reason + ": " + e.Message }
