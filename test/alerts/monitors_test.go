// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package alerts

import (
	"os"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"
)

// monitoredJobs returns the jobs that the Prometheus operator makes of the chart's monitors: a PodMonitor's name, and that of the Service of a
// ServiceMonitor. It reads strictly: an API server drops fields that a kind does not have, and Prometheus then scrapes otherwise.
func monitoredJobs(t *testing.T) (jobs []string) {
	t.Helper()
	data, err := os.ReadFile("../../deploy/testdata/monitors.yaml")
	if err != nil {
		t.Fatal(err)
	}
	read := func(document string, into any) {
		if err := yaml.UnmarshalStrict([]byte(document), into); err != nil {
			t.Errorf("%v in\n%s", err, document)
		}
	}
	var services []corev1.Service
	var ofServices []monitoringv1.ServiceMonitor
	for document := range strings.SplitSeq(strings.TrimPrefix(string(data), "---\n"), "\n---\n") {
		switch {
		case strings.Contains(document, "kind: Service\n"):
			service := corev1.Service{}
			read(document, &service)
			services = append(services, service)
		case strings.Contains(document, "kind: ServiceMonitor\n"):
			monitor := monitoringv1.ServiceMonitor{}
			read(document, &monitor)
			ofServices = append(ofServices, monitor)
		default:
			monitor := monitoringv1.PodMonitor{}
			read(document, &monitor)
			jobs = append(jobs, monitor.Namespace+"/"+monitor.Name)
		}
	}
	for _, monitor := range ofServices {
		selector, err := metav1.LabelSelectorAsSelector(&monitor.Spec.Selector)
		if err != nil || monitor.Spec.JobLabel != "" {
			t.Fatalf("label of the job %q, %v", monitor.Spec.JobLabel, err)
		}
		for _, service := range services {
			if selector.Matches(labels.Set(service.Labels)) {
				jobs = append(jobs, service.Name)
			}
		}
	}
	return jobs
}

func TestMonitors(t *testing.T) {
	if jobs := monitoredJobs(t); len(jobs) != 7 {
		t.Errorf("jobs %q, want one of each process with metrics: 7", jobs)
	}
}
