// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/api/networking/v1beta1/firewall"
	"liqo.io/liqo/internal/agent"
	"liqo.io/liqo/internal/datapath"
	"liqo.io/liqo/internal/datapath/kernel"
	"liqo.io/liqo/internal/datapath/wg"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/network/plan"
	"liqo.io/liqo/internal/testkit"
)

// patience with what a gateway is to do.
const patience = 2 * time.Minute

// is waits for the Connection of a side to have one of these values.
func (s *testGateway) is(t *testing.T, want ...networkingv1beta1.ConnectionStatusValue) networkingv1beta1.Connection {
	t.Helper()
	var c networkingv1beta1.Connection
	testkit.Eventually(t, patience, func() error {
		if err := s.Get(t.Context(), client.ObjectKey{Namespace: s.options.Namespace, Name: names.Gateway(s.options.Name)}, &c); err != nil {
			return err
		}
		for _, v := range want {
			if c.Status.Value == v {
				return nil
			}
		}
		return fmt.Errorf("the Connection of %s is %q, want %v", s.options.RemoteClusterID, c.Status.Value, want)
	})
	return c
}

// waitForAnswer waits for the Connection of a side to tell of an answer that came after some time.
func (s *testGateway) waitForAnswer(t *testing.T, since time.Time) {
	t.Helper()
	testkit.Eventually(t, patience, func() error {
		c := s.is(t, connected)
		if told := c.Status.Latency.Timestamp; !told.After(since) {
			return fmt.Errorf("the Connection of %s tells of an answer at %s, not after %s", s.options.RemoteClusterID, told, since)
		}
		return nil
	})
}

// send sends one small packet.
func send(to netip.AddrPort) error {
	conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(to))
	if err != nil {
		return err
	}
	_, err = conn.Write([]byte("hello"))
	return errors.Join(err, conn.Close())
}

// valueOf is that of a series in what Prometheus is told, 0 for none.
func valueOf(text, series string) float64 {
	_, rest, _ := strings.Cut(text, series)
	value, _, _ := strings.Cut(rest, "\n")
	n, _ := strconv.ParseFloat(value, 64)
	return n
}

// holds tells why the namespace of a side does not hold something.
func (s *testGateway) holds(text string) error {
	k, err := kernel.Open(kernel.Options{Namespace: s.space.Path})
	if err != nil {
		return err
	}
	defer k.Close()
	state, err := k.Observe()
	if err == nil && !strings.Contains(state.String(), text) {
		err = fmt.Errorf("there is no %q in %s", text, state)
	}
	return err
}

// peers waits for the device of a side to have these peers.
func (s *testGateway) peers(t *testing.T, want ...wg.PublicKey) {
	t.Helper()
	testkit.Eventually(t, patience, func() error {
		status, err := s.device.Observe()
		if err != nil {
			return err
		}
		var got []wg.PublicKey
		for _, p := range status.Peers {
			got = append(got, p.PublicKey)
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("the device of %s has the peers %v, want %v", s.options.RemoteClusterID, got, want)
		}
		return nil
	})
}

const (
	connected  = networkingv1beta1.Connected
	connecting = networkingv1beta1.Connecting
	broken     = networkingv1beta1.ConnectionError
)

func TestGatewayPair(t *testing.T) {
	t.Parallel()
	a, b := newTestGateways(t)
	var server atomic.Pointer[netip.Addr] // what a name server says
	server.Store(new(netip.MustParseAddr(serverAt)))
	b.resolve = func(context.Context, string, string) ([]netip.Addr, error) { return []netip.Addr{*server.Load()}, nil }
	b.options.Endpoints, b.silence = []string{"server.example:51840"}, 3*time.Second
	stop := a.run(t)
	b.run(t)
	of := a.trust(t, "peer", b)
	b.trust(t, "peer", a)
	both := func(want ...networkingv1beta1.ConnectionStatusValue) {
		t.Helper()
		a.is(t, want...)
		b.is(t, want...)
	}
	both(connected)
	c := a.is(t, connected)
	if c.Status.Latency.Value == "" || c.Status.Latency.Timestamp.IsZero() || c.Spec.Type != networkingv1beta1.ConnectionTypeServer ||
		len(c.OwnerReferences) != 1 || c.OwnerReferences[0].Kind != "GatewayServer" {
		t.Errorf("the Connection is %+v", c)
	}

	for _, s := range []*testGateway{a, b} {
		testkit.Eventually(t, patience, func() error {
			text := exposed(t, s.exporter)
			for _, series := range []string{"liqo_peer_is_connected", "liqo_peer_latency_us", "liqo_peer_receive_bytes_total", "liqo_peer_transmit_bytes_total", "liqo_peer_latency_histogram_us_count"} {
				labels := fmt.Sprintf(`{cluster_id=%q,driver="wireguard"} `, s.options.RemoteClusterID)
				if !strings.Contains(text, series+labels) || strings.Contains(text, series+labels+"0\n") {
					return fmt.Errorf("there is no %s, or nothing of it, in\n%s", series, text)
				}
			}
			return nil
		})
	}

	t.Log("what the filter drops is counted")
	refused := fmt.Sprintf("liqo_gateway_dropped_packets_total{cluster_id=%q,reason=%q} ", b.options.RemoteClusterID, plan.CounterInput)
	text := exposed(t, b.exporter)
	if !strings.Contains(text, refused) {
		t.Errorf("there is no %s in\n%s", refused, text)
	}
	_, remote := plan.TunnelAddresses(a.options.Server)
	if err := a.space.Inside(func() error { return send(netip.AddrPortFrom(remote, 9)) }); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, patience, func() error {
		if now := exposed(t, b.exporter); valueOf(now, refused) <= valueOf(text, refused) {
			return fmt.Errorf("nothing more was refused:\n%s", now)
		}
		return nil
	})

	t.Log("what is for all gateways is none of their objects")
	all := &networkingv1beta1.FirewallConfiguration{ObjectMeta: metav1.ObjectMeta{Namespace: a.options.LiqoNamespace, Name: "lab", Labels: map[string]string{
		names.FirewallCategory: names.TargetGateway, names.FirewallSubcategory: names.TargetAllGateways,
	}}}
	all.Spec.Table = firewall.Table{Name: new("lab"), Family: new(firewall.TableFamilyIPv4)}
	testkit.Create(t, a, all)
	testkit.Eventually(t, patience, func() error { return a.holds("table ip lab") })

	t.Log("the cable is cut, which is told although nothing helps, and mended")
	b.device.mute.Store(true)
	a.space.Up(t, "eth0", false)
	both(broken)
	b.device.mute.Store(false)
	a.space.Up(t, "eth0", true)
	both(connected)

	t.Log("only small packets pass")
	mtu := func(bytes int) {
		t.Helper()
		for _, s := range []*testGateway{a, b} {
			if err := s.space.LinkSetMTU(s.space.Link(t, "eth0"), bytes); err != nil {
				t.Fatal(err)
			}
		}
	}
	mtu(1000)
	both(broken)
	mtu(1500)
	both(connected)

	t.Log("the server's process is another one")
	stop()
	b.is(t, broken)
	stop = a.run(t)
	both(connected)

	t.Log("the server's pod is another one elsewhere, and then its name leads there")
	before, err := b.device.Observe()
	if err != nil || len(before.Peers) != 1 {
		t.Fatalf("the device has %+v, %v", before, err)
	}
	moved := netip.MustParseAddr("192.0.2.3")
	stop()
	eth0 := a.space.Link(t, "eth0")
	address := func(ip string) *netlink.Addr {
		return &netlink.Addr{IPNet: &net.IPNet{IP: net.ParseIP(ip), Mask: net.CIDRMask(24, 32)}}
	}
	if err := errors.Join(a.space.AddrDel(eth0, address(serverAt)), a.space.AddrAdd(eth0, address(moved.String()))); err != nil {
		t.Fatal(err)
	}
	a.options.StateDir = t.TempDir() // it does not know where its client is
	a.run(t)
	b.is(t, broken)
	server.Store(&moved)
	testkit.Eventually(t, patience, func() error {
		now, err := b.device.Observe()
		if want := netip.AddrPortFrom(moved, 51840); err != nil || len(now.Peers) != 1 || now.Peers[0].Endpoint != want || now.ListenPort == before.ListenPort {
			return fmt.Errorf("the device has %+v, %v; want a peer at %s, and another port than %d", now, err, want, before.ListenPort)
		}
		return nil
	})
	both(connected)

	t.Log("the server's tunnel is deleted under it")
	index := a.space.Link(t, names.TunnelDevice).Attrs().Index
	if err := a.space.LinkDel(a.space.Link(t, names.TunnelDevice)); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, patience, func() error {
		l, err := a.space.LinkByName(names.TunnelDevice)
		if err == nil && l.Attrs().Index == index {
			err = errors.New("the old link is still there")
		}
		if err != nil {
			return err
		}
		status, err := a.device.Observe()
		if err == nil && (len(status.Peers) != 1 || status.Peers[0].LastHandshake.IsZero()) {
			err = fmt.Errorf("there was no handshake: %+v", status)
		}
		return err
	})
	now := time.Now()
	a.waitForAnswer(t, now)
	b.waitForAnswer(t, now)

	t.Log("the peer's key is revoked, and comes back")
	if err := a.Delete(t.Context(), of); err != nil {
		t.Fatal(err)
	}
	a.is(t, connecting, broken)
	b.is(t, broken)
	a.peers(t)
	a.trust(t, "peer", b)
	both(connected)

	t.Log("the client has another key")
	old := b.key.Public()
	b.newKey(t)
	b.is(t, broken)
	a.is(t, broken)
	a.trust(t, "peer-2", b)
	both(connected)
	status, err := a.device.Observe()
	if err != nil || len(status.Peers) != 1 || status.Peers[0].PublicKey != b.key.Public() || status.Peers[0].PublicKey == old || status.Peers[0].LastHandshake.IsZero() {
		t.Errorf("the device has peers %+v, %v", status.Peers, err)
	}
}

// The server moves while the API server of its client gives no answer: the client follows.
func TestGatewayHangingAPIServer(t *testing.T) {
	a, b := newTestGateways(t)
	b.options.Endpoints, b.silence = []string{"server.example:51840"}, 3*time.Second
	var server atomic.Pointer[netip.Addr]
	server.Store(&a.options.Address)
	b.resolve = func(context.Context, string, string) ([]netip.Addr, error) { return []netip.Addr{*server.Load()}, nil }
	stop := connectGateways(t, a, b)
	b.hangs.Store(true)
	stop()
	moved, eth0 := netip.MustParseAddr("192.0.2.3"), a.space.Link(t, "eth0")
	address := func(ip netip.Addr) *netlink.Addr {
		return &netlink.Addr{IPNet: &net.IPNet{IP: ip.AsSlice(), Mask: net.CIDRMask(24, 32)}}
	}
	if err := errors.Join(a.space.AddrDel(eth0, address(a.options.Address)), a.space.AddrAdd(eth0, address(moved))); err != nil {
		t.Fatal(err)
	}
	a.options.StateDir = t.TempDir() // it does not know where its client is
	server.Store(&moved)
	now := time.Now()
	a.run(t)
	a.waitForAnswer(t, now)
	b.hangs.Store(false)
	b.waitForAnswer(t, now)
}

// The client has a session that the new process of its server does not know, and begins no other. What the server sends it by itself gets an
// answer.
func TestGatewayServerRestart(t *testing.T) {
	a, b := newTestGateways(t)
	stop := connectGateways(t, a, b)
	testkit.Eventually(t, patience, func() error {
		if at := memoryIn(a.options.StateDir).loadEndpoint(); at.Addr().String() != clientAt {
			return fmt.Errorf("the server remembers a client at %s", at)
		}
		return nil
	})
	b.device.mute.Store(true) // so its gateway does nothing for the tunnel
	b.hush(t)
	stop()
	now := time.Now()
	a.run(t)
	a.waitForAnswer(t, now)
	b.waitForAnswer(t, now)
}

// While a new pod of a gateway takes over from the last one, both run with one key. Only the one that nodes reach has the peer, and a client learns
// from the last pod of its server that the next one takes over.
func TestGatewayHandover(t *testing.T) {
	t.Parallel()
	a, b := newTestGateways(t)
	b.options.PingInterval = 30 * time.Second // until lost probes show that the server left
	gw := &networkingv1beta1.GatewayServer{ObjectMeta: a.meta(a.options.Name)}
	testkit.Create(t, a, gw)
	ending, endNow := context.WithCancel(t.Context())
	ended, end := context.WithCancel(t.Context())
	a.ending, a.ended = ending, end
	a.run(t)
	b.run(t)
	a.trust(t, "peer", b)
	b.trust(t, "peer", a)
	a.is(t, connected)
	b.is(t, connected)
	reach := func(address string) {
		testkit.UpdateStatus(t, a, gw, func(g *networkingv1beta1.GatewayServer) {
			g.Status.InternalEndpoint = &networkingv1beta1.InternalGatewayEndpoint{IP: new(networkingv1beta1.IP(address)), Node: &a.options.Node}
		})
	}
	reach(serverAt)
	endNow()
	left := time.Now()
	reach("192.0.2.9")
	testkit.Eventually(t, patience, func() error {
		if ended.Err() == nil {
			return errors.New("the last pod does not end, as if no other had taken over")
		}
		return nil
	})
	a.peers(t)
	a.is(t, connected) // the other pod reports
	reach(serverAt)
	a.peers(t, b.key.Public())
	var took time.Duration
	testkit.Eventually(t, patience, func() error {
		status, err := b.device.Observe()
		if err == nil && (len(status.Peers) != 1 || !status.Peers[0].LastHandshake.After(left)) {
			err = errors.New("the client began no session with the next pod of its server")
		}
		if err == nil {
			took = status.Peers[0].LastHandshake.Sub(left)
		}
		return err
	})
	if took > b.options.PingInterval {
		t.Errorf("the client began a session after %s, as if its server had said nothing", took)
	}
}

func TestActiveReplica(t *testing.T) {
	at := func(address string) *networkingv1beta1.InternalGatewayEndpoint {
		return &networkingv1beta1.InternalGatewayEndpoint{IP: new(networkingv1beta1.IP(address))}
	}
	for name, tc := range map[string]struct {
		gateway         client.Object
		active, standby bool
	}{
		"no_gateway":      {},
		"reached_nowhere": {gateway: &networkingv1beta1.GatewayClient{}},
		"this_client":     {gateway: &networkingv1beta1.GatewayClient{Status: networkingv1beta1.GatewayClientStatus{InternalEndpoint: at(clientAt)}}, active: true},
		"another_client":  {gateway: &networkingv1beta1.GatewayClient{Status: networkingv1beta1.GatewayClientStatus{InternalEndpoint: at(serverAt)}}, standby: true},
		"this_server":     {gateway: &networkingv1beta1.GatewayServer{Status: networkingv1beta1.GatewayServerStatus{InternalEndpoint: at(clientAt)}}, active: true},
		"is_deleted_meanwhile": {gateway: &networkingv1beta1.GatewayServer{
			ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: new(metav1.Now())}, Status: networkingv1beta1.GatewayServerStatus{InternalEndpoint: at(clientAt)},
		}},
	} {
		_, server := tc.gateway.(*networkingv1beta1.GatewayServer)
		g := &gateway{options: Options{Server: server, Address: netip.MustParseAddr(clientAt)}}
		snapshot := &agent.Snapshot{}
		if tc.gateway != nil {
			snapshot.Objects = map[plan.Object]client.Object{g.planInput(snapshot).Of: tc.gateway}
		}
		if active, standby := g.isActive(snapshot), g.isStandby(snapshot); active != tc.active || standby != tc.standby {
			t.Errorf("%s: active %v, standby %v", name, active, standby)
		}
	}
}

// hush keeps the handshakes that a side begins from getting out: messages of WireGuard of the first type.
func (s *testGateway) hush(t *testing.T) {
	t.Helper()
	err := s.space.Inside(func() error {
		c, err := nftables.New()
		if err != nil {
			return err
		}
		table := c.AddTable(&nftables.Table{Family: nftables.TableFamilyIPv4, Name: "hush"})
		chain := c.AddChain(&nftables.Chain{
			Table: table, Name: "hush", Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookOutput, Priority: nftables.ChainPriorityFilter,
		})
		c.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: []expr.Any{
			&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
			&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{unix.IPPROTO_UDP}},
			&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 8, Len: 4}, // after the header of UDP
			&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{1, 0, 0, 0}},
			&expr.Verdict{Kind: expr.VerdictDrop},
		}})
		return c.Flush()
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Nobody counts answers there, and still a client finds its server, and the server remembers its client.
func TestGatewayPairUnwatched(t *testing.T) {
	t.Parallel()
	a, b := newTestGateways(t)
	a.options.Unwatched, b.options.Unwatched = true, true
	b.options.Endpoints, b.silence = []string{"192.0.2.9:51840", serverAt + ":51840"}, 2*time.Second
	a.run(t)
	b.run(t)
	a.trust(t, "peer", b)
	b.trust(t, "peer", a)
	testkit.Eventually(t, patience, func() error {
		status, err := b.device.Observe()
		if err == nil && (len(status.Peers) != 1 || status.Peers[0].LastHandshake.IsZero() || status.Peers[0].Endpoint.Addr().String() != serverAt) {
			err = fmt.Errorf("the client has %+v", status)
		}
		if at := memoryIn(a.options.StateDir).loadEndpoint(); err == nil && at.Addr().String() != clientAt {
			err = fmt.Errorf("the server remembers a client at %s", at)
		}
		return err
	})
}

// Loss is seen at both ends, also of large packets alone, and of one direction.
func TestConnectionDownPacketLoss(t *testing.T) {
	t.Parallel()
	a, b := newTestGateways(t)
	for _, s := range []*testGateway{a, b} {
		s.options.PingLossThreshold = 5 // after a second, and it has five
		s.run(t)
	}
	a.trust(t, "peer", b)
	b.trust(t, "peer", a)
	a.is(t, connected)
	b.is(t, connected)
	const everything, large = 0, 1000
	for name, test := range map[string]struct {
		at     *testGateway
		device string
		above  uint16 // bytes of a packet
	}{
		"everything, outside":            {a, "eth0", everything},
		"large packets, outside":         {b, "eth0", large},
		"everything, in the tunnel":      {b, names.TunnelDevice, everything},
		"large packets, in the tunnel":   {a, names.TunnelDevice, large},
		"large packets, from the server": {b, names.TunnelDevice, large},
	} {
		t.Log(name)
		restore := test.at.space.Lose(t, test.device, test.above)
		a.is(t, broken)
		b.is(t, broken)
		restore()
		a.is(t, connected)
		b.is(t, connected)
	}
}

// A Connection is the way of pods, too, which nodes know of.
func TestConnectionDownNodes(t *testing.T) {
	a, b := newTestGateways(t)
	a.run(t)
	b.run(t)
	a.trust(t, "peer", b)
	b.trust(t, "peer", a)
	a.is(t, connected)
	b.is(t, connected)
	var nodes []*networkingv1beta1.InternalNode
	for range 2 {
		n := &networkingv1beta1.InternalNode{ObjectMeta: metav1.ObjectMeta{Name: testkit.UniqueID()}}
		testkit.Create(t, a, n)
		t.Cleanup(func() { _ = client.IgnoreNotFound(a.Delete(context.Background(), n)) }) // gateways of other tests see it, too
		nodes = append(nodes, n)
	}
	slices.SortFunc(nodes, func(a, b *networkingv1beta1.InternalNode) int { return strings.Compare(a.Name, b.Name) })
	says := func(n *networkingv1beta1.InternalNode, value networkingv1beta1.ConnectionStatusValue) {
		t.Helper()
		testkit.UpdateStatus(t, a, n, func(n *networkingv1beta1.InternalNode) {
			n.Status.Peers = []networkingv1beta1.InternalNodePeer{{ClusterID: a.options.RemoteClusterID, Value: value}}
		})
	}
	fails := func(reach networkingv1beta1.ConnectionReach, nodes ...string) {
		t.Helper()
		testkit.Eventually(t, patience, func() error {
			conn := &networkingv1beta1.Connection{}
			if err := a.Get(t.Context(), client.ObjectKey{Namespace: a.options.Namespace, Name: names.Gateway(a.options.Name)}, conn); err != nil {
				return err
			}
			if got := conn.Status; got.Value != broken || got.Reach != reach || !slices.Equal(got.FailedNodes, nodes) {
				return fmt.Errorf("the Connection is %+v, want that %s reach the peer, but for %v", got, reach, nodes)
			}
			return nil
		})
	}
	first, second := nodes[0], nodes[1]
	says(first, connected)
	says(second, broken)
	fails(networkingv1beta1.ReachSome, second.Name)
	says(first, broken)
	fails(networkingv1beta1.ReachNone, first.Name, second.Name)
	says(second, connected)
	fails(networkingv1beta1.ReachSome, first.Name)
	if err := a.Delete(t.Context(), first); err != nil { // nobody waits for a node that is gone
		t.Fatal(err)
	}
	a.is(t, connected)
	b.is(t, connected)
}

// The tunnel goes down right after some nodes failed, and the cache knows nothing of that yet.
func TestConnectionStatusWhole(t *testing.T) {
	c := testkit.Cluster(t).Client
	conn := &networkingv1beta1.Connection{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: testkit.UniqueID()}}
	testkit.Create(t, c, conn)
	g, stale := &gateway{client: c}, conn.DeepCopy()
	for i := range reflect.TypeFor[networkingv1beta1.ConnectionStatus]().NumField() {
		if reflect.ValueOf(anything).Field(i).IsZero() {
			t.Errorf("field %d is not written", i)
		}
	}
	latency := networkingv1beta1.ConnectionLatency{Value: "7ms", Timestamp: metav1.Unix(1764072000, 0)}
	for _, want := range []networkingv1beta1.ConnectionStatus{
		{Value: broken, Reach: networkingv1beta1.ReachSome, FailedNodes: []string{"a", "b"}, Latency: latency, MTU: 1340},
		{Value: broken, Lost: networkingv1beta1.LostAll},
		{Value: connected, Latency: latency, MTU: 1340},
		{},
	} {
		if _, err := g.writeStatus(t.Context(), stale, want); err != nil {
			t.Fatal(err)
		}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(conn), conn); err != nil {
			t.Fatal(err)
		}
		if !apiequality.Semantic.DeepEqual(conn.Status, want) {
			t.Errorf("the status is %+v, want %+v", conn.Status, want)
		}
	}
}

func TestPeerRevoked(t *testing.T) {
	t.Parallel()
	a, b := newTestGateways(t)
	a.run(t)
	b.run(t)
	both := func(want networkingv1beta1.ConnectionStatusValue) {
		t.Helper()
		a.is(t, want)
		b.is(t, want)
	}
	of, key := a.trust(t, "peer", b), b.key.Public()
	b.trust(t, "peer", a)
	both(connected)
	for name, corrupt := range map[string]func(bool){
		"the private key is none": func(on bool) {
			if a.write(t, a.key[:]); on {
				a.write(t, []byte("none"))
			}
		},
		"the kernel refuses": func(on bool) { a.kernel.refuses.Store(on) },
	} {
		t.Log(name)
		corrupt(true)
		other := a.trust(t, "peer-2", &testGateway{key: newKey(t)}) // the newer one, also of the same second; it has to wait
		a.peers(t)
		a.is(t, connecting, broken)
		b.is(t, broken)
		if err := errors.Join(a.Delete(t.Context(), of), a.Delete(t.Context(), other)); err != nil {
			t.Fatal(err)
		}
		of = a.trust(t, "peer", b)
		corrupt(false)
		a.peers(t, key)
		both(connected)
	}
}

// Nobody looks for that by the clock, which would come round in an hour: the kernel tells.
func TestGatewayDriftRepaired(t *testing.T) {
	a, _ := newTestGateways(t)
	a.options.PingInterval = time.Hour
	n := &networkingv1beta1.InternalNode{ObjectMeta: metav1.ObjectMeta{Name: testkit.UniqueID()}}
	n.Spec.Interface.Node.IP, n.Spec.Interface.Gateway.Name = "10.70.0.11", names.FabricDevice
	testkit.Create(t, a, n)
	t.Cleanup(func() { _ = client.IgnoreNotFound(a.Delete(context.Background(), n)) }) // gateways of other tests see it, too
	testkit.UpdateStatus(t, a, n, func(n *networkingv1beta1.InternalNode) {
		n.Status.NodeIP.Local, n.Status.NodeIP.Remote = new(networkingv1beta1.IP(clientAt)), new(networkingv1beta1.IP(clientAt))
	})
	a.run(t)
	testkit.Eventually(t, patience, func() error {
		return errors.Join(a.holds("neigh 10.70.0.11 "), a.holds("rule pref 110 from 10.71.0.0/16 "), a.holds("table ip liqo"))
	})
	k, err := kernel.Open(kernel.Options{Namespace: a.space.Path})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	before, err := k.Observe()
	if err != nil {
		t.Fatal(err)
	}
	some := func(n int, err error) error {
		if n == 0 {
			err = errors.Join(err, errors.New("there is none"))
		}
		return err
	}
	for what, undo := range map[string]func() error{
		"tables of nftables": func() error {
			return a.space.Inside(func() error {
				nft, err := nftables.New()
				if err != nil {
					return err
				}
				nft.FlushRuleset()
				return nft.Flush()
			})
		},
		"routes": func() error {
			all, err := a.space.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{Protocol: datapath.Protocol}, netlink.RT_FILTER_PROTOCOL|netlink.RT_FILTER_TABLE)
			for _, one := range all {
				err = errors.Join(err, a.space.RouteDel(&one))
			}
			return some(len(all), err)
		},
		"rules of routing": func() error {
			n := 0
			all, err := a.space.RuleList(netlink.FAMILY_V4)
			for _, one := range all {
				if one.Protocol == datapath.Protocol {
					n, err = n+1, errors.Join(err, a.space.RuleDel(&one))
				}
			}
			return some(n, err)
		},
		"the fabric's device": func() error { return a.space.LinkDel(a.space.Link(t, names.FabricDevice)) },
	} {
		t.Logf("%s: gone", what)
		if err := undo(); err != nil {
			t.Fatal(err)
		}
		testkit.Eventually(t, patience, func() error {
			now, err := k.Observe()
			if diff := cmp.Diff(before.String(), now.String()); err == nil && diff != "" {
				err = errors.New(diff)
			}
			return err
		})
	}
}

func TestGatewayWithoutKey(t *testing.T) {
	t.Parallel()
	a, b := newTestGateways(t)
	a.run(t)
	testkit.Eventually(t, patience, func() error {
		l, err := a.space.LinkByName(names.TunnelDevice)
		if err != nil {
			return err
		}
		addresses, err := a.space.AddrList(l, netlink.FAMILY_V4)
		if err != nil {
			return err
		}
		if len(addresses) != 1 || addresses[0].IPNet.String() != "169.254.18.1/30" {
			return fmt.Errorf("the tunnel has the addresses %v", addresses)
		}
		return nil
	})
	var list networkingv1beta1.ConnectionList
	if err := a.List(t.Context(), &list, client.InNamespace(a.options.Namespace)); err != nil {
		t.Fatal(err)
	}
	if len(list.Items) > 0 {
		t.Errorf("there is a Connection with nobody: %+v", list.Items)
	}
	short := a.trust(t, "short", b)
	testkit.Update(t, a, short, func(k *networkingv1beta1.PublicKey) { k.Spec.PublicKey = []byte("short") })
	testkit.WantEvent(t, a.cluster, short, "NotApplied", "spec.publicKey")
	if status, err := a.device.Observe(); err != nil || len(status.Peers) != 0 {
		t.Errorf("the device has peers: %+v, %v", status, err)
	}
}
