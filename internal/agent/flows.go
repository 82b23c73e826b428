// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"net/netip"
	"slices"

	"liqo.io/liqo/internal/datapath/kernel"
)

// Translations maps each prefix to a description of the translation of its flows. Descriptions are only
// compared.
type Translations map[netip.Prefix]string

// Tracker is the interface to the conntrack table of a network namespace.
type Tracker interface {
	Forget(...netip.Prefix) (int, error)
	Unsettle() (already bool, err error)
	Settle() error
}

// Flows flushes the conntrack entries of flows whose translation changed, because conntrack keeps the decision of the first packet for ever.
// Each change of the namespace comes between Unsettle and Forget.
type Flows struct {
	Tracker Tracker

	// translated are the prefixes whose flows are translated as they should be; nil before the first run.
	translated Translations
	// changed is true if this process wrote to the kernel, or if an earlier process did and left its flush pending.
	changed bool
	// unsettled is true while the mark of a pending flush is set.
	unsettled bool
}

// Unsettle marks a flush as pending before the change that requires the flush. A new process always marks a flush, because the process learns too
// late whether a change is necessary.
func (f *Flows) Unsettle(now Translations) error {
	if f.unsettled || f.translated != nil && len(f.stalePrefixes(now)) == 0 {
		return nil
	}
	already, err := f.Tracker.Unsettle()
	f.changed, f.unsettled = f.changed || already, err == nil
	return err
}

// Changed records the writes to the kernel.
func (f *Flows) Changed(by kernel.Changes) { f.changed = f.changed || len(by.Writes) > 0 }

// Forget flushes the flows that were translated before a prefix was added, after a prefix was removed, or by another translation.
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

// stalePrefixes returns the prefixes whose flows may have an outdated translation. A process that finds the kernel up to date has missed no change.
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
