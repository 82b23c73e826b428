// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package fleet sums up the peers, nodes and offloaded namespaces of a cluster: facts in, one document out. The package reads no cluster.
package fleet

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/liqo/internal/ctl/diagnose"
)

// Format is the version of the document. Fields may be added within a version, and none is renamed, removed or given another meaning.
const Format = 1

// Document is the output of "liqoctl fleet -o json". Lists are sorted and never null.
type Document struct {
	Format int `json:"format"`
	// Time is the time of the API server.
	Time         time.Time     `json:"time"`
	Cluster      Cluster       `json:"cluster"`
	Peers        []Peer        `json:"peers"`
	Tunnels      []Tunnel      `json:"tunnels"`
	Slices       []Slice       `json:"slices"`
	VirtualNodes []VirtualNode `json:"virtualNodes"`
	Namespaces   []Namespace   `json:"namespaces"`
	Pods         []Pod         `json:"pods"`
	Certificates []Certificate `json:"certificates"`
	// Events are the newest first.
	Events []Event `json:"events"`
	// Check is the document of "liqoctl check".
	Check *diagnose.Report `json:"check"`
	// Unreadable are the reasons why kinds could not be listed, by kind. The parts made from these kinds are missing above. Throughput is among the
	// kinds.
	Unreadable map[string]string `json:"unreadable"`
}

// Cluster is the local cluster.
type Cluster struct {
	ID         string `json:"id"`
	Version    string `json:"version"`
	Kubernetes string `json:"kubernetes"`
}

// Phases of a peer.
const (
	// PhasePending is the phase of a peer without a module in use.
	PhasePending = "Pending"
	// PhaseHealthy is the phase of a peer whose modules in use are healthy.
	PhaseHealthy = diagnose.Healthy
	// PhaseUnhealthy is the phase of a peer with an alert.
	PhaseUnhealthy = diagnose.Unhealthy
)

// Peer is another cluster.
type Peer struct {
	ID    string `json:"id"`
	Role  string `json:"role"`
	Phase string `json:"phase"`
	// Version of Liqo in the peer, if known.
	Version string  `json:"version,omitempty"`
	Modules Modules `json:"modules"`
	// Alerts are why the peer is unhealthy.
	Alerts []string `json:"alerts"`
}

// Modules are the status of each module: Healthy, Unhealthy or Disabled.
type Modules struct {
	Networking     string `json:"networking"`
	Authentication string `json:"authentication"`
	Offloading     string `json:"offloading"`
}

// Tunnel is a Connection.
type Tunnel struct {
	Peer      string `json:"peer"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// End is the local end: Server or Client.
	End string `json:"end"`
	// State is Connected, Connecting or Error.
	State string `json:"state"`
	// LatencyMilliseconds is the last measured round trip.
	LatencyMilliseconds *float64 `json:"latencyMilliseconds,omitempty"`
	// Lost is the kind of lost packets: All or Large.
	Lost string `json:"lost,omitempty"`
	// FailedNodes are nodes whose pods do not reach the peer although the tunnel is up, ten at most.
	FailedNodes []string `json:"failedNodes,omitempty"`
	MTU         int      `json:"mtu,omitempty"`
	// ReceivedBitsPerSecond came from the peer, and SentBitsPerSecond went to the peer, encrypted; missing if the gateway did not report them.
	ReceivedBitsPerSecond *int64 `json:"receivedBitsPerSecond,omitempty"`
	SentBitsPerSecond     *int64 `json:"sentBitsPerSecond,omitempty"`
	// LossPercent is the lost percentage of the last 60 probes, of the size with more losses.
	LossPercent *float64 `json:"lossPercent,omitempty"`
}

// Slice is a ResourceSlice.
type Slice struct {
	Peer      string `json:"peer"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Action is Consuming or Providing.
	Action   string   `json:"action"`
	Class    string   `json:"class"`
	Accepted bool     `json:"accepted"`
	Alerts   []string `json:"alerts"`
	// Used are the requests of the pods of the slice.
	Asked   corev1.ResourceList `json:"asked"`
	Granted corev1.ResourceList `json:"granted"`
	Used    corev1.ResourceList `json:"used"`
}

// VirtualNode is a VirtualNode with its Node.
type VirtualNode struct {
	Name  string `json:"name"`
	Peer  string `json:"peer"`
	Slice string `json:"slice,omitempty"`
	// Status is Healthy or Unhealthy.
	Status string `json:"status"`
	// Cordoned is true if the Node takes no new pods.
	Cordoned bool                `json:"cordoned"`
	Pods     int                 `json:"pods"`
	Capacity corev1.ResourceList `json:"capacity"`
	Used     corev1.ResourceList `json:"used"`
}

// Namespace is an offloaded namespace.
type Namespace struct {
	Name       string `json:"name"`
	RemoteName string `json:"remoteName,omitempty"`
	Strategy   string `json:"strategy"`
	Phase      string `json:"phase"`
	// Providers are the clusters with a remote namespace, and the clusters that refuse a remote namespace.
	Providers []Provider `json:"providers"`
	// MisplacedPods is the number of pods older than the offloading that only the user can move.
	MisplacedPods int `json:"misplacedPods,omitempty"`
}

// Provider is the state of a remote namespace.
type Provider struct {
	ID    string `json:"id"`
	Ready bool   `json:"ready"`
	// Alerts are why the namespace is not ready, or the protections that do not apply.
	Alerts []string `json:"alerts"`
}

// Pod is a pod of an offloaded namespace, a pod on a virtual node, or a pod of a consumer.
type Pod struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Phase     string `json:"phase"`
	Ready     bool   `json:"ready"`
	// Cluster is where the pod runs, "" while it waits for a node.
	Cluster string `json:"cluster,omitempty"`
	Node    string `json:"node,omitempty"`
	// Consumer is the cluster to which a pod in this cluster belongs, "" for pods of this cluster.
	Consumer string `json:"consumer,omitempty"`
	// Reason is why the pod is not ready.
	Reason string `json:"reason,omitempty"`
}

// Certificate is a client certificate of a peering, or the authority of the webhook.
type Certificate struct {
	// Object is the Identity, Tenant, ResourceSlice or MutatingWebhookConfiguration with the certificate.
	Object string `json:"object"`
	// Peer is "" for the webhook.
	Peer string `json:"peer"`
	// Issuer is the cluster that issued the certificate. Certificates of peerings are for the API server of the issuer.
	Issuer    string    `json:"issuer"`
	NotBefore time.Time `json:"notBefore"`
	NotAfter  time.Time `json:"notAfter"`
}

// Event is an event of an object of Liqo, or a warning about a pod of an offloaded namespace.
type Event struct {
	Time    time.Time `json:"time"`
	Type    string    `json:"type"`
	Object  string    `json:"object"`
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
	Count   int       `json:"count"`
}
