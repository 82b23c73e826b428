// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"net/netip"
	"slices"

	"liqo.io/liqo/internal/datapath/kernel"
)

// Translations say what becomes of flows that have to do with a prefix, in words that are only compared.
type Translations map[netip.Prefix]string

// Tracker is what an agent does with the flows that its network namespace tracks.
type Tracker interface {
	Forget(...netip.Prefix) (int, error)
	Unsettle() (already bool, err error)
	Settle() error
}

// Flows has those begin anew whose translation changed: connection tracking keeps what it decided with the first packet for ever. Each change
// of the namespace comes between Unsettle and Forget.
type Flows struct {
	Tracker Tracker

	// translated are the prefixes whose flows are translated as they should be; nil before the first run.
	translated Translations
	// changed is true if before that this process wrote anything, or found that one before it did and forgot nothing.
	changed bool
	// unsettled is true while there is a mark that flows may have to be forgotten.
	unsettled bool
}

// Unsettle marks that flows are to be forgotten, before anything changes because of which they are. Whether a process that begins has to change
// anything it knows too late, so it always does.
func (f *Flows) Unsettle(now Translations) error {
	if f.unsettled || f.translated != nil && len(f.stalePrefixes(now)) == 0 {
		return nil
	}
	already, err := f.Tracker.Unsettle()
	f.changed, f.unsettled = f.changed || already, err == nil
	return err
}

// Changed takes down what was written.
func (f *Flows) Changed(by kernel.Changes) { f.changed = f.changed || len(by.Writes) > 0 }

// Forget has flows begin anew that were translated before a prefix came, or after it went, or as something else.
func (f *Flows) Forget(now Translations) error {
	if stale := f.stalePrefixes(now); len(stale) > 0 {
		if _, err := f.Tracker.Forget(stale...); err != nil {
			return err
		}
	}
	f.translated = now
	if !f.unsettled {
		return nil
	}
	if err := f.Tracker.Settle(); err != nil {
		return err
	}
	f.unsettled = false
	return nil
}

// stalePrefixes are the prefixes whose flows may be translated otherwise than now. A process that finds all as it should be has not missed anything.
func (f *Flows) stalePrefixes(now Translations) []netip.Prefix {
	var out []netip.Prefix
	for p, as := range now {
		was, known := f.translated[p]
		if f.translated == nil && f.changed || f.translated != nil && (!known || was != as) {
			out = append(out, p)
		}
	}
	for p := range f.translated {
		if _, still := now[p]; !still {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, netip.Prefix.Compare)
	return out
}
