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

// endpointMemory is a file that outlives the process and holds the last endpoint of the client. An outdated endpoint is harmless: a client
// that moved announces itself.
type endpointMemory struct{ path string } // "" for none

func memoryIn(dir string) endpointMemory {
	if dir == "" {
		return endpointMemory{}
	}
	return endpointMemory{filepath.Join(dir, learnedFile)}
}

// loadEndpoint returns the stored endpoint, or the zero value.
func (m endpointMemory) loadEndpoint() netip.AddrPort {
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

// storeEndpoint writes the endpoint if it changed.
func (m endpointMemory) storeEndpoint(endpoint netip.AddrPort) error {
	if m.path == "" || !endpoint.IsValid() || m.loadEndpoint() == endpoint {
		return nil
	}
	if err := os.WriteFile(m.path, []byte(endpoint.String()), 0o600); err != nil {
		return fmt.Errorf("keeping the endpoint of the client: %w", err)
	}
	return nil
}
