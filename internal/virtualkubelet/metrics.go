// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"liqo.io/liqo/internal/multicluster"
)

// The metrics that dashboards of the original use. Those of the engine say more, by kind and peer.
var (
	reflectionLabels = []string{"namespace", "reflector_resource", "cluster_id", "node_name"}

	reflectedItems = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "liqo_virtual_kubelet_reflection_item_counter", Help: "Items that were handled without an error.",
	}, reflectionLabels)
	reflectionErrors = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "liqo_virtual_kubelet_reflection_error_counter", Help: "Failed attempts, or attempts to be retried later.",
	}, reflectionLabels)
)

func init() { metrics.Registry.MustRegister(reflectedItems, reflectionErrors) }

// reflectorResources are the kinds of objects by the names of the engine.
var reflectorResources = map[string]string{
	podsKind: podKindName, "services": "Service", slicesKind: sliceKindName, "ingresses": "Ingress", "configmaps": "ConfigMap",
	"secrets": "Secret", eventsKind: "Event",
}

// countItem counts a reconciled item.
func (p *process) countItem(pair multicluster.Pair, kind string, err error) {
	resource, ok := reflectorResources[kind]
	if !ok {
		resource = kind
	}
	labels := []string{pair.Local, resource, string(p.options.Provider), p.options.Node}
	if err != nil {
		reflectionErrors.WithLabelValues(labels...).Inc()
		return
	}
	reflectedItems.WithLabelValues(labels...).Inc()
}
