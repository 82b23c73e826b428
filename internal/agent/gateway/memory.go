// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
)

// learnedFile has the endpoint of a server's client.
const learnedFile = "endpoint"

// memory is a file that outlives the process. It says where to look first, and being wrong does no harm: a client that moved tells.
type memory struct{ path string } // "" for none

func memoryIn(dir string) memory {
	if dir == "" {
		return memory{}
	}
	return memory{filepath.Join(dir, learnedFile)}
}

// recall is what was kept, the zero value if nothing was.
func (m memory) recall() netip.AddrPort {
	data, err := os.ReadFile(m.path)
	if err != nil {
		return netip.AddrPort{}
	}
	endpoint, err := netip.ParseAddrPort(string(data))
	if err != nil {
		return netip.AddrPort{}
	}
	return endpoint
}

// keep writes only what is new.
func (m memory) keep(endpoint netip.AddrPort) error {
	if m.path == "" || !endpoint.IsValid() || m.recall() == endpoint {
		return nil
	}
	if err := os.WriteFile(m.path, []byte(endpoint.String()), 0o600); err != nil {
		return fmt.Errorf("keeping the endpoint of the client: %w", err)
	}
	return nil
}
