// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
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
	began := time.Now()
	if _, err := theirs.WriteToUDP(data, ours.LocalAddr().(*net.UDPAddr)); err != nil {
		t.Fatal(err)
	}
	if err := theirs.SetReadDeadline(began.Add(patience)); err != nil {
		t.Fatal(err)
	}
	buffer := make([]byte, maxProbe)
	n, err := theirs.Read(buffer)
	if err != nil {
		t.Fatal(err)
	}
	if answer, err := decodeProbe(buffer[:n]); err != nil || answer.Type != pong {
		t.Errorf("answered %+v, %v", answer, err)
	}
	if p.pathHealth().Asked.Before(began) {
		t.Error("the question is not noted")
	}
}

// way is a tunnel on which packets up to a size pass, and answers come after a round trip.
type way struct {
	*tunnelProber
	passes     int
	trip, late time.Duration // late are questions, where their turn comes too late
	up         time.Time     // when it was, last
	down       time.Time     // when it was, last
}

func newWay(trip time.Duration) *way {
	o := Options{RemoteClusterID: "rome", MTU: 1340, PingInterval: time.Second, PingLossThreshold: 4}
	w := &way{tunnelProber: newProber(o, netip.Addr{}, netip.Addr{}, logr.Discard(), func() {}), passes: o.MTU, trip: trip}
	w.setFloor(floorIPv4)
	return w
}

// look notes whether the tunnel is up.
func (w *way) look() {
	if beat := w.pathHealth(); beat.Up(time.Now()) {
		w.up = time.Now()
	} else {
		w.down = time.Now()
	}
}

// second is one interval. Little changes between questions and answers, so it is looked at before each, and after.
func (w *way) second(t *testing.T) {
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
		answer, err := decodeProbe(data)
		if err != nil {
			t.Fatal(err)
		}
		answer.Type = pong
		w.recordAnswer(answer, len(data))
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
					w := newWay(trip)
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
