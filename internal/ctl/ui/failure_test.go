// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A gateway that is refused says more than that the networking cannot be ensured.
func TestFailurePage(t *testing.T) {
	outer := func(err error) *Failure {
		return Fail("unable to ensure networking: %w", err).See("page#outer")
	}
	for name, tc := range map[string]struct {
		failure *Failure
		want    string
	}{
		"none":          {Fail("refused").Hint("try again"), ""},
		"own":           {Fail("refused").See("page#own"), "page#own"},
		"wraps_none":    {outer(errors.New("refused")), "page#outer"},
		"wraps_no_page": {outer(Fail("refused")), "page#outer"},
		"inner":         {outer(fmt.Errorf("gateway: %w", Fail("refused").See("page#inner"))), "page#inner"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.failure.Page(); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

func TestAllHints(t *testing.T) {
	first, left := Fail("measuring: refused").Hint("try again"), Fail("removing: timeout").Hint("objects may be left")
	for name, tc := range map[string]struct {
		err  error
		want []string
	}{
		"none":         {errors.New("refused"), nil},
		"wrapped":      {fmt.Errorf("in rome: %w", Fail("outer: %w", first).Hint("look there")), []string{"look there", "try again"}},
		"joined":       {errors.Join(Fail("without a hint"), fmt.Errorf("in rome: %w", errors.Join(first, left))), []string{"try again", "objects may be left"}},
		"joined_twice": {errors.Join(first, left, first), []string{"try again", "objects may be left"}},
		"failure":      {Fail("all: %w", errors.Join(first, left)), []string{"try again", "objects may be left"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, AllHints(tc.err)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
