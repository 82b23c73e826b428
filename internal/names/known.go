// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package names

import (
	"slices"
	"strings"
)

// known lists the keys of the domain liqo.io with a meaning, as labels, annotations or fields. The policy liqo-replicas has the same list.
var known = []string{
	"liqo.io/allow-reflection", "liqo.io/allow-virtual-nodes", "liqo.io/anti-affinity-labels", "liqo.io/anti-affinity-preset",
	"liqo.io/api-server-support", "liqo.io/applied-hash", "liqo.io/applied-taints", "liqo.io/capabilities", "liqo.io/certificate-for",
	"liqo.io/cordon", "liqo.io/create-virtual-node", "liqo.io/creator-user", "liqo.io/default-limits", "liqo.io/direct-connections-data",
	"liqo.io/downward-api-namespace", "liqo.io/evict-misplaced-pods", "liqo.io/followed-offer", "liqo.io/force-remote-node-port",
	"liqo.io/foreign-cluster-permanently-unreachable", "liqo.io/identity-type", "liqo.io/imposed-affinity", "liqo.io/issued-certificate",
	"liqo.io/keep-off-virtual-nodes", "liqo.io/kubernetes-minor", "liqo.io/managed", "liqo.io/managed-by", "liqo.io/managed-by-namespace-map",
	"liqo.io/nonce", "liqo.io/offloading-patch-hash", "liqo.io/originID", "liqo.io/original-name", "liqo.io/peering-user-name",
	"liqo.io/preinstalled", "liqo.io/remote-access-modes", "liqo.io/remote-cluster-id", "liqo.io/remote-runtime-class-name",
	"liqo.io/remote-service-account-name", "liqo.io/remote-storage-class", "liqo.io/remote-tenant-csr", "liqo.io/remote-tenant-namespace",
	"liqo.io/remote-unavailable", "liqo.io/remoteID", "liqo.io/replicated", "liqo.io/replication", "liqo.io/resourceslice-name",
	"liqo.io/scheduling-enabled", "liqo.io/served-nonces", "liqo.io/shadowPod", "liqo.io/signed-nonce", "liqo.io/skip-reflection",
	"liqo.io/storage", "liqo.io/storage-provisioner", "liqo.io/tenant-certificate-for", "liqo.io/tenant-namespace", "liqo.io/token-audiences",
	"liqo.io/type", "liqo.io/use-direct-connections", "liqo.io/version", "liqo.io/virtual-node", "liqo.io/webhook", "liqo.io/webhook-service-name", "liqo.io/withdrawn",
}

// Known returns the keys of the domain liqo.io with a meaning.
func Known() []string { return slices.Clone(known) }

// MeansSomething reports whether a key is reserved: a key of Known, or any key of a subdomain of liqo.io. Other keys of liqo.io are free for users.
func MeansSomething(key string) bool {
	domain, _, _ := strings.Cut(key, "/")
	return strings.HasSuffix(domain, ".liqo.io") || slices.Contains(known, key)
}
