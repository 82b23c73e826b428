// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

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
