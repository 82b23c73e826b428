// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"context"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
)

// conditionExporter exports the conditions of ForeignClusters at scrape time. An alert about a tunnel needs them: a gateway without a pod exports
// nothing, and nodes do not probe it.
type conditionExporter struct {
	client client.Reader
	desc   *prometheus.Desc
}

func newConditionExporter(c client.Reader) *conditionExporter {
	return &conditionExporter{client: c, desc: prometheus.NewDesc("liqo_peer_condition",
		"1 for the present status of each condition of a ForeignCluster.", []string{"cluster_id", "condition", "status"}, nil)}
}

// Describe is of prometheus.Collector.
func (e *conditionExporter) Describe(out chan<- *prometheus.Desc) { out <- e.desc }

// Collect is of prometheus.Collector.
func (e *conditionExporter) Collect(out chan<- prometheus.Metric) {
	var all liqov1beta1.ForeignClusterList
	if err := e.client.List(context.Background(), &all); err != nil {
		out <- prometheus.NewInvalidMetric(e.desc, err)
		return
	}
	for i := range all.Items {
		fc := &all.Items[i]
		modules, seen := fc.Status.Modules, map[liqov1beta1.ConditionType]bool{}
		for _, c := range slices.Concat(fc.Status.Conditions, modules.Networking.Conditions, modules.Authentication.Conditions, modules.Offloading.Conditions) {
			if !seen[c.Type] { // PeerMisbehaves is of two processes
				seen[c.Type] = true
				out <- prometheus.MustNewConstMetric(e.desc, prometheus.GaugeValue, 1, string(fc.Spec.ClusterID), string(c.Type), string(c.Status))
			}
		}
	}
}
