// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Command virtual-kubelet runs only the virtual kubelet. Each virtual node has its own process, and most of the memory of a process is mapped pages
// of the executable.
package main

import (
	"liqo.io/liqo/internal/app/kubelet"
	"liqo.io/liqo/internal/app/program"
)

func main() {
	program.Main(program.Complete(kubelet.Command()))
}
