// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/policy"
)

const (
	// nodePortsTTL is the time to live of a result, nodePortsRetry of an error, and nodePortsTimeout bounds the detection, because all wait.
	nodePortsTTL     = 5 * time.Minute
	nodePortsRetry   = 30 * time.Second
	nodePortsTimeout = 5 * time.Second
)

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
	next time.Time // of a detection
	lost bool
}

// areLost reports whether such requests are lost. After an error the last result counts.
func (n *nodePorts) areLost(ctx context.Context) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if time.Now().Before(n.next) {
		return n.lost
	}
	limited, cancel := context.WithTimeout(ctx, nodePortsTimeout)
	defer cancel()
	lost, err := n.detectCilium(limited)
	if err != nil {
		log.FromContext(ctx).V(1).Info("the settings of Cilium were not read", "reason", err.Error())
		n.next = time.Now().Add(nodePortsRetry)
		return n.lost
	}
	n.next, n.lost = time.Now().Add(nodePortsTTL), lost
	return lost
}

// detectCilium reads the settings of Cilium, if it runs.
func (n *nodePorts) detectCilium(ctx context.Context) (bool, error) {
	var daemons appsv1.DaemonSetList
	if err := n.live.List(ctx, &daemons, client.MatchingFields{"metadata.name": policy.CiliumDaemonSet}); err != nil {
		return false, fmt.Errorf("listing DaemonSets: %w", err)
	}
	if len(daemons.Items) == 0 {
		return false, nil
	}
	var configs corev1.ConfigMapList
	if err := n.live.List(ctx, &configs, client.MatchingFields{"metadata.name": policy.CiliumConfig}); err != nil {
		return false, fmt.Errorf("listing ConfigMaps: %w", err)
	}
	return slices.ContainsFunc(policy.CiliumSettings(daemons.Items, configs.Items), func(c corev1.ConfigMap) bool { return policy.ReplacesKubeProxy(c.Data) }), nil
}
