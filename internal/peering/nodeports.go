// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/policy"
)

// ciliumConfig is the ConfigMap with the settings of Cilium.
var ciliumConfig = client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: "cilium-config"}

// nodePortsTTL is the time to live of what was detected.
const nodePortsTTL = 5 * time.Minute

// lostNodePorts is the event of a peer in whose pods NodePorts of this cluster do not end.
var lostNodePorts = kube.Event{
	Type: corev1.EventTypeWarning, Reason: "NodePortsLost",
	Message: "Cilium replaces kube-proxy: requests from outside of this cluster to a NodePort or load balancer are lost where the endpoint is a pod of this peer. " +
		"Let clients ask a pod of this cluster, such as an ingress, or run kube-proxy and, once it is ready, set kubeProxyReplacement=false",
}

// nodePorts detects whether the CNI plugin loses requests from outside to NodePorts with endpoints in peers.
type nodePorts struct {
	live client.Reader

	mu   sync.Mutex
	at   time.Time
	lost bool
}

// areLost reports whether such requests are lost. After an error the last result counts.
func (n *nodePorts) areLost(ctx context.Context) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if time.Since(n.at) < nodePortsTTL {
		return n.lost
	}
	config := &corev1.ConfigMap{}
	if err := client.IgnoreNotFound(n.live.Get(ctx, ciliumConfig, config)); err != nil {
		log.FromContext(ctx).V(1).Info("the settings of Cilium were not read", "reason", err.Error())
		return n.lost
	}
	n.at, n.lost = time.Now(), policy.ReplacesKubeProxy(config.Data)
	return n.lost
}
