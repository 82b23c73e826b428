// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"errors"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"liqo.io/liqo/internal/multicluster"
)

func TestReflectionMetrics(t *testing.T) {
	p := &process{options: Options{Provider: "milan", Node: "metrics-node"}}
	pair := multicluster.Pair{Local: "web", Remote: "web-rome"}
	p.countItem(pair, podsKind, nil)
	p.countItem(pair, podsKind, nil)
	p.countItem(pair, "secrets", errors.New("no"))
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			labels := ""
			for _, l := range m.GetLabel() {
				labels += " " + l.GetName() + "=" + l.GetValue()
			}
			if strings.Contains(labels, "metrics-node") {
				got[family.GetName()+labels] = m.GetCounter().GetValue()
			}
		}
	}
	for series, want := range map[string]float64{
		"liqo_virtual_kubelet_reflection_item_counter cluster_id=milan namespace=web node_name=metrics-node reflector_resource=Pod":     2,
		"liqo_virtual_kubelet_reflection_error_counter cluster_id=milan namespace=web node_name=metrics-node reflector_resource=Secret": 1,
	} {
		if got[series] != want {
			t.Errorf("%s is %v; there are %v", series, got[series], got)
		}
	}
}
