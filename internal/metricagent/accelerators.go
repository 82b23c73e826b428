// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package metricagent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/kube"
)

// Accelerators configure the exporter of the accelerators of a node, such as DCGM's exporter. The series of the exporter name the pod that uses a
// device.
type Accelerators struct {
	// PodSelector selects the pods of the exporter by their labels; empty for no exporter.
	PodSelector string
	// Port and Path of the metrics, without TLS.
	Port int
	Path string
}

// exporters are the pods with the metrics of accelerators.
type exporters struct {
	options Accelerators
	pods    client.Reader
	// pages are fetched without the token, because the token is for kubelets.
	pages *pageCache
}

// newExporters returns nil if no exporter is configured. Pods of consumers are not taken as exporters: with the labels of an exporter, they could
// invent the metrics of other consumers.
func newExporters(mgr ctrl.Manager, o Accelerators) (*exporters, error) {
	if o.PodSelector == "" {
		return nil, nil
	}
	selector, err := labels.Parse(o.PodSelector)
	if err != nil {
		return nil, fmt.Errorf("reading the selector of the exporter of accelerators: %w", err)
	}
	if o.Port < 1 || o.Port > 65535 || !strings.HasPrefix(o.Path, "/") {
		return nil, errors.New("the exporter of accelerators needs a port, and a path that begins with a slash")
	}
	requirements, _ := withoutConsumers.Requirements()
	pods, err := kube.AddCache(mgr, map[client.Object]cache.ByObject{&corev1.Pod{}: {Label: selector.Add(requirements...), Transform: slimExporter}})
	if err != nil {
		return nil, fmt.Errorf("reading the exporters of accelerators: %w", err)
	}
	if _, err := pods.GetInformer(context.Background(), &corev1.Pod{}); err != nil {
		return nil, fmt.Errorf("reading the exporters of accelerators: %w", err)
	}
	plain := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return &exporters{options: o, pods: pods, pages: newPageCache(plain, scrapeInterval)}, nil
}

func slimExporter(obj any) (any, error) {
	if pod, ok := obj.(*corev1.Pod); ok {
		status := corev1.PodStatus{PodIP: pod.Status.PodIP, Conditions: pod.Status.Conditions}
		slim, err := slimPod(pod)
		slim.(*corev1.Pod).Status = status
		return slim, err
	}
	return obj, nil
}

// findSources returns the ready exporters on the nodes.
func (e *exporters) findSources(ctx context.Context, nodes map[string]bool) ([]source, error) {
	var pods corev1.PodList
	if err := e.pods.List(ctx, &pods); err != nil {
		return nil, fmt.Errorf("listing the exporters of accelerators: %w", err)
	}
	var out []source
	for i := range pods.Items {
		pod := &pods.Items[i]
		ready := slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		})
		if ready && nodes[pod.Spec.NodeName] {
			out = append(out, source{
				name: pod.Spec.NodeName, url: "http://" + net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(e.options.Port)) + e.options.Path,
			})
		}
	}
	return out, nil
}
