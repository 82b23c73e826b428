// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"liqo.io/liqo/internal/agent"
	"liqo.io/liqo/internal/datapath/wg"
)

// exposed is what Prometheus is told.
func exposed(t *testing.T, e *tunnelExporter) string {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	if err := r.Register(e); err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	promhttp.HandlerFor(r, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	return w.Body.String()
}

func TestMetricsOfTunnel(t *testing.T) {
	h := newTimedHealth()
	h.Interval = time.Minute
	h.ask(0)
	h.padded(0, 0.0124)
	h.ask(1)
	h.Small.Hear(wire(h.at(1)), h.at(1.0124))
	device := &patient{status: wg.Status{Peers: []wg.PeerStatus{{Received: 1100, Sent: 2200}}, Refused: 3}}
	e := newExporter(Options{RemoteClusterID: "milan"}, device, refusals, func() agent.PathHealth { return h.PathHealth }, func() int { return 1340 })
	for _, after := range []time.Duration{9 * time.Millisecond, 12400 * time.Microsecond, 400 * time.Millisecond} {
		e.observeLatency(after)
	}
	want := `# HELP liqo_gateway_dropped_packets_total Packets that the gateway dropped because its rules refuse them.
# TYPE liqo_gateway_dropped_packets_total counter
liqo_gateway_dropped_packets_total{cluster_id="milan",reason="input_refused"} 0
liqo_gateway_dropped_packets_total{cluster_id="milan",reason="peer_source_refused"} 7
liqo_gateway_dropped_packets_total{cluster_id="milan",reason="wireguard_refused"} 3
# HELP liqo_peer_is_connected 1 while packets of all sizes pass to the peer and back, else 0.
# TYPE liqo_peer_is_connected gauge
liqo_peer_is_connected{cluster_id="milan",driver="wireguard"} 1
# HELP liqo_peer_latency_histogram_us Round trips to the gateway of the peer, in microseconds.
# TYPE liqo_peer_latency_histogram_us histogram
liqo_peer_latency_histogram_us_bucket{cluster_id="milan",driver="wireguard",le="10000"} 1
liqo_peer_latency_histogram_us_bucket{cluster_id="milan",driver="wireguard",le="15000"} 2
liqo_peer_latency_histogram_us_bucket{cluster_id="milan",driver="wireguard",le="20000"} 2
liqo_peer_latency_histogram_us_bucket{cluster_id="milan",driver="wireguard",le="36250"} 2
liqo_peer_latency_histogram_us_bucket{cluster_id="milan",driver="wireguard",le="52500"} 2
liqo_peer_latency_histogram_us_bucket{cluster_id="milan",driver="wireguard",le="68750"} 2
liqo_peer_latency_histogram_us_bucket{cluster_id="milan",driver="wireguard",le="85000"} 2
liqo_peer_latency_histogram_us_bucket{cluster_id="milan",driver="wireguard",le="101250"} 2
liqo_peer_latency_histogram_us_bucket{cluster_id="milan",driver="wireguard",le="117500"} 2
liqo_peer_latency_histogram_us_bucket{cluster_id="milan",driver="wireguard",le="133750"} 2
liqo_peer_latency_histogram_us_bucket{cluster_id="milan",driver="wireguard",le="150000"} 2
liqo_peer_latency_histogram_us_bucket{cluster_id="milan",driver="wireguard",le="178380"} 2
liqo_peer_latency_histogram_us_bucket{cluster_id="milan",driver="wireguard",le="212129"} 2
liqo_peer_latency_histogram_us_bucket{cluster_id="milan",driver="wireguard",le="252264"} 2
liqo_peer_latency_histogram_us_bucket{cluster_id="milan",driver="wireguard",le="299992"} 2
liqo_peer_latency_histogram_us_bucket{cluster_id="milan",driver="wireguard",le="+Inf"} 3
liqo_peer_latency_histogram_us_sum{cluster_id="milan",driver="wireguard"} 421400
liqo_peer_latency_histogram_us_count{cluster_id="milan",driver="wireguard"} 3
# HELP liqo_peer_latency_us Latest round trip to the gateway of the peer, in microseconds; absent without a connection.
# TYPE liqo_peer_latency_us gauge
liqo_peer_latency_us{cluster_id="milan",driver="wireguard"} 12400
# HELP liqo_peer_mtu_bytes Largest packets that are sent to the peer, in bytes.
# TYPE liqo_peer_mtu_bytes gauge
liqo_peer_mtu_bytes{cluster_id="milan",driver="wireguard"} 1340
# HELP liqo_peer_probe_answers_total Probes that the peer answered.
# TYPE liqo_peer_probe_answers_total counter
liqo_peer_probe_answers_total{cluster_id="milan",driver="wireguard",size="full"} 1
liqo_peer_probe_answers_total{cluster_id="milan",driver="wireguard",size="small"} 2
# HELP liqo_peer_probe_loss_ratio Part of the last 60 probes that was lost, from 0 to 1.
# TYPE liqo_peer_probe_loss_ratio gauge
liqo_peer_probe_loss_ratio{cluster_id="milan",driver="wireguard",size="full"} 0
liqo_peer_probe_loss_ratio{cluster_id="milan",driver="wireguard",size="small"} 0
# HELP liqo_peer_probes_total Probes that were sent to the peer, small ones and full packets.
# TYPE liqo_peer_probes_total counter
liqo_peer_probes_total{cluster_id="milan",driver="wireguard",size="full"} 2
liqo_peer_probes_total{cluster_id="milan",driver="wireguard",size="small"} 2
# HELP liqo_peer_receive_bytes_total Bytes that came from the peer, encrypted.
# TYPE liqo_peer_receive_bytes_total counter
liqo_peer_receive_bytes_total{cluster_id="milan",driver="wireguard"} 1100
# HELP liqo_peer_transmit_bytes_total Bytes that went to the peer, encrypted.
# TYPE liqo_peer_transmit_bytes_total counter
liqo_peer_transmit_bytes_total{cluster_id="milan",driver="wireguard"} 2200
# HELP liqo_wireguard_implementation 1 for the implementation of WireGuard: kernel or userspace.
# TYPE liqo_wireguard_implementation gauge
liqo_wireguard_implementation{driver="wireguard",implementation="userspace"} 1
`
	if diff := cmp.Diff(want, exposed(t, e)); diff != "" {
		t.Error(diff)
	}
}

func TestMetricsWithoutTunnel(t *testing.T) {
	up, late := newTimedHealth(), newTimedHealth()
	late.zero = late.zero.Add(-time.Hour)
	for _, h := range []*timedHealth{up, late} {
		h.Interval = time.Minute
		h.ask(0)
		h.padded(0, 0)
	}
	peer := wg.Status{Peers: []wg.PeerStatus{{}}}
	late.ask(60, 120, 180)
	for name, test := range map[string]struct {
		beat    *timedHealth
		watched bool
		device  Device
		want    string
	}{
		"before the first probe":            {newTimedHealth(), true, &patient{}, "connected=0 bytes"},
		"up":                                {up, true, &patient{status: peer}, "connected=1 latency bytes"},
		"after the last answer":             {late, true, &patient{status: peer}, "connected=0 bytes"},
		"up, of a device that tells little": {up, true, &failingDevice{}, "connected=1 latency"},
		"unwatched":                         {newTimedHealth(), false, &patient{status: peer}, "connected=1 bytes"},
		"unwatched, with nobody":            {newTimedHealth(), false, &patient{}, "connected=0 bytes"},
	} {
		e := newExporter(Options{RemoteClusterID: "milan", Unwatched: !test.watched}, test.device, failingCounters, func() agent.PathHealth { return test.beat.PathHealth }, func() int { return 1340 })
		text, labels := exposed(t, e), `{cluster_id="milan",driver="wireguard"} `
		got := "connected=none"
		for _, v := range []string{"0", "1"} {
			if strings.Contains(text, "liqo_peer_is_connected"+labels+v) {
				got = "connected=" + v
			}
		}
		if strings.Contains(text, "liqo_peer_latency_us"+labels) {
			got += " latency"
		}
		if strings.Contains(text, "liqo_peer_receive_bytes_total"+labels) && strings.Contains(text, "liqo_peer_transmit_bytes_total"+labels) {
			got += " bytes"
		}
		if got != test.want {
			t.Errorf("%s: %s, want %s in\n%s", name, got, test.want, text)
		}
	}
}

// refusals are the counters of a kernel, failingCounters has none.
func refusals() (map[string]uint64, error) {
	return map[string]uint64{"peer_source_refused": 7, "input_refused": 0}, nil
}

func failingCounters() (map[string]uint64, error) { return nil, errors.New("mute") }

// failingDevice is a device that does not tell what it does.
type failingDevice struct{ patient }

func (*failingDevice) Observe() (wg.Status, error) { return wg.Status{}, errors.New("mute") }
