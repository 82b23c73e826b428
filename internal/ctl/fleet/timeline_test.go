// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/ctl/diagnose"
)

// newDocument returns a document with a tunnel in a state, and findings with messages.
func newDocument(at time.Duration, state string, messages ...string) *Document {
	d := &Document{Time: now.Add(at), Peers: []Peer{{ID: "milan", Phase: PhaseHealthy}}, Tunnels: []Tunnel{{Peer: "milan", Name: "gw", State: state}}, Pods: []Pod{{Phase: "Pending"}, {Phase: "Running", Ready: true}, {Phase: "Succeeded"}, {Phase: "Failed"}}}
	var findings []diagnose.Finding
	for _, m := range messages {
		findings = append(findings, diagnose.Finding{Severity: diagnose.Failed, Object: "Lease liqo/x", Message: m})
	}
	d.Check = diagnose.NewReport([]diagnose.Group{{Name: "liqo", Checks: []diagnose.Check{diagnose.NewCheck("leaders renew their Leases", findings)}}})
	return d
}

// newOffloading returns a document with namespaces in phases.
func newOffloading(phases ...string) *Document {
	d := newDocument(0, "Connected")
	for i, phase := range phases {
		d.Namespaces = append(d.Namespaces, Namespace{Name: fmt.Sprint("n", i), Phase: phase})
	}
	return d
}

func newSlices(all ...Slice) *Document {
	d := newDocument(0, "Connected")
	for _, s := range all {
		s.Peer, s.Action = "milan", "Consuming"
		d.Slices = append(d.Slices, s)
	}
	return d
}

// TestSeed has what the cluster knows of the last hour when a timeline begins.
func TestSeed(t *testing.T) {
	f := newFacts(t)
	ago := func(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }
	f.Peers[1].Status.Modules.Networking.Conditions[0].LastTransitionTime = ago(10 * time.Minute)
	f.Peers[1].Status.Modules.Offloading.Conditions = []liqov1beta1.Condition{{Type: liqov1beta1.OffloadingNodeStatus, Status: liqov1beta1.ConditionReady, LastTransitionTime: ago(20 * time.Minute)}}
	f.Peers[1].Status.Modules.Authentication.Conditions = []liqov1beta1.Condition{{Type: liqov1beta1.AuthTenantStatus, Status: liqov1beta1.ConditionReady, LastTransitionTime: ago(2 * time.Hour)}}
	d := New(f)
	var timeline Timeline
	timeline.Seed(f, d)
	timeline.Add(nil, d)
	var got []string
	for _, c := range timeline.Changes {
		got = append(got, fmt.Sprintf("%s %s %s: %s", now.Sub(c.Time), map[bool]string{c.Good: "good", c.Bad: "bad"}[true], c.Object, c.Text))
	}
	if diff := cmp.Diff([]string{
		"20m0s good peer milan: OffloadingNodeStatus is Ready", "10m0s bad peer milan: NetworkConnectionStatus is Error: the tunnel[2J is down",
		"1m0s bad Connection liqo-tenant-milan/gw-milan: New: why", "1s bad Connection liqo-tenant-milan/gw-milan: Lost: why",
	}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestCompare(t *testing.T) {
	alone := newDocument(0, "Connected")
	alone.Tunnels = nil
	for name, tc := range map[string]struct {
		before, after *Document
		want          []string
	}{
		"same":           {newDocument(0, "Connected", "late by 1m"), newDocument(0, "Connected", "late by 1m"), nil},
		"another age":    {newDocument(0, "Connected", "late by 1m"), newDocument(0, "Connected", "late by 2m"), nil},
		"broken":         {newDocument(0, "Connected"), newDocument(0, "Error", "late"), []string{"bad Lease liqo/x: late", "bad tunnel to milan (gw): Error, was Connected"}},
		"solved":         {newDocument(0, "Error", "late"), newDocument(0, "Connected"), []string{"good Lease liqo/x: solved: late", "good tunnel to milan (gw): Connected, was Error"}},
		"new":            {alone, newDocument(0, "Connected"), []string{" tunnel to milan (gw): is new: Connected"}},
		"gone":           {newDocument(0, "Connected"), alone, []string{" tunnel to milan (gw): is gone"}},
		"new and broken": {alone, newDocument(0, "Error"), []string{"bad tunnel to milan (gw): is new: Error"}},
		"new and begun":  {alone, newDocument(0, "Connecting"), []string{" tunnel to milan (gw): is new: Connecting"}},
		"established":    {newDocument(0, "Connecting"), newDocument(0, "Connected"), []string{"good tunnel to milan (gw): Connected, was Connecting"}},
		"namespaces": {newOffloading("InProgress", "Ready", "Ready"), newOffloading("Ready", "SomeFailed", "InProgress", ""), []string{
			"good namespace n0: Ready, was InProgress", "bad namespace n1: SomeFailed, was Ready", " namespace n2: InProgress, was Ready", " namespace n3: is new: Pending",
		}},
		"slices": {newDocument(0, "Connected"), newSlices(Slice{Name: "a"}, Slice{Name: "b", Alerts: []string{"no such class"}}, Slice{Name: "c", Accepted: true}), []string{
			" consuming slice a of milan: is new: not judged yet", "bad consuming slice b of milan: is new: not accepted", " consuming slice c of milan: is new: accepted",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, c := range Compare(tc.before, tc.after) {
				got = append(got, fmt.Sprintf("%s %s: %s", map[bool]string{c.Good: "good", c.Bad: "bad"}[true], c.Object, c.Text))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestTimelineBounds(t *testing.T) {
	var timeline Timeline
	var before *Document
	for second := range 2 * 3600 {
		d := newDocument(time.Duration(second)*time.Second, []string{"Connected", "Error"}[second%2])
		timeline.Add(before, d)
		before = d
	}
	if n := len(timeline.Samples); n < 240 || n > 260 {
		t.Errorf("an hour has %d samples", n)
	}
	if n := len(timeline.Changes); n != maxChanges {
		t.Errorf("there are %d changes", n)
	}
	last := timeline.Samples[len(timeline.Samples)-1]
	if diff := cmp.Diff(Sample{Time: before.Time, Tunnels: 1, Pods: 4, Waiting: 1}, last); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
