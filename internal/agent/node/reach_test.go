// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/agent"
	"liqo.io/liqo/internal/datapath"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/network/plan"
	"liqo.io/liqo/internal/testkit"
)

const (
	connected  = networkingv1beta1.Connected
	connecting = networkingv1beta1.Connecting
	broken     = networkingv1beta1.ConnectionError
)

// setUpGateway has the namespace of the gateway be all that is behind it, too: it has the address of the peer's.
func (w *testNode) setUpGateway(t *testing.T) {
	t.Helper()
	gateway, node, peer := netip.MustParseAddr("10.200.1.9"), netip.MustParseAddr("10.70.0.11"), netip.MustParseAddr("10.68.0.0")
	_, err := open(t, w.gatewaySpace).Apply(t.Context(), datapath.State{
		Links: []datapath.Link{{
			Name: names.FabricDevice, MTU: names.DefaultMTU, VXLAN: &datapath.VXLAN{ID: 1, Port: names.FabricPort, MAC: datapath.MAC(gateway)},
		}},
		Addresses:  []datapath.Address{{Device: "lo", Prefix: netip.PrefixFrom(peer, 32)}},
		Neighbours: []datapath.Neighbour{{Device: names.FabricDevice, Next: node, MAC: datapath.MAC(node), Outer: netip.MustParseAddr("10.200.1.1")}},
		Routes:     []datapath.Route{{Table: 101, To: netip.PrefixFrom(node, 32), Via: node, Device: names.FabricDevice, OnLink: true}},
		Rules:      []datapath.Rule{{Priority: 101, Family: datapath.IPv4, Table: 101}},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// waitForReport waits until the node reports the value for its peer; "" for none.
func (w *testNode) waitForReport(t *testing.T, want networkingv1beta1.ConnectionStatusValue) {
	t.Helper()
	testkit.Eventually(t, patience, func() error {
		if err := w.Get(t.Context(), client.ObjectKeyFromObject(w.member), w.member); err != nil {
			return err
		}
		peers := w.member.Status.Peers
		switch {
		case want == "" && len(peers) == 0:
			return nil
		case len(peers) != 1 || peers[0].ClusterID != "rome" || peers[0].Value != want || peers[0].Since.IsZero() ||
			(peers[0].Latency != "") != (want == connected):
			return fmt.Errorf("the node says %+v, want %q", peers, want)
		}
		return nil
	})
}

// Loss on the fabric is seen, also of large packets alone, and nothing is said of a peer without a gateway.
func TestNodeReportsPeers(t *testing.T) {
	w := newTestNode(t, 200*time.Millisecond)
	w.waitForReport(t, broken) // there is nobody yet
	w.setUpGateway(t)
	w.waitForReport(t, connected)
	const everything, large = 0, 1000
	for name, test := range map[string]struct {
		lose   func(tb testing.TB, device string, above uint16) func()
		device string
		above  uint16 // bytes of a packet
	}{
		"everything, to the gateway":      {w.gatewaySpace.Lose, names.FabricDevice, everything},
		"large packets, to the gateway":   {w.gatewaySpace.Lose, names.FabricDevice, large},
		"everything, from the gateway":    {w.space.Lose, names.FabricDevice, everything},
		"large packets, from the gateway": {w.space.Lose, names.FabricDevice, large},
		"the fabric itself":               {w.gatewaySpace.Lose, "eth0", everything},
		"what pods send":                  {w.space.LoseForwarded, names.FabricDevice, everything},
		"large packets that pods send":    {w.space.LoseForwarded, names.FabricDevice, large},
		"what pods get":                   {w.space.LoseForwarded, names.ProbeDevice, everything},
	} {
		t.Log(name)
		restore := test.lose(t, test.device, test.above)
		w.waitForReport(t, broken)
		restore()
		w.waitForReport(t, connected)
	}

	t.Log("the gateway goes, and comes back")
	endpoint := w.gate.Status.InternalEndpoint
	testkit.UpdateStatus(t, w, w.gate, func(g *networkingv1beta1.GatewayServer) { g.Status.InternalEndpoint = nil })
	w.waitForReport(t, "")
	testkit.UpdateStatus(t, w, w.gate, func(g *networkingv1beta1.GatewayServer) { g.Status.InternalEndpoint = endpoint })
	w.waitForReport(t, connected)

	t.Log("somebody deletes the devices by which it asks")
	if err := w.space.LinkDel(w.space.Link(t, names.EchoDevice)); err != nil {
		t.Fatal(err)
	}
	restore := w.space.LoseForwarded(t, names.FabricDevice, everything)
	w.waitForReport(t, broken)
	restore()
	w.waitForReport(t, connected)

	t.Log("somebody else withdraws it")
	testkit.UpdateStatus(t, w, w.member, func(n *networkingv1beta1.InternalNode) { n.Status.Peers = nil })
	w.waitForReport(t, connected)

	t.Log("the agent ends while it is broken")
	w.gatewaySpace.Lose(t, names.FabricDevice, everything)
	w.waitForReport(t, broken)
	w.stop()
	w.waitForReport(t, broken) // the next one goes on from that
}

func TestPeerReports(t *testing.T) {
	then, now := metav1.NewTime(time.Unix(1000, 0)), time.Unix(2000, 5)
	peer := func(id string, value networkingv1beta1.ConnectionStatusValue, latency string, since metav1.Time) networkingv1beta1.InternalNodePeer {
		return networkingv1beta1.InternalNodePeer{ClusterID: id, Value: value, Latency: latency, Since: since}
	}
	of := func(id string, value networkingv1beta1.ConnectionStatusValue) pathState {
		w := pathState{Probe: plan.Probe{Peer: id}, value: value, since: now}
		w.pulse.Small.Latency = 3 * time.Millisecond
		return w
	}
	type peers = []networkingv1beta1.InternalNodePeer
	for name, test := range map[string]struct {
		was  peers
		ways []pathState
		want peers
	}{
		"nothing":                       {},
		"nothing is known yet":          {nil, []pathState{of("rome", ""), of("milan", connecting)}, nil},
		"reached":                       {nil, []pathState{of("rome", connected)}, peers{peer("rome", connected, "3ms", metav1.NewTime(time.Unix(2000, 0)))}},
		"not reached":                   {nil, []pathState{of("rome", broken)}, peers{peer("rome", broken, "", metav1.NewTime(time.Unix(2000, 0)))}},
		"still reached, only faster":    {peers{peer("rome", connected, "9ms", then)}, []pathState{of("rome", connected)}, peers{peer("rome", connected, "9ms", then)}},
		"still not reached":             {peers{peer("rome", broken, "", then)}, []pathState{of("rome", broken)}, peers{peer("rome", broken, "", then)}},
		"by another process":            {peers{peer("rome", connected, "9ms", then)}, []pathState{of("rome", connecting)}, peers{peer("rome", connected, "9ms", then)}},
		"reached again":                 {peers{peer("rome", broken, "", then)}, []pathState{of("rome", connected)}, peers{peer("rome", connected, "3ms", metav1.NewTime(time.Unix(2000, 0)))}},
		"without a gateway":             {peers{peer("rome", broken, "", then)}, nil, nil},
		"another one without a gateway": {peers{peer("milan", broken, "", then), peer("rome", broken, "", then)}, []pathState{of("rome", broken)}, peers{peer("rome", broken, "", then)}},
	} {
		if diff := cmp.Diff(test.want, peersOf(test.was, test.ways)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// answerTo is the frame by which a gateway answers.
func answerTo(question []byte) []byte {
	out := slices.Clone(question)
	if packet := out[ethernetHeader:]; packet[0]>>4 == 4 {
		from := [4]byte(packet[12:])
		copy(packet[12:], packet[16:20])
		copy(packet[16:], from[:])
		packet[20] = reply4
	} else {
		from := [16]byte(packet[8:])
		copy(packet[8:], packet[24:40])
		copy(packet[24:], from[:])
		packet[40] = reply6
	}
	return out
}

func TestEchoes(t *testing.T) {
	for from, to := range map[string]string{"10.200.255.254": "10.68.0.0", "fd00:200::fffe": "fd00:68::"} {
		from, to := netip.MustParseAddr(from), netip.MustParseAddr(to)
		for _, size := range []int{smallestPacket(to), 1340, 1341} {
			e := echoSocket{way: 7<<40 + 1, asked: time.Unix(5, 6), size: size}
			frame := e.encodeFrame(from, to, 3, 4)
			if len(frame) != ethernetHeader+size {
				t.Errorf("%s: a frame for %d bytes has %d", to, size, len(frame))
			}
			packet := frame[ethernetHeader:]
			if icmpChecksum(from, to, packet[ipHeader(to):]) != 0 || to.Is4() && inetChecksum(packet[:20]) != 0 {
				t.Errorf("%s: a checksum of a question of %d bytes is wrong", to, size)
			}
			if _, _, ok := decodeEcho(frame); ok {
				t.Errorf("%s: a question is taken for an answer", to)
			}
			response := append(answerTo(frame), 0, 0) // what short frames are padded with is none of it
			by, got, ok := decodeEcho(response)
			if !ok || by != to || got.way != e.way || got.size != size || !got.asked.Equal(e.asked) {
				t.Errorf("%s: %+v of %s (%t), want %+v", to, got, by, ok, e)
			}
			for end := range len(frame) {
				if _, _, ok := decodeEcho(response[:end]); ok {
					t.Errorf("%s: the first %d bytes of %d are an answer", to, end, len(frame))
				}
			}
		}
	}
	fragment := answerTo(echoSocket{size: 100}.encodeFrame(netip.MustParseAddr("10.200.255.254"), netip.MustParseAddr("10.68.0.0"), 3, 4))
	fragment[ethernetHeader+6] = 0x20 // more fragments
	if _, _, ok := decodeEcho(fragment); ok {
		t.Error("a fragment is taken for an answer")
	}
}

func FuzzEcho(f *testing.F) {
	e := echoSocket{way: 1, asked: time.Unix(5, 6)}
	f.Add(answerTo(e.encodeFrame(netip.MustParseAddr("10.200.255.254"), netip.MustParseAddr("10.68.0.0"), 3, 4)))
	f.Add(answerTo(e.encodeFrame(netip.MustParseAddr("fd00:200::fffe"), netip.MustParseAddr("fd00:68::"), 3, 4)))
	f.Fuzz(func(t *testing.T, frame []byte) {
		if from, e, ok := decodeEcho(frame); ok && (!from.IsValid() || e.size < smallestPacket(from) || ethernetHeader+e.size > len(frame)) {
			t.Errorf("%d bytes are read as a packet of %d from %s", len(frame), e.size, from)
		}
		if w := inetChecksum(frame); len(frame) == 0 && w != 0xffff {
			t.Errorf("the checksum of nothing is %d", w)
		}
	})
}

func TestEchoesOfOthers(t *testing.T) {
	beats, now := 0, time.Now()
	p := newProber(Options{PingInterval: time.Second, PingLossThreshold: 3}, logr.Discard(), func() { beats++ })
	at := plan.Probe{Peer: "rome", From: netip.MustParseAddr("10.200.255.254"), To: netip.MustParseAddr("10.68.0.0"), MTU: 1340}
	p.setTargets([]plan.Probe{at})
	p.setTargets([]plan.Probe{at}) // which keeps it
	w := p.ways[0]
	w.next = now.Add(time.Minute)
	w.pulse.Ask(now)
	response := func(by string, way uint64, requestedAt time.Time, size int) []byte {
		return answerTo(echoSocket{way: way, asked: requestedAt, size: size}.encodeFrame(at.From, netip.MustParseAddr(by), 1, 1))
	}
	p.recordAnswer(response("10.68.0.1", w.tag, now, 0), now)
	p.recordAnswer(response("10.68.0.0", w.tag+1, now, 0), now)
	p.recordAnswer(response("10.68.0.0", w.tag, now.Add(1), 0), now)
	p.recordAnswer([]byte("nonsense"), now)
	if got := p.pathStates()[0]; got.pulse.Small.Heard+got.pulse.Full.Heard != 0 {
		t.Fatalf("answers count: %+v", got.pulse)
	}
	p.recordAnswer(response("10.68.0.0", w.tag, now, 0), now)
	if got := p.pathStates()[0]; got.value != connecting {
		t.Errorf("after the small answer alone: %s", got.value)
	}
	p.recordAnswer(response("10.68.0.0", w.tag, now, 1340), now)
	if got := p.pathStates()[0]; got.value != connected {
		t.Errorf("after both answers: %s", got.value)
	}
	if again := p.checkPaths(now.Add(2500 * time.Millisecond)); again != 500*time.Millisecond {
		t.Errorf("the next look is after %s", again)
	}
	w.pulse.Ask(now.Add(1 * time.Second))
	w.pulse.Ask(now.Add(2 * time.Second))
	w.pulse.Ask(now.Add(3 * time.Second))
	p.checkPaths(now.Add(3 * time.Second))
	if got := p.pathStates()[0]; got.value != broken || beats < 2 {
		t.Errorf("without answers: %s, and it was told %d times", got.value, beats)
	}
}

// Each way has a time of its own, which another one that is new does not change. Nothing is sent here: what is asked is not answered.
func TestProberPhase(t *testing.T) {
	p := newProber(Options{PingInterval: time.Second, PingLossThreshold: 3}, logr.Discard(), func() {})
	nowhere := errors.New("no such device")
	p.listen = func() (io.ReadWriteCloser, error) { return nil, nowhere }
	var all []plan.Probe
	start := time.Now()
	phases := []time.Duration{300 * time.Millisecond, 700 * time.Millisecond}
	for i, phase := range phases {
		p.phase = func(time.Duration) time.Duration { return phase }
		all = append(all, plan.Probe{Peer: fmt.Sprint(i), From: netip.MustParseAddr("10.200.255.254"), To: netip.MustParseAddr("10.68.0.0"), MTU: 1340})
		p.setTargets(all)
		if after := p.ways[i].next.Sub(start); after < phase || p.ways[i].pulse.Small.Sent != 0 {
			t.Errorf("way %d is asked first after %s", i, after)
		}
	}
	for i, w := range p.ways {
		w.next = start.Add(phases[i])
		w.pulse.Ask(start) // by which it was once asked, and is no more
	}
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	for _, test := range []struct {
		ms            int
		first, second uint64 // questions by then
		again         time.Duration
	}{
		{299, 1, 1, time.Millisecond},
		{300, 2, 1, 400 * time.Millisecond},
		{700, 2, 2, 600 * time.Millisecond},
		{1299, 2, 2, time.Millisecond},
		{5000, 3, 3, time.Second}, // after it stood still
		{6000, 4, 4, time.Second},
	} {
		p.sendProbes(at(test.ms))
		if a, b := p.ways[0].pulse.Small.Sent, p.ways[1].pulse.Small.Sent; a != test.first || b != test.second {
			t.Errorf("at %d ms %d and %d are asked, want %d and %d", test.ms, a, b, test.first, test.second)
		}
		if again := p.checkPaths(at(test.ms)); again != test.again {
			t.Errorf("at %d ms the next look is after %s, want %s", test.ms, again, test.again)
		}
	}
	if p.ways[0].value != broken {
		t.Errorf("where nothing can be asked any more it is %s", p.ways[0].value)
	}
}

func TestMetricsOfPeers(t *testing.T) {
	up := pathState{Probe: plan.Probe{Peer: "milan"}, pulse: agent.PathHealth{Interval: time.Minute, Threshold: 3, Pads: true}}
	requestedAt := time.Now()
	up.pulse.Ask(requestedAt)
	up.pulse.Small.Hear(requestedAt, requestedAt.Add(2500*time.Microsecond))
	up.pulse.Full.Hear(requestedAt, requestedAt.Add(3*time.Millisecond))
	down := pathState{Probe: plan.Probe{Peer: "rome"}, pulse: agent.PathHealth{Interval: time.Minute, Threshold: 3, Pads: true}}
	down.pulse.Ask(requestedAt)
	r := prometheus.NewPedanticRegistry()
	silent := pathState{Probe: plan.Probe{Peer: "turin"}, pulse: agent.PathHealth{Interval: time.Minute, Threshold: 3, Pads: true}} // nothing was asked yet
	dropped := func() (map[string]uint64, error) {
		return map[string]uint64{plan.CounterOuter: 7, plan.CounterFreshLocal: 0}, nil
	}
	if err := r.Register(newExporter("worker", func() []pathState { return []pathState{up, down, silent} }, dropped)); err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	promhttp.HandlerFor(r, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	want := `# HELP liqo_node_dropped_packets_total Packets that the filter of the node dropped.
# TYPE liqo_node_dropped_packets_total counter
liqo_node_dropped_packets_total{node="worker",reason="fresh_local_refused"} 0
liqo_node_dropped_packets_total{node="worker",reason="outer_refused"} 7
# HELP liqo_node_peer_is_connected 1 while packets of all sizes pass from the node to the peer and back, else 0.
# TYPE liqo_node_peer_is_connected gauge
liqo_node_peer_is_connected{cluster_id="milan",node="worker"} 1
liqo_node_peer_is_connected{cluster_id="rome",node="worker"} 0
# HELP liqo_node_peer_latency_us Latest round trip from the node to the gateway of the peer, in microseconds; absent without a connection.
# TYPE liqo_node_peer_latency_us gauge
liqo_node_peer_latency_us{cluster_id="milan",node="worker"} 2500
# HELP liqo_node_peer_probe_answers_total Probes of the node that the peer answered.
# TYPE liqo_node_peer_probe_answers_total counter
liqo_node_peer_probe_answers_total{cluster_id="milan",node="worker",size="full"} 1
liqo_node_peer_probe_answers_total{cluster_id="milan",node="worker",size="small"} 1
liqo_node_peer_probe_answers_total{cluster_id="rome",node="worker",size="full"} 0
liqo_node_peer_probe_answers_total{cluster_id="rome",node="worker",size="small"} 0
# HELP liqo_node_peer_probes_total Probes that the node sent to the peer, small ones and full packets.
# TYPE liqo_node_peer_probes_total counter
liqo_node_peer_probes_total{cluster_id="milan",node="worker",size="full"} 1
liqo_node_peer_probes_total{cluster_id="milan",node="worker",size="small"} 1
liqo_node_peer_probes_total{cluster_id="rome",node="worker",size="full"} 1
liqo_node_peer_probes_total{cluster_id="rome",node="worker",size="small"} 1
`
	if diff := cmp.Diff(want, w.Body.String()); diff != "" {
		t.Error(diff)
	}
}

// The kernel may not answer, while there is more to tell.
func TestMetricsSilentKernel(t *testing.T) {
	up := pathState{Probe: plan.Probe{Peer: "milan"}, pulse: agent.PathHealth{Interval: time.Minute, Threshold: 3}}
	up.pulse.Ask(time.Now())
	silent := func() (map[string]uint64, error) { return nil, errors.New("mute") }
	r := prometheus.NewPedanticRegistry()
	if err := r.Register(newExporter("worker", func() []pathState { return []pathState{up} }, silent)); err != nil {
		t.Fatal(err)
	}
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range families {
		got = append(got, f.GetName())
	}
	want := []string{"liqo_node_peer_is_connected", "liqo_node_peer_probe_answers_total", "liqo_node_peer_probes_total"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestProberSendNow has probes that are due in an hour, and on request now.
func TestProberSendNow(t *testing.T) {
	p := newProber(Options{PingInterval: time.Hour, PingLossThreshold: 3}, logr.Discard(), func() {})
	near, far := net.Pipe()
	p.listen = func() (io.ReadWriteCloser, error) { return near, nil }
	p.phase = func(time.Duration) time.Duration { return time.Hour }
	p.setTargets([]plan.Probe{{Peer: "rome", From: netip.MustParseAddr("10.200.255.254"), To: netip.MustParseAddr("10.68.0.0"), MTU: 1340}})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = p.Start(ctx)
	}()
	p.SendNow()
	buffer := make([]byte, 1<<17)
	for range 2 { // a small one and a full one
		n, err := far.Read(buffer)
		if err != nil {
			t.Fatal(err)
		}
		answer := answerTo(buffer[:n])
		p.recordAnswer(answer, time.Now())
	}
	if got := p.Paths()[0]; got.Peer != "rome" || got.MTU != 1340 || got.Health.Small.Heard != 1 || got.Health.Full.Heard != 1 {
		t.Errorf("the path is %+v", got)
	}
	stop()
	<-ended
}
