// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// CiliumDaemonSet and CiliumConfig are the names of the DaemonSet and the settings ConfigMap of Cilium, in one namespace.
const (
	CiliumDaemonSet = "cilium"
	CiliumConfig    = "cilium-config"
)

// CiliumSettings returns the settings of a running Cilium: settings left behind by an earlier Cilium say nothing.
func CiliumSettings(daemons []appsv1.DaemonSet, configs []corev1.ConfigMap) (all []corev1.ConfigMap) {
	for i := range configs {
		runs := func(d appsv1.DaemonSet) bool { return d.Name == CiliumDaemonSet && d.Namespace == configs[i].Namespace }
		if configs[i].Name == CiliumConfig && slices.ContainsFunc(daemons, runs) {
			all = append(all, configs[i])
		}
	}
	return all
}

// ReplacesKubeProxy reports whether NodePorts lead to endpoints by Cilium, according to the settings in the ConfigMap: Cilium chooses an endpoint on
// the uplink, before Liqo gives the packet a source known to a peer.
func ReplacesKubeProxy(settings map[string]string) bool {
	replaces := settings["kube-proxy-replacement"]
	return replaces == "true" || replaces == "strict" || settings["enable-node-port"] == "true"
}
