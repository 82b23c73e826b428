// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package policy

// ReplacesKubeProxy reports whether Cilium has NodePorts lead to endpoints, by the settings in its ConfigMap: it chooses an endpoint on the uplink, before
// Liqo gives the packet a source that a peer knows.
func ReplacesKubeProxy(settings map[string]string) bool {
	replaces := settings["kube-proxy-replacement"]
	return replaces == "true" || replaces == "strict" || settings["enable-node-port"] == "true"
}
