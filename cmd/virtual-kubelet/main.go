// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Command virtual-kubelet is one process of the in-cluster programs by itself: there is one for each virtual node, and with
// what it does not need it would take twice the memory.
package main

import (
	"liqo.io/liqo/internal/app/kubelet"
	"liqo.io/liqo/internal/app/program"
)

func main() {
	program.Main(program.Complete(kubelet.Command()))
}
