// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package diagnose has the rules of "liqoctl check": facts about a cluster in, findings out. It reads no cluster.
package diagnose

import (
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Severity is the weight of a finding.
type Severity string

const (
	// Failed means a fault, now or soon.
	Failed Severity = "failed"
	// Warning means no fault, but a reason to look. Warnings do not fail the command.
	Warning Severity = "warning"
	// Passed is the status of a check without findings.
	Passed Severity = "passed"
)

// Finding is one problem of one object.
type Finding struct {
	Severity Severity `json:"severity"`
	// Object is the kind, namespace and name of the object to change or to look at.
	Object  string `json:"object"`
	Message string `json:"message"`
	Remedy  string `json:"remedy,omitempty"`
	// Page is the part of the documentation about the problem.
	Page string `json:"page"`
	// Peer is the ID of the other cluster, "" for a problem of this cluster.
	Peer string `json:"-"`
}

// Alert returns the finding as one line.
func (f Finding) Alert() string {
	if f.Remedy == "" {
		return f.Message
	}
	return f.Message + ": " + f.Remedy
}

// Alerts returns findings as lines.
func Alerts(all []Finding) (lines []string) {
	for _, f := range all {
		lines = append(lines, f.Alert())
	}
	return lines
}

// Ref returns the name of an object in a finding.
func Ref(kind string, obj client.Object) string {
	if obj.GetNamespace() == "" {
		return kind + " " + obj.GetName()
	}
	return fmt.Sprintf("%s %s/%s", kind, obj.GetNamespace(), obj.GetName())
}

// Check is a question with an answer.
type Check struct {
	Name   string   `json:"name"`
	Status Severity `json:"status"`
	// Note is an observation of the check, such as a version.
	Note     string    `json:"note,omitempty"`
	Findings []Finding `json:"findings,omitempty"`
}

// NewCheck returns a check with the status of its worst finding.
func NewCheck(name string, findings []Finding) Check {
	c := Check{Name: name, Status: Passed, Findings: findings}
	for _, f := range findings {
		if f.Severity == Failed || c.Status == Passed {
			c.Status = f.Severity
		}
	}
	return c
}

// withNote returns the check with a note.
func (c Check) withNote(note string) Check {
	c.Note = ForeignText(note)
	return c
}

// Group is a part of a report: a topic, or a peer.
type Group struct {
	Name   string  `json:"name"`
	Checks []Check `json:"checks"`
}

// Report is the answer of the command.
type Report struct {
	// Healthy is false if a check failed.
	Healthy bool    `json:"healthy"`
	Failed  int     `json:"failed"`
	Warned  int     `json:"warnings"`
	Groups  []Group `json:"groups"`
}

// NewReport returns a report with the counts of its checks.
func NewReport(groups []Group) *Report {
	r := &Report{Groups: groups}
	for _, g := range groups {
		for _, c := range g.Checks {
			switch c.Status {
			case Failed:
				r.Failed++
			case Warning:
				r.Warned++
			}
		}
	}
	r.Healthy = r.Failed == 0
	return r
}

// Count returns the number of checks.
func (r *Report) Count() (n int) {
	for _, g := range r.Groups {
		n += len(g.Checks)
	}
	return n
}
