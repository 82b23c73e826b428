// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"slices"
	"strings"
)

// Skipped is the status of a link after the failed link of a chain: the findings would follow from the failure.
const Skipped Severity = "skipped"

// Link is one step from a consumer to a provider. At most one link of a chain has failed.
type Link struct {
	// Cluster is the ID of the link's cluster.
	Cluster string `json:"cluster,omitempty"`
	Check
}

// Chain has the links in order: each link needs the earlier links.
type Chain struct {
	Name  string `json:"name"`
	Links []Link `json:"links"`
}

// Explanation is why an object works or not.
type Explanation struct {
	Object string `json:"object"`
	// Stopped reports whether a link failed.
	Stopped bool    `json:"stopped"`
	Chains  []Chain `json:"chains"`
}

// Stop returns the first link that failed, nil if nothing stops the object.
func (e *Explanation) Stop() *Link {
	for i := range e.Chains {
		for j := range e.Chains[i].Links {
			if l := &e.Chains[i].Links[j]; l.Status == Failed {
				return l
			}
		}
	}
	return nil
}

// Failure returns the first finding of a link that failed.
func (l *Link) Failure() *Finding {
	i := slices.IndexFunc(l.Findings, func(f Finding) bool { return f.Severity == Failed })
	return &l.Findings[i]
}

// chainWriter appends links to a chain until one fails.
type chainWriter struct {
	chain   Chain
	stopped bool
	// lenient is true if the object works: a fault of its chain is a warning.
	lenient bool
}

// addLink applies a rule to a cluster, unless an earlier link stops the chain.
func (w *chainWriter) addLink(s *Scene, name, note string, find func() []Finding, needs ...string) {
	findings := s.findUnreadable(needs)
	if findings != nil { // the note would be about unread objects
		note = ""
	}
	link := Link{Cluster: s.ClusterID, Check: Check{Name: name, Status: Skipped}.withNote(note)}
	if !w.stopped {
		if findings == nil {
			findings = find()
		}
		if w.lenient {
			for i := range findings {
				findings[i] = warningOf(findings[i])
			}
		}
		link.Check = NewCheck(name, findings).withNote(note)
		w.stopped = link.Status == Failed
	}
	w.chain.Links = append(w.chain.Links, link)
}

// findUnreadable returns one finding for all kinds of a rule that the user may not list: a user of a namespace lacks many.
func (s *Scene) findUnreadable(needs []string) []Finding {
	unreadable := slices.DeleteFunc(slices.Clone(needs), func(kind string) bool { return s.Unreadable[kind] == "" })
	if len(unreadable) == 0 {
		return nil
	}
	return []Finding{newUnchecked(strings.Join(unreadable, ", "), s.Unreadable[unreadable[0]])}
}

const pageForbidden = "docs/troubleshooting.md#is-forbidden-or-you-are-not-allowed-to"

// notChecked begins the messages of checks that were not possible.
const notChecked = "not checked: "

// newUnchecked returns the warning that a check was not possible. The remedy follows from why.
func newUnchecked(object, why string) Finding {
	remedy, page := "see why the cluster does not answer, and try again", "docs/troubleshooting.md#a-command-does-not-reach-a-cluster"
	if strings.Contains(why, "forbidden") { // the word of the API server
		remedy, page = "ask for the right to list it", pageForbidden
	}
	return warningOf(newFailure(object, notChecked+why, remedy, page))
}

// newUnknown returns the warning that an object could not be checked, because a fact needed to find the object is not known.
func newUnknown(object, what string) Finding {
	return warningOf(newFailure(object, notChecked+what+" is not known", "ask for the right to read it", pageForbidden))
}

// IsPartial reports whether something could not be checked.
func (e *Explanation) IsPartial() bool {
	for _, c := range e.Chains {
		for _, l := range c.Links {
			if slices.ContainsFunc(l.Findings, func(f Finding) bool { return strings.HasPrefix(f.Message, notChecked) }) {
				return true
			}
		}
	}
	return false
}

// newExplanation returns the explanation of chains.
func newExplanation(object string, chains ...*chainWriter) *Explanation {
	e := &Explanation{Object: object}
	for _, w := range chains {
		e.Chains = append(e.Chains, w.chain)
		e.Stopped = e.Stopped || w.stopped
	}
	return e
}
