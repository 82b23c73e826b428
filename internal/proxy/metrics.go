// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics count clients and results of requests. They do not identify clients.
type metrics struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec
}

func newMetrics(open func() float64) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "liqo_proxy_requests_total", Help: "Requests of peers to be connected with the API server, by result.",
		}, []string{"result"}),
	}
	for _, result := range []string{resultAccepted, resultMethod, resultMalformed, resultHost, resultUnreachable, resultFull} {
		m.requests.WithLabelValues(result)
	}
	m.registry.MustRegister(m.requests, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "liqo_proxy_connections", Help: "Connections of clients that are open.",
	}, open))
	return m
}

func (m *metrics) countResult(result string) { m.requests.WithLabelValues(result).Inc() }

// Metrics returns the handler of the metrics endpoint.
func (p *Proxy) Metrics() http.Handler {
	return promhttp.HandlerFor(p.metrics.registry, promhttp.HandlerOpts{})
}
