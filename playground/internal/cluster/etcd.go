// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import "liqo.io/liqo/playground/internal/supervise"

// etcd returns the unit of etcd, which listens on the loopback of the first node. It does not call fsync, which makes it fast: data survives
// a killed process, but not a power failure.
func etcd(l layout) supervise.Unit {
	const client, peer = "http://127.0.0.1:2379", "http://127.0.0.1:2380"
	return l.unit("etcd", l.Env(),
		"--name="+l.Name,
		"--data-dir="+l.file("etcd"),
		"--listen-client-urls="+client,
		"--advertise-client-urls="+client,
		"--listen-peer-urls="+peer,
		"--initial-advertise-peer-urls="+peer,
		"--initial-cluster="+l.Name+"="+peer,
		"--unsafe-no-fsync",
		"--log-level=warn",
		"--quota-backend-bytes=4294967296",
		"--auto-compaction-retention=10m",
	)
}
