// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Command virtual-kubelet runs the virtual kubelet alone. Each virtual node has an own process, and the pages that a process maps of
// its executable are most of its memory.
package main

import (
	"liqo.io/liqo/internal/app/kubelet"
	"liqo.io/liqo/internal/app/program"
)

func main() {
	program.Main(program.Complete(kubelet.Command()))
}
