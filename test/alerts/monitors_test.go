// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package alerts

import (
	"os"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"sigs.k8s.io/yaml"
)

// TestMonitors reads the monitors of the chart strictly: an API server drops fields that a kind does not have, and Prometheus then scrapes otherwise.
func TestMonitors(t *testing.T) {
	data, err := os.ReadFile("../../deploy/testdata/monitors.yaml")
	if err != nil {
		t.Fatal(err)
	}
	documents := strings.Split(strings.TrimPrefix(string(data), "---\n"), "\n---\n")
	if len(documents) != 7 {
		t.Errorf("%d monitors, want one of each process with metrics: 7", len(documents))
	}
	for _, document := range documents {
		var monitor any = &monitoringv1.PodMonitor{}
		if strings.Contains(document, "kind: ServiceMonitor\n") {
			monitor = &monitoringv1.ServiceMonitor{}
		}
		if err := yaml.UnmarshalStrict([]byte(document), monitor); err != nil {
			t.Errorf("%v in\n%s", err, document)
		}
	}
}
