// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/ctl/diagnose"
)

// Bounds of a Timeline.
const (
	timelineAge  = time.Hour
	sampleEvery  = 15 * time.Second
	maxChanges   = 300
	maxOfOneStep = 50
)

// Timeline has the changes of the last hour, as far as documents and the cluster's conditions show them.
type Timeline struct {
	// Changes are the oldest first.
	Changes []Change `json:"changes"`
	Samples []Sample `json:"samples"`
}

// Change is a difference between two documents.
type Change struct {
	Time time.Time `json:"time"`
	// Good is true if the object works since the change, Bad if the object does not work.
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

// Add adds a document; before is the previous document, nil for the first.
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
		t.Samples[last] = sample // the newest sample is the current state
		return
	}
	t.Samples = append(t.Samples, sample)
}

func newSample(d *Document) Sample {
	s := Sample{Time: d.Time, Tunnels: len(d.Tunnels), Pods: len(d.Pods)}
	for i := range d.Tunnels {
		if d.Tunnels[i].State == string(networkingv1beta1.Connected) {
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

// Seed adds changes before the first document, as far as the cluster still knows them: events, and transitions of conditions of peers.
func (t *Timeline) Seed(f *Facts, d *Document) {
	for i := range f.Peers {
		fc := &f.Peers[i]
		m := fc.Status.Modules
		for _, c := range slices.Concat(m.Networking.Conditions, m.Authentication.Conditions, m.Offloading.Conditions, fc.Status.Conditions) {
			change := Change{
				Time: c.LastTransitionTime.UTC(), Object: "peer " + string(fc.Spec.ClusterID), Text: diagnose.ForeignText(transitionText(c)),
				Good: c.Status == liqov1beta1.ConditionEstablished || c.Status == liqov1beta1.ConditionReady,
			}
			change.Bad = !change.Good && c.Status != liqov1beta1.ConditionPending && c.Status != liqov1beta1.ConditionNone
			t.Changes = append(t.Changes, change)
		}
	}
	for _, e := range d.Events {
		t.Changes = append(t.Changes, Change{Time: e.Time, Bad: e.Type == corev1.EventTypeWarning, Object: e.Object, Text: e.Reason + ": " + e.Message})
	}
	slices.SortStableFunc(t.Changes, func(a, b Change) int { return a.Time.Compare(b.Time) })
}

// transitionText returns the type and the status of a condition, with the message or reason if there is one.
func transitionText(c liqov1beta1.Condition) string {
	text := fmt.Sprintf("%s is %s", c.Type, c.Status)
	if why := cmp.Or(c.Message, c.Reason); why != "" {
		text += ": " + why
	}
	return text
}

// state is the state of an object in a document. A state that is neither good nor bad may become either, such as the state of a new tunnel.
type state struct {
	text      string
	good, bad bool
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
			change.Text, change.Bad = "is new: "+is.text, is.bad
		default:
			change.Text, change.Good, change.Bad = fmt.Sprintf("%s, was %s", is.text, was.text), is.good && !was.good, is.bad
		}
		all = append(all, change)
	}
	solved, found := findingsOf(before), findingsOf(d)
	for key, f := range solved {
		if _, remains := found[key]; !remains {
			all = append(all, Change{Time: d.Time, Object: key.object, Text: "solved: " + f.Message, Good: true})
		}
	}
	for key, f := range found {
		if _, known := solved[key]; !known {
			all = append(all, Change{Time: d.Time, Object: key.object, Text: f.Message, Bad: f.Severity == diagnose.Failed})
		}
	}
	slices.SortFunc(all, func(a, b Change) int { return cmp.Or(cmp.Compare(a.Object, b.Object), cmp.Compare(a.Text, b.Text)) })
	return all
}

// statesOf returns the states of the kinds with few objects.
func statesOf(d *Document) map[string]state {
	all := map[string]state{}
	for _, p := range d.Peers {
		all["peer "+p.ID] = state{p.Phase, p.Phase == PhaseHealthy, p.Phase == PhaseUnhealthy}
	}
	for _, t := range d.Tunnels {
		all["tunnel to "+t.Peer+" ("+t.Name+")"] = state{t.State, t.State == string(networkingv1beta1.Connected), t.State == string(networkingv1beta1.ConnectionError)}
	}
	for _, s := range d.Slices {
		text := "accepted"
		switch {
		case len(s.Alerts) > 0:
			text = "not accepted"
		case !s.Accepted:
			text = "not judged yet"
		}
		all[strings.ToLower(s.Action)+" slice "+s.Name+" of "+s.Peer] = state{text, s.Accepted, len(s.Alerts) > 0}
	}
	for _, n := range d.VirtualNodes {
		text := n.Status
		if n.Cordoned {
			text += ", cordoned"
		}
		all["node "+n.Name] = state{text, n.Status == diagnose.Healthy, n.Status != diagnose.Healthy}
	}
	for _, n := range d.Namespaces {
		phase := offv1beta1.OffloadingPhaseType(n.Phase)
		failed := phase == offv1beta1.SomeFailedOffloadingPhaseType || phase == offv1beta1.AllFailedOffloadingPhaseType
		all["namespace "+n.Name] = state{cmp.Or(n.Phase, "Pending"), phase == offv1beta1.ReadyOffloadingPhaseType, failed}
	}
	return all
}

// findingKey identifies a finding, whose message may have an age or an amount.
type findingKey struct{ check, object, page string }

// findingsOf returns the findings of a document.
func findingsOf(d *Document) map[findingKey]diagnose.Finding {
	all := map[findingKey]diagnose.Finding{}
	for _, g := range d.Check.Groups {
		for _, c := range g.Checks {
			for _, f := range c.Findings {
				all[findingKey{c.Name, f.Object, f.Page}] = f
			}
		}
	}
	return all
}
