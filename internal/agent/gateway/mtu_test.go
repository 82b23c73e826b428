// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sys/unix"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/agent"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/network/plan"
	"liqo.io/liqo/internal/prefix"
	"liqo.io/liqo/internal/testkit"
)

// gateway makes the object of a side's gateway, for events to be of.
func (s *testGateway) gateway(t *testing.T) client.Object {
	t.Helper()
	var obj client.Object = &networkingv1beta1.GatewayClient{ObjectMeta: s.meta(s.options.Name)}
	if s.options.Server {
		obj = &networkingv1beta1.GatewayServer{ObjectMeta: s.meta(s.options.Name)}
	}
	testkit.Create(t, s, obj)
	t.Cleanup(func() { _ = s.Delete(context.Background(), obj) }) // gateways of other tests see it, too
	return obj
}

// sizes waits for all of a side to have an MTU.
func (s *testGateway) sizes(t *testing.T, mtu int) {
	t.Helper()
	testkit.Eventually(t, patience, func() error {
		if c := s.is(t, connected); c.Status.MTU != mtu {
			return fmt.Errorf("the Connection of %s tells of an MTU of %d, not %d", s.options.RemoteClusterID, c.Status.MTU, mtu)
		}
		metric := fmt.Sprintf("liqo_peer_mtu_bytes{cluster_id=%q,driver=\"wireguard\"} %d\n", s.options.RemoteClusterID, mtu)
		if text := exposed(t, s.exporter); !strings.Contains(text, metric) {
			return fmt.Errorf("there is no %s in %s", metric, text)
		}
		got, err := s.toPeer()
		if err == nil && got != mtu {
			err = fmt.Errorf("packets from %s have %d bytes at most, not %d", s.options.RemoteClusterID, got, mtu)
		}
		return err
	})
}

// toPeer is the size of packets to the networks of the peer, as the kernel has it.
func (s *testGateway) toPeer() (mtu int, err error) {
	err = s.space.Inside(func() error {
		conn, err := net.Dial("udp", "10.71.0.1:9")
		if err != nil {
			return err
		}
		defer conn.Close()
		raw, err := conn.(*net.UDPConn).SyscallConn()
		if err != nil {
			return err
		}
		var option error
		if err := raw.Control(func(fd uintptr) { mtu, option = unix.GetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_MTU) }); err != nil {
			return err
		}
		return option
	})
	return mtu, err
}

// watch notes each state of the Connection of a side from now on, until the one that it has when seen is called.
func (s *testGateway) watch(t *testing.T) (seen func() []networkingv1beta1.ConnectionStatus) {
	t.Helper()
	w, err := s.cluster.Client.Watch(t.Context(), &networkingv1beta1.ConnectionList{}, client.InNamespace(s.options.Namespace))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	var mu sync.Mutex
	var all []networkingv1beta1.ConnectionStatus
	shown := map[string]bool{} // by version
	go func() {
		for event := range w.ResultChan() {
			if c, ok := event.Object.(*networkingv1beta1.Connection); ok {
				mu.Lock()
				all, shown[c.ResourceVersion] = append(all, c.Status), true
				mu.Unlock()
			}
		}
	}()
	return func() []networkingv1beta1.ConnectionStatus {
		testkit.Eventually(t, patience, func() error {
			c := s.is(t, connected)
			mu.Lock()
			defer mu.Unlock()
			if !shown[c.ResourceVersion] {
				return fmt.Errorf("of %d states that were watched none is %+v", len(all), c.Status)
			}
			return nil
		})
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(all)
	}
}

func TestMTUFound(t *testing.T) {
	t.Parallel()
	a, b := newTestGateways(t)
	var stop, restore []func()
	for _, s := range []*testGateway{a, b} {
		s.options.PingLossThreshold = 50 // busy machines are slow
		s.gateway(t)
		stop = append(stop, s.run(t))
	}
	a.trust(t, "peer", b)
	b.trust(t, "peer", a)
	for _, s := range []*testGateway{a, b} {
		s.sizes(t, names.DefaultMTU)
	}

	t.Log("packets of more than 1300 bytes get lost on the way, and nobody says so")
	ofA, ofB := a.watch(t), b.watch(t)
	for _, s := range []*testGateway{a, b} {
		restore = append(restore, s.space.Lose(t, "eth0", 1300))
	}
	const fits = 1232 // with 60 bytes around it; 1248 would not
	for _, s := range []*testGateway{a, b} {
		s.sizes(t, fits)
		gateway := &networkingv1beta1.GatewayServer{ObjectMeta: s.meta(s.options.Name)}
		testkit.WantEvent(t, s.cluster, gateway, reasonMTULowered, "larger packets than")
	}
	for _, seen := range [][]networkingv1beta1.ConnectionStatus{ofA(), ofB()} {
		// It may be less for a while where answers are late.
		found := slices.ContainsFunc(seen, func(c networkingv1beta1.ConnectionStatus) bool { return c.MTU == fits })
		if seen[0].MTU != names.DefaultMTU || !found {
			t.Errorf("the search was not watched as a whole: %+v", seen)
		}
		for _, status := range seen {
			if status.Value != connected {
				t.Errorf("while the MTU was searched for a Connection was %+v", status)
			}
		}
	}

	t.Log("another process of the client knows")
	ofB = b.watch(t)
	stop[1]()
	a.is(t, broken)
	stop[1] = b.run(t)
	b.sizes(t, fits)
	a.is(t, connected)
	for _, status := range ofB() { // it may be less for a while where answers are late
		if status.MTU < floorIPv4 || status.MTU > fits {
			t.Errorf("with another process a Connection was %+v", status)
		}
	}

	t.Log("large packets pass again, which yet another one finds out")
	restore[0]()
	restore[1]()
	stop[1]()
	a.is(t, broken)
	b.run(t)
	b.sizes(t, names.DefaultMTU)
	testkit.WantEvent(t, b.cluster, &networkingv1beta1.GatewayClient{ObjectMeta: b.meta(b.options.Name)}, reasonMTURaised, "packets of 1340 bytes pass")
	a.is(t, connected)
}

// Each side has its own bound. What the peer does not send is not sent to it either.
func TestMTUOfSmallerSide(t *testing.T) {
	t.Parallel()
	a, b := newTestGateways(t)
	a.options.MTU = 1400
	a.run(t)
	b.run(t)
	a.trust(t, "peer", b)
	b.trust(t, "peer", a)
	b.sizes(t, names.DefaultMTU)
	a.sizes(t, 1328)
}

func TestMTUFloor(t *testing.T) {
	o := Options{Namespace: "tenant", RemoteClusterID: "rome"}
	pairs := func(cidr string) []prefix.Pair {
		return []prefix.Pair{{Remote: netip.MustParsePrefix(cidr), Local: netip.MustParsePrefix(cidr)}}
	}
	v4, v6 := pairs("10.71.0.0/16"), pairs("fd00:71::/56")
	for name, test := range map[string]struct {
		peer plan.Peer
		want int
	}{
		"IPv4":               {plan.Peer{Key: o.peerKey(), Pods: v4, External: v4}, floorIPv4},
		"IPv6":               {plan.Peer{Key: o.peerKey(), Pods: v6}, floorIPv6},
		"IPv6 for addresses": {plan.Peer{Key: o.peerKey(), Pods: v4, External: v6}, floorIPv6},
		"IPv6 of another":    {plan.Peer{Pods: v6}, floorIPv4},
	} {
		snapshot := &agent.Snapshot{}
		snapshot.Peers = []plan.Peer{test.peer}
		if got := floorOf(snapshot, o); got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
}

// remembers is an API server that knows one thing: the MTU that an earlier process found.
type remembers struct {
	client.Client
	mtu int
}

func (r remembers) Get(_ context.Context, _ client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	obj.(*networkingv1beta1.Connection).Status.MTU = r.mtu
	return nil
}

// The bound was raised to 1400 bytes, and the process before found 1340.
func TestMTURaised(t *testing.T) {
	for name, test := range map[string]struct {
		unwatched, answers, pads bool
		first, then              int
	}{
		"a peer that pads":          {answers: true, pads: true, first: 1340, then: 1340}, // until a larger one is found to pass
		"a peer that does not":      {answers: true, first: 1340, then: 1400},
		"a peer that does not talk": {first: 1340, then: 1340},
		"an unwatched tunnel":       {unwatched: true, first: 1400, then: 1400},
	} {
		o := Options{RemoteClusterID: "rome", MTU: 1400, PingInterval: time.Second, PingLossThreshold: 4, Unwatched: test.unwatched}
		g := &gateway{client: remembers{mtu: 1340}, options: o, prober: newProber(o, netip.Addr{}, netip.Addr{}, logr.Discard(), func() {})}
		g.setMTU(t.Context(), &agent.Snapshot{})
		first := g.mtu
		if now, _ := g.prober.recordSent(); test.answers {
			reply := probePacket{ClusterID: "rome", Type: pong, Time: now}
			if test.pads {
				reply.Padding = "."
			}
			g.prober.recordAnswer(reply, 100)
		}
		if g.setMTU(t.Context(), &agent.Snapshot{}); first != test.first || g.mtu != test.then {
			t.Errorf("%s: the MTU is %d and then %d, want %d and %d", name, first, g.mtu, test.first, test.then)
		}
	}
}
