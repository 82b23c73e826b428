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

// Claim fails if another home uses the name of the playground: objects in the kernel are removed by name, so two homes with one name would
// remove each other's clusters.
func (h Home) Claim() error {
	owner, err := os.ReadFile(h.claimFile())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading the owner of the playground %s: %w", h.World.Name, err)
	}
	other := strings.TrimSpace(string(owner))
	if _, err := os.Stat(other); other != "" && other != h.Root && err == nil {
		return fmt.Errorf("the playground name %s is in use by %s; set LIQO_PLAYGROUND_NAME and LIQO_PLAYGROUND_NETWORK to run a second playground",
			h.World.Name, other)
	}
	return Write(h.claimFile(), []byte(h.Root+"\n"), 0o644)
}

// Unclaim releases the name. It is called when no cluster remains.
func (h Home) Unclaim() error {
	if err := os.Remove(h.claimFile()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("releasing the name %s: %w", h.World.Name, err)
	}
	return nil
}

// claimFile returns a path in /run, which is empty after a reboot, like the namespaces.
func (h Home) claimFile() string { return "/run/" + h.World.Name + ".playground" }
