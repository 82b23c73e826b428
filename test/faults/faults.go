// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package faults has the list of faults that tests inject into clusters, with the object and the remedy that a command has to name for each.
package faults

// Fault is one fault. The tests of its command inject it.
type Fault struct {
	// Name is what is wrong, for users.
	Name string
	// Command is the one that names it: check, explain with a kind, or trace.
	Command string
	// Object is the kind of the object that is named.
	Object string
	// Remedy is a part of the remedy.
	Remedy string
	// Page is the part of the documentation, below docs.
	Page string
}

// All is the list, which docs/troubleshooting.md shows.
var All = []Fault{
	{"refused credentials", "check", "ForeignCluster", "liqoctl authenticate", "troubleshooting.md#refusedbypeer"},
	{"silent API server", "check", "ForeignCluster", "API server of the peer", "troubleshooting.md#apiservernotready"},
	{"distant version", "check", "ForeignCluster", "upgrade the peer", "troubleshooting.md#peertooold"},
	{"unusable kubeconfig", "check", "ForeignCluster", "liqoctl authenticate", "troubleshooting.md#invalidkubeconfig"},
	{"ended certificate", "check", "ForeignCluster", "liqoctl authenticate", "troubleshooting.md#certificateexpired"},
	{"wrong signature", "check", "Tenant", "liqoctl authenticate", "troubleshooting.md#signatureverificationfailed"},
	{"second Tenant of a cluster", "check", "Tenant", "delete the younger", "troubleshooting.md#notunique"},
	{"drained Tenant", "check", "ResourceSlice", "liqoctl activate tenant", "troubleshooting.md#tenantdrained"},
	{"old certificate", "check", "Identity", "API server of milan", "troubleshooting.md#the-certificate-of-an-identity-ended-or-was-not-renewed"},
	{"slices without Tenant", "check", "Tenant", "liqoctl force unpeer", "troubleshooting.md#the-consumer-has-no-tenant-and-still-has-resourceslices-here"},
	{"webhook without authority", "check", "MutatingWebhookConfiguration", "log", "troubleshooting.md#no-valid-authority-in-each-cabundle"},
	{"webhook without pods", "check", "Service", "pods", "troubleshooting.md#the-webhook-does-not-answer"},
	{"binding without subjects", "check", "ServiceAccount", "liqoctl install", "troubleshooting.md#a-binding-of-liqos-rights-is-missing"},
	{"dead leader", "check", "Lease", "log", "troubleshooting.md#begin-here"},
	{"range with a node", "check", "Network", "--reserved-subnets", "troubleshooting.md#networkintheway"},
	{"node of a lost VirtualNode", "check", "Node", "kubectl delete node", "troubleshooting.md#a-virtualnode-stays-although-it-is-deleted"},
	{"the namespace of a pod on a virtual node is not offloaded", "explain pod", "Namespace", "liqoctl offload namespace", "troubleshooting.md#offloadingbackoff"},
	{"the provider has a namespace of that name", "explain namespace", "NamespaceMap", "another name", "troubleshooting.md#namespaceexists"},
	{"the selector matches no virtual node", "explain namespace", "NamespaceOffloading", "--selector", "troubleshooting.md#clusternotselected"},
	{"the virtual kubelet crashes", "explain node", "Pod", "log", "troubleshooting.md#the-node-is-not-there-or-not-ready"},
	{"the provider denies the ResourceSlice", "explain node", "ResourceSlice", "Tenant", "troubleshooting.md#a-slice-is-not-accepted"},
	{"the provider refuses the credentials", "explain node", "ForeignCluster", "liqoctl authenticate", "troubleshooting.md#refusedbypeer"},
	{"the tunnel is down, and a pod is Pending", "explain pod", "Connection", "UDP", "troubleshooting.md#connectionerror"},
	{"too little is free on the virtual node", "explain pod", "Node", "liqoctl create resourceslice", "troubleshooting.md#failedscheduling-insufficient-resources"},
	{"the strategy came after the pod", "explain pod", "Pod", "delete it", "troubleshooting.md#misplaced"},
	{"the Quota in the provider is used up", "explain pod", "Pod", "liqoctl create resourceslice", "troubleshooting.md#quota-usage-exceeded"},
	{"the ResourceSlice is cordoned in the provider", "explain pod", "ResourceSlice", "liqoctl uncordon", "troubleshooting.md#user-is-cordoned"},
	{"admission of the provider refuses the pod", "explain pod", "ShadowPod", "ResourceQuota", "troubleshooting.md#failedcreatepod"},
	{"no node of the provider fits", "explain pod", "Pod", "provider", "troubleshooting.md#remoteunschedulable"},
	{"the provider does not get the image", "explain pod", "Pod", "imagePullSecret", "troubleshooting.md#remoteimagefailed"},
	{"an annotation keeps the Service here", "explain service", "Service", "kubectl annotate", "troubleshooting.md#reflectiondisabled"},
	{"no pod of the Service is ready", "explain service", "Pod", "liqoctl explain pod", "troubleshooting.md#a-pod-is-pending"},
	{"endpoints of the Service are no pods", "explain service", "EndpointSlice", "IP", "troubleshooting.md#endpointsnotreflected"},
	{"the provider makes no endpoints", "explain service", "ShadowEndpointSlice", "Configuration", "troubleshooting.md#endpoints-of-a-consumer-are-not-ready"},
	{"the DNS of the provider is down", "explain service", "Pod", "kubectl describe", "services.md"},
	{"the pod that sends does not run", "trace", "Pod", "kubectl describe", "troubleshooting.md#a-pod-is-pending"},
	{"the node has no address for peers", "trace", "InternalNode", "external CIDR", "troubleshooting.md#a-network-an-ip-or-an-internalnode-is-given-nothing"},
	{"the fabric of a node does not run", "trace", "Pod", "log", "troubleshooting.md#connected-and-pods-of-one-node-do-not-reach-the-peer"},
	{"packets between a node and the gateway get lost", "trace", "InternalNode", "UDP 6091", "troubleshooting.md#connected-and-pods-of-one-node-do-not-reach-the-peer"},
	{"the Configuration is gone", "trace", "ForeignCluster", "liqoctl network init", "troubleshooting.md#a-configuration-is-not-ready"},
	{"the local prefix of a peer overlaps another one", "trace", "Configuration", "another prefix", "troubleshooting.md#networkintheway"},
	{"a gateway has no template", "trace", "GatewayClient", "pods of the gateway", "troubleshooting.md#a-gateway-is-not-ready"},
	{"two gateways are for one peer", "trace", "GatewayServer", "delete one", "troubleshooting.md#anothergateway"},
	{"the key of the peer is missing", "trace", "GatewayClient", "liqoctl network connect", "troubleshooting.md#a-connection-is-not-connected"},
	{"no packet passes the tunnel", "trace", "Connection", "UDP", "troubleshooting.md#connectionerror"},
	{"large packets are lost in the tunnel", "trace", "Connection", "MTU", "troubleshooting.md#error-with-statuslost-large"},
	{"the gateway of the provider is not ready", "trace", "GatewayClient", "pods of the gateway", "troubleshooting.md#a-gateway-is-not-ready"},
	{"the ranges of the consumer have no prefix in the provider", "trace", "Configuration", "Networks", "troubleshooting.md#a-configuration-is-not-ready"},
	{"the fabric of a node of the provider does not run", "trace", "Pod", "log", "troubleshooting.md#connected-and-pods-of-one-node-do-not-reach-the-peer"},
	{"peers may not reach the pod", "trace", "Pod", "reachable-from-peers", "network-reach.md#what-a-peer-reaches"},
	{"the pod that receives does not run", "trace", "Pod", "kubectl describe", "troubleshooting.md#a-pod-is-pending"},
	{"the Service has no ready endpoint", "trace", "Service", "liqoctl explain", "services.md"},
	{"the address is no peer's", "trace", "address", "IP", "network-reach.md#show-a-host-or-a-node-to-peers"},
}
