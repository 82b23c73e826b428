// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"

	"liqo.io/liqo/playground/internal/supervise"
)

// PauseImage is the image of every pod's first container.
const PauseImage = "registry.k8s.io/pause:3.10"

// containerdConfig returns the configuration of a node's container runtime. Without restrict_oom_score_adj, runc fails where
// CAP_SYS_RESOURCE is missing.
func containerdConfig(l layout) string {
	return fmt.Sprintf(`version = 3
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = [
  "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.blockfile", "io.containerd.snapshotter.v1.erofs", "io.containerd.differ.v1.erofs",
  "io.containerd.tracing.processor.v1.otlp", "io.containerd.nri.v1.nri",
]
[grpc]
  address = "/run/containerd/containerd.sock"
[plugins."io.containerd.cri.v1.images"]
  snapshotter = "overlayfs"
  [plugins."io.containerd.cri.v1.images".pinned_images]
    sandbox = %[1]q
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    runtime_path = %[2]q
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
      BinaryName = %[3]q
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["/usr/lib/cni", "/opt/cni/bin"]
    conf_dir = "/etc/cni/net.d"
`, PauseImage, l.home.Program("containerd-shim-runc-v2"), l.home.Program("runc"))
}

func containerd(l layout) supervise.Unit {
	return supervise.Unit{
		Name: "containerd",
		Argv: []string{l.home.Program("containerd"), "--config", l.file("containerd.toml"), "--log-level", "warn"},
		Env:  l.cluster.Env(),
	}
}
