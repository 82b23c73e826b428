// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Command virtual-kubelet is one role of liqo by itself: there is one process for each virtual node, and what it maps of its file
// is most of what it takes.
package main

import (
	"liqo.io/liqo/internal/app/kubelet"
	"liqo.io/liqo/internal/app/program"
)

func main() {
	program.Main(program.Complete(kubelet.Command()))
}
