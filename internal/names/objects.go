// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package names

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// maxLabel is the maximum length of a DNS-1123 label, hence of a name valid for every kind.
const maxLabel = 63

// Join joins the parts into a name of at most 63 characters. A longer name is truncated and ends in a hash of the whole: two names never collide.
func Join(parts ...string) string { return shorten(strings.Join(parts, "-"), maxLabel) }

func shorten(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	hash := hex.EncodeToString(sum[:4])
	return strings.TrimRight(s[:limit-len(hash)-1], "-.") + "-" + hash
}

// TokenSecret names the Secret with the tokens of a pod, in the provider.
func TokenSecret(pod string) string { return shorten(pod+"-token", 253) }

// Label returns a name as a label value.
func Label(name string) string { return shorten(name, maxLabel) }

// HostFieldManager returns the field manager of a node or gateway for a status shared with other writers.
func HostFieldManager(host string) string { return shorten("liqo-host-"+host, 128) }

// SliceIdentity names the Identity of a ResourceSlice.
func SliceIdentity(slice string) string { return Join("resourceslice", slice) }

// ControlPlaneIdentity names the control-plane Identity created by commands.
func ControlPlaneIdentity(provider string) string { return Join("controlplane", provider) }

// KubeconfigSecret names the Secret of an Identity.
func KubeconfigSecret(identity string) string { return Join("kubeconfig", identity) }

// VirtualKubelet names the Deployment of a virtual node.
func VirtualKubelet(virtualNode string) string { return Join("vk", virtualNode) }

// RoleBinding names the binding of a ClusterRole in a tenant namespace.
func RoleBinding(clusterRole string) string { return "liqo-binding-" + clusterRole }

// ClusterRoleBinding names the cluster-wide binding of a ClusterRole for a consumer.
func ClusterRoleBinding(clusterRole, consumer string) string {
	return shorten("liqo-binding-"+clusterRole+"-"+consumer, 253)
}

// DefaultTwin returns the remote name of an offloaded namespace under the DefaultName strategy.
func DefaultTwin(namespace, consumer string) string { return Join(namespace, consumer) }

// RootCA names the ConfigMap with the consumer's root CA in a remote namespace, beside the provider's own.
func RootCA(consumer string) string {
	head := consumer[:min(5, len(consumer))]
	if last := head[len(head)-1]; last == '-' || last == '.' {
		head += "a"
	}
	return "kube-root-ca.crt." + head
}

// PeeringUserName names a peering user of a consumer, and the user's certificate request. The user name in the certificate is longer.
func PeeringUserName(consumer string) string { return "liqo-peer-user-" + consumer }

// PeerKeysSecret names the Secret with this cluster's key pair for one peer only.
func PeerKeysSecret(peer string) string { return shorten(KeysSecret+"-"+peer, 253) }

// ServedNoncesSecret names the Secret with the used nonces of a consumer.
func ServedNoncesSecret(consumer string) string {
	return shorten("authentication-nonces-"+consumer, 253)
}

// RemoteCertificate names the Secret with the certificate issued for a ResourceSlice of a consumer.
func RemoteCertificate(slice string) string { return shorten("liqo-remote-certificate-"+slice, 253) }

// RemotePodPolicy names the NetworkPolicy that admits remote pods by address. The policy with the given name admits them by labels.
func RemotePodPolicy(policy string) string { return shorten(policy+"-remote-pods", 253) }

// VirtualNodeBinding names the bindings of a virtual kubelet's roles, in the cluster and in each namespace.
func VirtualNodeBinding(virtualNode string) string { return shorten("liqo-node-"+virtualNode, 253) }

// ConfigurationNetwork names the Network for one network of a peer: which is pod or external.
func ConfigurationNetwork(configuration, which, cidr string) string {
	return Join(configuration, which, strings.NewReplacer(".", "-", "/", "-", ":", "-").Replace(cidr))
}

// UnknownSource names the IP of the source address that a peer uses for traffic without a known address.
func UnknownSource(configuration string) string { return Join(configuration, "unknown-source") }

// DefaultTenantNamespace names the tenant namespace of a peer, unless another was created.
func DefaultTenantNamespace(peer string) string { return Join("liqo-tenant", peer) }
