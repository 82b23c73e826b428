// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import "liqo.io/liqo/playground/internal/supervise"

// loadBalancer returns the unit of package balance, which runs in the playground's own program.
func loadBalancer(l layout) supervise.Unit {
	u := l.unit("loadbalancer", append(l.home.Environment(), l.Env()...))
	u.Argv = []string{"/proc/self/exe", "internal", "loadbalancer", l.Name}
	return u
}
