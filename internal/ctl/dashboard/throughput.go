// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/fleet"
	"liqo.io/liqo/internal/ctl/podpage"
	"liqo.io/liqo/internal/exposition"
	"liqo.io/liqo/internal/names"
)

// The counters of all gateways are read at most once in measurePause, while a page is open. The first rate is measured over firstPause.
const (
	measurePause = 10 * time.Second
	firstPause   = time.Second
)

// Limits of one reading: gateways beyond maxGateways have no rate, nor do gateways that do not answer in time.
const (
	maxGateways   = 64
	parallelPages = 8
	pageTime      = 5 * time.Second
	readingTime   = 15 * time.Second
)

// throughputMeter measures the throughput of tunnels by the counters in the metrics of the active gateways.
type throughputMeter struct {
	pages     *podpage.Reader
	client    client.Reader
	clients   kubernetes.Interface
	namespace string

	// These fields belong to the measuring goroutine.
	token   string
	expiry  time.Time
	last    map[types.UID]counters
	started time.Time

	mu      sync.Mutex
	rates   map[client.ObjectKey]fleet.Throughput
	problem string
}

// counters are the counts of a gateway until a time.
type counters struct {
	at             time.Time
	received, sent float64
	// loss is the lost part of the last probes, negative if unknown.
	loss float64
}

func newThroughputMeter(g *gatherer) (*throughputMeter, error) {
	clients, err := kubernetes.NewForConfig(g.Config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return &throughputMeter{pages: podpage.NewReader(g.Config, clients), client: g.Client, clients: clients, namespace: g.namespace}, nil
}

// addTo adds the last rates, and why some are missing, to facts.
func (m *throughputMeter) addTo(f *fleet.Facts) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f.Throughput, f.ThroughputProblem = m.rates, m.problem
}

// runMeter measures while a page is open, until the end of ctx. measured is called after each measurement.
func (m *throughputMeter) runMeter(ctx context.Context, isOpen func() bool, measured func()) {
	ticks := time.NewTicker(firstPause)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticks.C:
			switch {
			case !isOpen():
				m.last = nil // the mean since then would say nothing about now
				continue
			case now.Sub(m.started) < measurePause:
				continue
			}
			m.measureRates(ctx)
			measured()
		}
	}
}

// measureRates reads the counters: twice if they were never read.
func (m *throughputMeter) measureRates(ctx context.Context) {
	m.started = time.Now()
	if m.last == nil {
		if m.readCounters(ctx); len(m.last) == 0 {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(firstPause):
		}
	}
	m.readCounters(ctx)
}

// readCounters reads the counters of all gateways, and publishes the rates since they were read before.
func (m *throughputMeter) readCounters(ctx context.Context) {
	rates, next := map[client.ObjectKey]fleet.Throughput{}, map[types.UID]counters{}
	problem := m.readGateways(ctx, func(tunnel client.ObjectKey, pod types.UID, now counters) {
		next[pod] = now
		before, known := m.last[pod]
		if seconds := now.at.Sub(before.at).Seconds(); known && seconds > 0 && now.received >= before.received && now.sent >= before.sent { // else it was restarted
			rates[tunnel] = fleet.Throughput{
				Received: int64(8 * (now.received - before.received) / seconds), Sent: int64(8 * (now.sent - before.sent) / seconds), Loss: now.lossPercent(),
			}
		}
	})
	m.last = next
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rates, m.problem = rates, problem
}

// readGateways calls take, never concurrently, for each active gateway that answers. It returns why gateways are missing.
func (m *throughputMeter) readGateways(ctx context.Context, take func(tunnel client.ObjectKey, pod types.UID, now counters)) (problem string) {
	ctx, cancel := context.WithTimeout(ctx, readingTime)
	defer cancel()
	pods, err := m.findGateways(ctx)
	if err != nil {
		return cluster.DescribeError(err)
	}
	if len(pods) == 0 {
		return ""
	}
	if err := m.renewToken(ctx); err != nil {
		return cluster.DescribeError(err)
	}
	var mu sync.Mutex
	var failed []string
	var all errgroup.Group
	all.SetLimit(parallelPages)
	for i := range pods {
		all.Go(func() error {
			now, err := m.readGateway(ctx, pods[i].pod)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed = append(failed, fmt.Sprintf("gateway %s/%s: %s", pods[i].pod.Namespace, pods[i].pod.Name, cluster.DescribeError(err)))
				return nil
			}
			take(pods[i].tunnel, pods[i].pod.UID, now)
			return nil
		})
	}
	_ = all.Wait()
	switch len(failed) {
	case 0:
		return ""
	case 1:
		return failed[0]
	}
	return fmt.Sprintf("%d gateways, such as %s", len(failed), failed[0])
}

// gatewayPod is the active pod of the gateway of a Connection.
type gatewayPod struct {
	tunnel client.ObjectKey
	pod    *corev1.Pod
}

// findGateways returns the running active gateways of Connections.
func (m *throughputMeter) findGateways(ctx context.Context) (out []gatewayPod, err error) {
	var connections networkingv1beta1.ConnectionList
	if err := m.client.List(ctx, &connections); err != nil {
		return nil, fmt.Errorf("listing Connections: %w", err)
	}
	var pods corev1.PodList
	if err := m.client.List(ctx, &pods, client.MatchingLabels{names.NetworkingComponent: names.ComponentGateway, names.GatewayActive: "true"}); err != nil {
		return nil, fmt.Errorf("listing pods of gateways: %w", err)
	}
	active := map[client.ObjectKey]*corev1.Pod{}
	for i := range pods.Items {
		pod := &pods.Items[i]
		foreign := pod.Labels[names.ManagedBy] == names.ManagedByShadowPod || pod.Labels[names.ShadowPod] != ""
		if !foreign && pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp.IsZero() {
			active[client.ObjectKey{Namespace: pod.Namespace, Name: pod.Labels[names.GatewayName]}] = pod
		}
	}
	for i := range connections.Items {
		c := &connections.Items[i]
		if pod := active[client.ObjectKey{Namespace: c.Namespace, Name: names.GatewayLabel(c.Spec.GatewayRef.Name)}]; pod != nil && len(out) < maxGateways {
			out = append(out, gatewayPod{client.ObjectKeyFromObject(c), pod})
		}
	}
	return out, nil
}

// renewToken requests a token for this measurement, unless the last token is valid.
func (m *throughputMeter) renewToken(ctx context.Context) (err error) {
	now := time.Now()
	if now.Before(m.expiry) {
		return nil
	}
	if m.token, err = podpage.RequestToken(ctx, m.clients, m.namespace); err == nil {
		m.expiry = now.Add(podpage.TokenLifetime / 2)
	}
	return err
}

// readGateway reads the counters of a gateway.
func (m *throughputMeter) readGateway(ctx context.Context, pod *corev1.Pod) (counters, error) {
	port := podpage.MetricsPort(pod)
	if port == 0 {
		return counters{}, errors.New("it has no port for metrics: it is of an older version, or its template has none")
	}
	ctx, cancel := context.WithTimeout(ctx, pageTime)
	defer cancel()
	page, err := m.pages.ReadPage(ctx, pod, port, "/metrics", m.token)
	if err != nil {
		return counters{}, err
	}
	return parseCounters(page, time.Now())
}

// lossPercent returns the loss with one decimal, nil if unknown.
func (c counters) lossPercent() *float64 {
	if c.loss < 0 {
		return nil
	}
	return new(math.Round(1000*c.loss) / 10)
}

// parseCounters returns the counters of a page of metrics. Gateways of older versions say no loss.
func parseCounters(page string, now time.Time) (counters, error) {
	c := counters{at: now, loss: -1}
	found := map[string]*float64{names.ReceivedBytesMetric: &c.received, names.SentBytesMetric: &c.sent}
	lines := exposition.NewReader(strings.NewReader(page))
	for {
		sample, err := lines.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return c, fmt.Errorf("reading its metrics: %w", err)
		}
		name := string(sample.Name())
		if to := found[name]; to != nil {
			if *to, err = sample.Value(); err != nil {
				return c, fmt.Errorf("reading its metrics: %w", err)
			}
			delete(found, name)
		}
		if name == names.ProbeLossMetric { // a sample for each size
			loss, err := sample.Value()
			if err != nil {
				return c, fmt.Errorf("reading its metrics: %w", err)
			}
			c.loss = max(c.loss, loss)
		}
	}
	if len(found) > 0 {
		return c, errors.New("its metrics have no bytes of the tunnel")
	}
	return c, nil
}
