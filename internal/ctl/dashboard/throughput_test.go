// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/ctl/check"
	"liqo.io/liqo/internal/ctl/fleet"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/testkit"
)

// servedGateway serves the metrics of a gateway as its process does, and has the pods and Connections of gateways beside it.
type servedGateway struct {
	c              *testkit.ControlPlane
	liqo, tenant   string
	address        string
	received, sent prometheus.Counter
	loss           prometheus.Gauge
}

func newServedGateway(t *testing.T) *servedGateway {
	t.Helper()
	c := testkit.Cluster(t)
	g := &servedGateway{c: c, liqo: testkit.Namespace(t, c, "liqo", nil), tenant: testkit.Namespace(t, c, "tenant", nil), address: "127.0.0.1:" + strconv.Itoa(testkit.Port(t))}
	labels := prometheus.Labels{"driver": "wireguard", "cluster_id": "milan"}
	g.received = prometheus.NewCounter(prometheus.CounterOpts{Name: names.ReceivedBytesMetric, ConstLabels: labels})
	g.sent = prometheus.NewCounter(prometheus.CounterOpts{Name: names.SentBytesMetric, ConstLabels: labels})
	g.loss = prometheus.NewGauge(prometheus.GaugeOpts{Name: names.ProbeLossMetric, ConstLabels: labels})
	for _, counter := range []prometheus.Collector{g.received, g.sent, g.loss} {
		metrics.Registry.MustRegister(counter)
		t.Cleanup(func() { metrics.Registry.Unregister(counter) })
	}
	testkit.Manager(t, c.Config, kube.ManagerOptions{Name: "gateway", MetricsAddress: g.address}, func(ctrl.Manager) error { return nil })
	testkit.Create(t, c.Client, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: g.liqo, Name: names.Diagnostics}})
	testkit.Allow(t, c, "", "system:serviceaccount:"+g.liqo+":"+names.Diagnostics, rbacv1.PolicyRule{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}})
	g.addGateway(t, "milan", map[string]string{names.GatewayActive: "true"}, "gw-metrics")
	g.addPod(t, "milan-standby", "milan", nil, "gw-metrics")
	g.addPod(t, "milan-offloaded", "milan", map[string]string{names.GatewayActive: "true", names.ShadowPod: "true"}, "gw-metrics")
	return g
}

// addGateway creates the Connection of a gateway, and its pod.
func (g *servedGateway) addGateway(t *testing.T, name string, labels map[string]string, port string) {
	t.Helper()
	testkit.Create(t, g.c.Client, &networkingv1beta1.Connection{
		ObjectMeta: metav1.ObjectMeta{Namespace: g.tenant, Name: names.Gateway(name)},
		Spec:       networkingv1beta1.ConnectionSpec{Type: networkingv1beta1.ConnectionTypeClient, GatewayRef: corev1.ObjectReference{Namespace: g.tenant, Name: name}},
	})
	g.addPod(t, name, name, labels, port)
}

func (g *servedGateway) addPod(t *testing.T, name, gateway string, labels map[string]string, port string) {
	t.Helper()
	all := map[string]string{names.NetworkingComponent: names.ComponentGateway, names.GatewayName: names.GatewayLabel(gateway)}
	for key, value := range labels {
		all[key] = value
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: g.tenant, Name: name, Labels: all}, Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "gateway", Image: "x", Ports: []corev1.ContainerPort{{Name: port, ContainerPort: 8082}}}},
	}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	if err := addWithStatus(t.Context(), g.c.Client, pod); err != nil {
		t.Fatal(err)
	}
}

// newMeter returns a meter of a user that reaches the served gateway.
func (g *servedGateway) newMeter(t *testing.T, user *rest.Config) *throughputMeter {
	t.Helper()
	m, err := newThroughputMeter(g.newGatherer(t, user))
	if err != nil {
		t.Fatal(err)
	}
	m.pages.Dial = func(ctx context.Context, pod *corev1.Pod, port int32) (net.Conn, error) {
		if pod.Name != "milan" || port != 8082 {
			return nil, fmt.Errorf("the port %d of %s is forwarded", port, pod.Name)
		}
		return (&net.Dialer{}).DialContext(ctx, "tcp", g.address)
	}
	return m
}

// newGatherer returns that of a user.
func (g *servedGateway) newGatherer(t *testing.T, user *rest.Config) *gatherer {
	t.Helper()
	from, err := check.NewGatherer(t.Context(), (&town{c: g.c, liqo: g.liqo}).session(t, user, newLines()), g.liqo)
	if err != nil {
		t.Fatal(err)
	}
	return &gatherer{from, g.liqo}
}

// TestThroughput has the metrics of a gateway behind TLS, read with the token of a ServiceAccount.
func TestThroughput(t *testing.T) {
	g := newServedGateway(t)
	m := g.newMeter(t, g.c.Config)
	tunnel := client.ObjectKey{Namespace: g.tenant, Name: names.Gateway("milan")}
	measured := func() *fleet.Facts {
		facts := &fleet.Facts{}
		m.addTo(facts)
		return facts
	}
	testkit.Eventually(t, 3*time.Minute, func() error { // the API server learns of rights by watches of its own
		m.last = nil
		m.measureRates(t.Context())
		if got := measured(); got.ThroughputProblem != "" || len(got.Throughput) != 1 {
			return fmt.Errorf("measured %+v, %s", got.Throughput, got.ThroughputProblem)
		}
		return nil
	})
	if diff := cmp.Diff(map[client.ObjectKey]fleet.Throughput{tunnel: {Loss: new(0.0)}}, measured().Throughput); diff != "" {
		t.Errorf("without packets (-want +got):\n%s", diff)
	}

	// A second ago these counters were lower.
	g.received.Add(2_500_000)
	g.sent.Add(1_000_000)
	g.loss.Set(0.0667)
	for uid, counted := range m.last {
		counted.at = time.Now().Add(-time.Second)
		m.last[uid] = counted
	}
	m.measureRates(t.Context())
	rate := measured().Throughput[tunnel]
	if rate.Received <= 0 || rate.Received > 20_000_000 || rate.Sent <= 0 || rate.Sent > 8_000_000 || float64(rate.Received)/float64(rate.Sent) < 2.4 || float64(rate.Received)/float64(rate.Sent) > 2.6 {
		t.Errorf("the rate is %+v", rate)
	}
	if rate.Loss == nil || *rate.Loss != 6.7 {
		t.Errorf("the loss is %v", rate.Loss)
	}

	// A gateway without metrics has no rate, and the other one keeps its own.
	g.addGateway(t, "turin", map[string]string{names.GatewayActive: "true"}, "healthz")
	m.measureRates(t.Context())
	if got := measured(); len(got.Throughput) != 1 || got.ThroughputProblem != "gateway "+g.tenant+"/turin: it has no port for metrics: it is of an older version, or its template has none" {
		t.Errorf("measured %+v, %s", got.Throughput, got.ThroughputProblem)
	}

	// The counters of a process that was restarted begin again.
	for uid := range m.last {
		m.last[uid] = counters{at: time.Now().Add(-time.Second), received: 1e12}
	}
	m.measureRates(t.Context())
	if got := measured().Throughput; len(got) != 0 {
		t.Errorf("measured %+v across a restart", got)
	}
}

// TestThroughputForbidden has a user who may list gateways, and no more.
func TestThroughputForbidden(t *testing.T) {
	g := newServedGateway(t)
	name := "reader-of-" + g.liqo
	user := g.c.User(t, name)
	testkit.Allow(t, g.c, "", name, testkit.Rule("", "pods", "list"), testkit.Rule(networkingv1beta1.GroupVersion.Group, "connections", "list"))
	m := g.newMeter(t, user)
	testkit.Eventually(t, 3*time.Minute, func() error {
		m.measureRates(t.Context())
		facts := &fleet.Facts{}
		m.addTo(facts)
		if want := "requesting a token of the ServiceAccount liqo-diagnostics: "; !strings.Contains(facts.ThroughputProblem, want) || strings.Contains(facts.ThroughputProblem, "\n") || len(facts.Throughput) > 0 {
			return fmt.Errorf("measured %+v, %q", facts.Throughput, facts.ThroughputProblem)
		}
		return nil
	})
}

// TestMeterIdle has a meter that asks nothing while no page is open.
func TestMeterIdle(t *testing.T) {
	g := newServedGateway(t)
	m := g.newMeter(t, g.c.Config)
	f, _ := newTestFeed(t)
	ctx, stop := context.WithCancel(t.Context())
	asked, measured, ended := make(chan bool), make(chan struct{}, 1), make(chan struct{})
	go func() {
		defer close(ended)
		m.runMeter(ctx, func() bool {
			asked <- f.isOpen()
			return f.isOpen()
		}, func() { measured <- struct{}{} })
	}()
	for range 3 {
		if <-asked {
			t.Error("a page is open")
		}
	}
	if len(measured) > 0 {
		t.Error("measured without a page")
	}
	f.pages.Add(1)
	if !<-asked {
		t.Error("no page is open")
	}
	<-measured
	stop()
	for {
		select {
		case <-asked:
		case <-ended:
			return
		}
	}
}

func TestParseCounters(t *testing.T) {
	for name, tc := range map[string]struct {
		page string
		want counters
		err  string
	}{
		"both": {"# HELP liqo_peer_receive_bytes_total x\nliqo_peer_receive_bytes_total{cluster_id=\"milan\"} 1.5e+06\nother 3\nliqo_peer_transmit_bytes_total{cluster_id=\"milan\"} 7\n", counters{received: 1.5e6, sent: 7, loss: -1}, ""},
		"loss": {"liqo_peer_receive_bytes_total 1\nliqo_peer_transmit_bytes_total 7\nliqo_peer_probe_loss_ratio{size=\"full\"} 0.25\nliqo_peer_probe_loss_ratio{size=\"small\"} 0.1\n", counters{received: 1, sent: 7, loss: 0.25}, ""},
		"one":  {"liqo_peer_receive_bytes_total 1\n", counters{}, "no bytes of the tunnel"},
		"cut":  {"liqo_peer_receive_bytes_total 1\nliqo_peer_tr", counters{}, "unexpected EOF"},
		"text": {"<html>\n", counters{}, "no bytes of the tunnel"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseCounters(tc.page, time.Time{})
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("got %v, want %q", err, tc.err)
				}
				return
			}
			if err != nil || got != tc.want {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}
