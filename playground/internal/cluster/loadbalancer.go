// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import "liqo.io/liqo/playground/internal/supervise"

// loadBalancer is this very program, see package balance.
func loadBalancer(l layout) supervise.Unit {
	u := l.unit("loadbalancer", append(l.home.Environment(), l.Env()...))
	u.Argv = []string{"/proc/self/exe", "internal", "loadbalancer", l.Name}
	return u
}
