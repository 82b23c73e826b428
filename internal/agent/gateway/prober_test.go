// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"

	"liqo.io/liqo/internal/testkit"
)

func TestProberAnswers(t *testing.T) {
	anywhere := netip.MustParseAddrPort("127.0.0.1:0")
	ours, err := bindSocket(anywhere)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := bindSocket(anywhere)
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	p := newProber(Options{PingInterval: time.Second}, anywhere.Addr(), anywhere.Addr(), logr.Discard(), func() {})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = p.receiveAll(ours)
	}()
	defer func() {
		_ = ours.Close()
		<-ended
	}()
	data, err := encodeQuestion("rome", noon, 0)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	if _, err := theirs.WriteToUDP(data, ours.LocalAddr().(*net.UDPAddr)); err != nil {
		t.Fatal(err)
	}
	if err := theirs.SetReadDeadline(start.Add(patience)); err != nil {
		t.Fatal(err)
	}
	buffer := make([]byte, maxProbe)
	n, err := theirs.Read(buffer)
	if err != nil {
		t.Fatal(err)
	}
	if reply, err := decodeProbe(buffer[:n]); err != nil || reply.Type != pong {
		t.Errorf("answered %+v, %v", reply, err)
	}
	if p.pathHealth().Asked.Before(start) {
		t.Error("the question is not noted")
	}
}

func TestProberGoodbyes(t *testing.T) {
	for server, want := range map[bool]int{false: 8, true: 0} {
		synctest.Test(t, func(t *testing.T) {
			beats := 0
			p := newProber(Options{PingInterval: time.Second, Server: server}, netip.Addr{}, netip.Addr{}, logr.Discard(), func() { beats++ })
			for range 200 { // in two seconds
				p.hearGoodbye()
				time.Sleep(10 * time.Millisecond)
			}
			if beats != want || p.pathHealth().Left.IsZero() != server {
				t.Errorf("server %t: 200 goodbyes wake the loop %d times, want %d; the last one counts at %s", server, beats, want, p.pathHealth().Left)
			}
		})
	}
}

// TestProberSuspicions has the network say, all the time, that nothing receives at the server's address. What the prober finds without an answer
// counts once, until the next answer.
func TestProberSuspicions(t *testing.T) {
	for name, test := range map[string]struct {
		trip  time.Duration // of an answer; 0: none comes
		every int           // question that is answered
		sent  [2]uint64     // questions in ten intervals, at least and at most
		lefts int           // goodbyes that are assumed
	}{
		"server answers":          {trip: time.Millisecond, every: 1, sent: [2]uint64{20, 22}},
		"every other answer lost": {trip: time.Millisecond, every: 2, sent: [2]uint64{20, 32}},
		"far server answers":      {trip: 300 * time.Millisecond, every: 1, sent: [2]uint64{10, 11}},
		"server is gone":          {sent: [2]uint64{28, 32}, lefts: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const interval = time.Second
				p := newProber(Options{PingInterval: interval}, netip.Addr{}, netip.Addr{}, logr.Discard(), func() {})
				var asked uint64
				p.beat = func() { // after each question, and when an answer is late
					n, at := p.pathHealth().Small.Sent, time.Now()
					time.Sleep(time.Microsecond) // no two questions have one time
					if n == asked {
						return
					}
					asked = n
					first := n == 1
					if !first && (test.trip == 0 || n%uint64(test.every) != 0) {
						return
					}
					time.AfterFunc(max(test.trip, time.Millisecond), func() {
						p.mu.Lock()
						defer p.mu.Unlock()
						p.pulse.Small.Hear(at, time.Now())
					})
				}
				conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					p.sendQuestions(ctx, conn)
				}()
				time.Sleep(interval / 2) // for the first answer
				before := p.pathHealth().Small.Sent
				var left []time.Time
				for end := time.Now().Add(10 * interval); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
					p.suspectServer()
					if at := p.pathHealth().Left; !at.IsZero() && !slices.Contains(left, at) {
						left = append(left, at)
					}
				}
				if n := p.pathHealth().Small.Sent - before; n < test.sent[0] || n > test.sent[1] {
					t.Errorf("%d questions were sent, want %d", n, test.sent)
				}
				if len(left) != test.lefts {
					t.Errorf("the server left at %v, want %d times", left, test.lefts)
				}
				cancel()
				<-ended
			})
		})
	}
}

// simulatedTunnel is a tunnel on which packets up to a size pass, and answers come after a round trip.
type simulatedTunnel struct {
	*tunnelProber
	passes     int
	trip, late time.Duration // late are questions, where their turn comes too late
	up         time.Time     // when it was, last
	down       time.Time     // when it was, last
}

func newSimulatedTunnel(trip time.Duration) *simulatedTunnel {
	o := Options{RemoteClusterID: "rome", MTU: 1340, PingInterval: time.Second, PingLossThreshold: 4}
	w := &simulatedTunnel{tunnelProber: newProber(o, netip.Addr{}, netip.Addr{}, logr.Discard(), func() {}), passes: o.MTU, trip: trip}
	w.setFloor(floorIPv4)
	return w
}

// look notes whether the tunnel is up.
func (w *simulatedTunnel) look() {
	if health := w.pathHealth(); health.Up(time.Now()) {
		w.up = time.Now()
	} else {
		w.down = time.Now()
	}
}

// second is one interval. Little changes between questions and answers, so it is looked at before each, and after.
func (w *simulatedTunnel) second(t *testing.T) {
	t.Helper()
	time.Sleep(w.late)
	w.look()
	now, sizes := w.recordSent()
	time.Sleep(w.trip)
	w.look()
	for _, size := range sizes {
		data, err := encodeQuestion(w.cluster, now, size)
		if err != nil {
			t.Fatal(err)
		}
		if len(data)+overhead > w.passes {
			continue
		}
		reply, err := decodeProbe(data)
		if err != nil {
			t.Fatal(err)
		}
		reply.Type = pong
		w.recordAnswer(reply, len(data))
	}
	w.look()
	time.Sleep(w.interval - w.trip - w.late)
}

// From one second to the next less passes. A ticker is late now and then, and a round trip may be shorter than that.
func TestProberDuringMTUSearch(t *testing.T) {
	for _, trip := range []time.Duration{10 * time.Microsecond, time.Millisecond, 20 * time.Millisecond, 300 * time.Millisecond} {
		for _, late := range []time.Duration{0, time.Millisecond, 50 * time.Millisecond, 600 * time.Millisecond} {
			for _, passes := range []int{1339, 1232, 1100, 1024, 1023, 600} {
				synctest.Test(t, func(t *testing.T) {
					w := newSimulatedTunnel(trip)
					for range 5 {
						w.second(t)
					}
					last := w.up // answers come right before the loss
					w.passes = passes
					for i := range 20 {
						if i == 3 { // when the MTU is to be lowered
							w.late = late
						}
						w.second(t)
					}
					switch mtu := w.foundMTU(); {
					case passes >= floorIPv4 && w.down.After(last):
						t.Errorf("trip of %s, %s late, %d bytes pass: it is down after %s", trip, late, passes, w.down.Sub(last))
					case passes >= floorIPv4 && (mtu > passes || mtu < passes-step):
						t.Errorf("trip of %s, %s late: the MTU is %d, and %d pass", trip, late, mtu, passes)
					case passes < floorIPv4 && w.up.Sub(last) > 4*time.Second+late:
						t.Errorf("trip of %s, %s late: %d bytes pass, and it is up for %s", trip, late, passes, w.up.Sub(last))
					}
				})
			}
		}
	}
}

// TestProberSendNow has a gateway that probes once in an hour, and on request at once.
func TestProberSendNow(t *testing.T) {
	local, remote := netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("127.0.0.2")
	port, interval := uint16(testkit.Port(t)), time.Hour
	first := make(chan struct{}, 8)
	near := newProber(Options{RemoteClusterID: "milan", MTU: 1340, PingInterval: interval, PingPort: port, PingLossThreshold: 3}, local, remote, logr.Discard(), func() {})
	far := newProber(Options{RemoteClusterID: "rome", MTU: 1340, PingInterval: interval, PingPort: port, PingLossThreshold: 3}, remote, local, logr.Discard(), func() {})
	near.answered = func(time.Duration) { first <- struct{}{} }
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	running.Go(func() { _ = far.Start(ctx) })
	testkit.Eventually(t, patience, func() error {
		if far.pathHealth().Began.IsZero() {
			return errors.New("it does not listen yet")
		}
		return nil
	})
	running.Go(func() { _ = near.Start(ctx) })
	<-first
	before := near.Paths()[0].Health.Small.At
	near.SendNow()
	<-first
	if path := near.Paths()[0]; path.Peer != "milan" || !path.Health.Small.At.After(before) {
		t.Errorf("the path is %+v, answered before at %s", path, before)
	}
}
