// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"testing"

	"liqo.io/liqo/test/clusters"
)

// leavesNothing notes all objects of both clusters and returns the check that they are the same again.
func leavesNothing(t *testing.T) func() {
	t.Helper()
	before := map[*cluster]clusters.Listing{}
	for _, c := range []*cluster{consumer, provider} {
		eventually(t, "the end of the story before", func(ctx context.Context) (err error) {
			if before[c], err = c.Listing(ctx); err == nil {
				err = before[c].Settled()
			}
			return err
		})
	}
	return func() {
		t.Helper()
		eventually(t, "both clusters to be as before", func(ctx context.Context) error {
			var differences []error
			for c, want := range before {
				list, err := c.Listing(ctx)
				if err != nil {
					return err
				}
				if diff := clusters.Changes(want, list); diff != "" {
					differences = append(differences, errors.New(c.ID+" (-before +after):\n"+diff))
				}
			}
			return errors.Join(differences...)
		})
	}
}
