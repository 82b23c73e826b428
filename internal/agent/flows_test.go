// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"net/netip"
	"testing"

	"liqo.io/liqo/internal/datapath/kernel"
)

// tracker notes which prefixes are forgotten.
type tracker struct {
	forgotten string
	marked    bool // by a process before
	broken    error
}

func (f *tracker) Forget(of ...netip.Prefix) (int, error) {
	for _, p := range of {
		f.forgotten += p.String() + " "
	}
	return len(of), f.broken
}

func (f *tracker) Unsettle() (bool, error) { return f.marked, nil }
func (f *tracker) Settle() error           { return nil }

func of(prefix, as string) Translations { return Translations{netip.MustParsePrefix(prefix): as} }

func TestFlowsKeptWhenUnchanged(t *testing.T) {
	for name, tc := range map[string]struct {
		before  *tracker
		changes kernel.Changes
		want    string
	}{
		"all in place":                          {before: &tracker{}},
		"something was not":                     {&tracker{}, kernel.Changes{Writes: []string{"a"}}, "10.71.0.0/16 "},
		"a process before it might have missed": {before: &tracker{marked: true}, want: "10.71.0.0/16 "},
	} {
		f, now := Flows{Tracker: tc.before}, of("10.71.0.0/16", "")
		if err := f.Unsettle(now); err != nil {
			t.Fatal(err)
		}
		f.Changed(tc.changes)
		if err := f.Forget(now); err != nil || tc.before.forgotten != tc.want {
			t.Errorf("%s: forgot %q, want %q: %v", name, tc.before.forgotten, tc.want, err)
		}
	}
}

func TestFlowsRetried(t *testing.T) {
	k := &tracker{}
	f := Flows{Tracker: k}
	if err := f.Forget(of("10.71.0.0/16", "a")); err != nil || k.forgotten != "" {
		t.Fatalf("forgot %q: %v", k.forgotten, err)
	}
	now := of("10.71.0.0/16", "b")
	k.broken = errors.New("interrupted")
	if err := f.Forget(now); err == nil {
		t.Error("an error is lost")
	}
	k.broken, k.forgotten = nil, ""
	if err := f.Forget(now); err != nil || k.forgotten != "10.71.0.0/16 " {
		t.Errorf("forgot %q: %v", k.forgotten, err)
	}
}
