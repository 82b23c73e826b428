// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package home

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// Claim makes sure that what the kernel has under our name belongs to this home: cleaning goes by name, and must not
// remove the clusters of another home.
func (h Home) Claim() error {
	owner, err := os.ReadFile(h.claimFile())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading who owns the playground %s: %w", h.World.Name, err)
	}
	other := strings.TrimSpace(string(owner))
	if _, gone := os.Stat(other); other != "" && other != h.Root && gone == nil {
		return fmt.Errorf("a playground named %s runs from %s already; for a second one set LIQO_PLAYGROUND_NAME and LIQO_PLAYGROUND_NETWORK too",
			h.World.Name, other)
	}
	return Write(h.claimFile(), []byte(h.Root+"\n"), 0o644)
}

// Unclaim is for when nothing is left.
func (h Home) Unclaim() error {
	if err := os.Remove(h.claimFile()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("giving up the name %s: %w", h.World.Name, err)
	}
	return nil
}

// claimFile goes with a reboot, as all that it stands for.
func (h Home) claimFile() string { return "/run/" + h.World.Name + ".playground" }
