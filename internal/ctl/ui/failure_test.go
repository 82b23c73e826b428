// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"errors"
	"fmt"
	"testing"
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
