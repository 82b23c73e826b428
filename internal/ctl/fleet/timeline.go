// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"liqo.io/liqo/internal/ctl/diagnose"
)

// Bounds of a Timeline.
const (
	timelineAge  = time.Hour
	sampleEvery  = 15 * time.Second
	maxChanges   = 300
	maxOfOneStep = 50
)

// Timeline is what happened in the last hour, as far as documents show it.
type Timeline struct {
	// Changes are the oldest first.
	Changes []Change `json:"changes"`
	Samples []Sample `json:"samples"`
}

// Change is a difference between two documents.
type Change struct {
	Time time.Time `json:"time"`
	// Good is true if the change ended a problem, Bad if it began one.
	Good   bool   `json:"good,omitempty"`
	Bad    bool   `json:"bad,omitempty"`
	Object string `json:"object"`
	Text   string `json:"text"`
}

// Sample is a count at a time.
type Sample struct {
	Time      time.Time `json:"time"`
	Tunnels   int       `json:"tunnels"`
	Connected int       `json:"connected"`
	Pods      int       `json:"pods"`
	Waiting   int       `json:"waiting"`
	Findings  int       `json:"findings"`
}

// Add adds a document; before is the one before, nil for the first.
func (t *Timeline) Add(before, d *Document) {
	if before != nil {
		changes := Compare(before, d)
		t.Changes = append(t.Changes, changes[:min(len(changes), maxOfOneStep)]...)
	}
	since := d.Time.Add(-timelineAge)
	t.Changes = slices.DeleteFunc(t.Changes, func(c Change) bool { return c.Time.Before(since) })
	t.Changes = t.Changes[max(0, len(t.Changes)-maxChanges):]
	t.Samples = slices.DeleteFunc(t.Samples, func(s Sample) bool { return s.Time.Before(since) })
	sample := newSample(d)
	if last := len(t.Samples) - 1; last > 0 && sample.Time.Sub(t.Samples[last-1].Time) < sampleEvery {
		t.Samples[last] = sample // the newest one is that of now
		return
	}
	t.Samples = append(t.Samples, sample)
}

func newSample(d *Document) Sample {
	s := Sample{Time: d.Time, Tunnels: len(d.Tunnels), Pods: len(d.Pods)}
	for i := range d.Tunnels {
		if d.Tunnels[i].State == "Connected" {
			s.Connected++
		}
	}
	for i := range d.Pods {
		if d.Pods[i].IsWaiting() {
			s.Waiting++
		}
	}
	for _, g := range d.Check.Groups {
		s.Findings += countFindings(g)
	}
	return s
}

// state is the state of an object in a document.
type state struct {
	text string
	good bool
}

// Compare returns the changes of states and findings between two documents, by object.
func Compare(before, d *Document) []Change {
	old, now := statesOf(before), statesOf(d)
	objects := map[string]bool{}
	for object := range old {
		objects[object] = true
	}
	for object := range now {
		objects[object] = true
	}
	var all []Change
	for object := range objects {
		was, had := old[object]
		is, has := now[object]
		change := Change{Time: d.Time, Object: object}
		switch {
		case had && has && was == is:
			continue
		case !has:
			change.Text = "is gone"
		case !had:
			change.Text, change.Bad = "is new: "+is.text, !is.good
		default:
			change.Text, change.Good, change.Bad = fmt.Sprintf("%s, was %s", is.text, was.text), is.good && !was.good, !is.good
		}
		all = append(all, change)
	}
	solved, found := findingsOf(before), findingsOf(d)
	for key, message := range solved {
		if _, remains := found[key]; !remains {
			all = append(all, Change{Time: d.Time, Object: key.object, Text: "solved: " + message, Good: true})
		}
	}
	for key, message := range found {
		if _, known := solved[key]; !known {
			all = append(all, Change{Time: d.Time, Object: key.object, Text: message, Bad: true})
		}
	}
	slices.SortFunc(all, func(a, b Change) int { return cmp.Or(cmp.Compare(a.Object, b.Object), cmp.Compare(a.Text, b.Text)) })
	return all
}

// statesOf returns the states of what there are few of.
func statesOf(d *Document) map[string]state {
	all := map[string]state{}
	for _, p := range d.Peers {
		all["peer "+p.ID] = state{p.Phase, p.Phase != PhaseUnhealthy}
	}
	for _, t := range d.Tunnels {
		all["tunnel to "+t.Peer+" ("+t.Name+")"] = state{t.State, t.State == "Connected"}
	}
	for _, s := range d.Slices {
		text := "accepted"
		if !s.Accepted {
			text = "not accepted"
		}
		all[strings.ToLower(s.Action)+" slice "+s.Name+" of "+s.Peer] = state{text, s.Accepted}
	}
	for _, n := range d.VirtualNodes {
		text := n.Status
		if n.Cordoned {
			text += ", cordoned"
		}
		all["node "+n.Name] = state{text, n.Status == diagnose.Healthy}
	}
	for _, n := range d.Namespaces {
		all["namespace "+n.Name] = state{n.Phase, n.Phase == "Ready"}
	}
	return all
}

// findingKey identifies a finding, whose message may have an age or an amount.
type findingKey struct{ check, object, page string }

// findingsOf returns the messages of the findings of a document.
func findingsOf(d *Document) map[findingKey]string {
	all := map[findingKey]string{}
	for _, g := range d.Check.Groups {
		for _, c := range g.Checks {
			for _, f := range c.Findings {
				all[findingKey{c.Name, f.Object, f.Page}] = f.Message
			}
		}
	}
	return all
}
