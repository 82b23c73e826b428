// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"context"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/agent"
	"liqo.io/liqo/internal/datapath"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/network/plan"
)

// target is where probes of the way to a peer go.
type target struct {
	peer     string // ID of its cluster
	from, to netip.Addr
	mtu      int // of the route, in bytes
}

// targets are the peers that routes of a node lead to. What goes to the address that a peer's gateways have, and back, took the whole way
// to them. There is no other such address: of a peer without a route there nothing is known.
func targets(peers []plan.Peer, state datapath.State) []target {
	var out []target
	for _, p := range peers {
		here := p.Gateways()
		i := slices.IndexFunc(state.Routes, func(r datapath.Route) bool {
			return r.To == here && r.Device == names.FabricDevice && r.Source.IsValid() && r.MTU > 0
		})
		if i >= 0 {
			r := state.Routes[i]
			out = append(out, target{p.Key.ClusterID, r.Source, here.Addr(), r.MTU})
		}
	}
	slices.SortFunc(out, func(a, b target) int { return cmp.Compare(a.peer, b.peer) })
	return out
}

// way is what is known of the way to a peer.
type way struct {
	target
	id    uint64    // tells its answers from those of another one
	next  time.Time // when it is asked
	pulse agent.Pulse
	value networkingv1beta1.ConnectionStatusValue
	since time.Time
}

// prober asks peers by the way that pods of this node take, small and full packets, while there is a gateway.
type prober struct {
	interval  time.Duration
	threshold int
	log       logr.Logger
	beat      func() // is called when something else is to be said of a way
	listen    func(netip.Addr) (*net.IPConn, error)
	news      chan struct{}                     // a way is new
	phase     func(time.Duration) time.Duration // is any time that is shorter

	listening  sync.WaitGroup
	id         uint16
	sequence   uint16
	complained string

	mu    sync.Mutex // guards what follows
	ways  []*way
	conns map[netip.Addr]*net.IPConn
}

func newProber(o Options, log logr.Logger, beat func()) *prober {
	return &prober{
		interval: o.PingInterval, threshold: o.PingLossThreshold, log: log, beat: beat, listen: listen,
		news: make(chan struct{}, 1), phase: rand.N[time.Duration], id: uint16(rand.Uint32()), conns: map[netip.Addr]*net.IPConn{},
	}
}

// NeedLeaderElection is false: each node has its own ways.
func (p *prober) NeedLeaderElection() bool { return false }

// to has these probed, and no others. Of one that is as it was, all that is known stays. A new one is asked at some time of the interval:
// all nodes hear of a gateway at once, and their questions share a tunnel.
func (p *prober) to(want []target) {
	if p.interval <= 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var ways []*way
	for _, t := range want {
		i := slices.IndexFunc(p.ways, func(w *way) bool { return w.target == t })
		if i >= 0 {
			ways = append(ways, p.ways[i])
			continue
		}
		ways = append(ways, &way{
			target: t, id: rand.Uint64(), next: time.Now().Add(p.phase(p.interval)),
			pulse: agent.Pulse{Interval: p.interval, Threshold: p.threshold, Pads: true},
		})
		select {
		case p.news <- struct{}{}:
		default:
		}
	}
	p.ways = ways
	for from, conn := range p.conns {
		if !slices.ContainsFunc(ways, func(w *way) bool { return w.from == from }) {
			_ = conn.Close()
			delete(p.conns, from)
		}
	}
}

// now is what is known of all ways, by peer.
func (p *prober) now() []way {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []way
	for _, w := range p.ways {
		seen := *w
		seen.pulse = w.pulse.Copy()
		out = append(out, seen)
	}
	return out
}

// Start probes until the process ends.
func (p *prober) Start(ctx context.Context) error {
	defer p.close()
	for {
		p.ask(time.Now())
		again := time.NewTimer(p.look(time.Now()))
		select {
		case <-again.C:
		case <-p.news:
		case <-ctx.Done():
			again.Stop()
			return nil
		}
		again.Stop()
	}
}

func (p *prober) close() {
	p.mu.Lock()
	for _, conn := range p.conns {
		_ = conn.Close()
	}
	clear(p.conns)
	p.mu.Unlock()
	p.listening.Wait()
}

// ask sends the questions that are due, a small and a full one for each way. Of a way by which none could ever be asked nothing is known;
// where none can be asked any more none is answered.
func (p *prober) ask(now time.Time) {
	type asked struct {
		way
		conn *net.IPConn
	}
	var all []asked
	var failed error
	due := 0
	p.mu.Lock()
	for _, w := range p.ways {
		if now.Before(w.next) {
			continue
		}
		w.next = now.Add(p.interval)
		conn, err := p.conn(w.from)
		if err == nil || !w.pulse.Began.IsZero() {
			w.pulse.Ask(now)
		}
		due++
		if err != nil {
			failed = err
			continue
		}
		all = append(all, asked{*w, conn})
	}
	p.mu.Unlock()
	if due == 0 {
		return
	}
	p.complain(failed)
	p.sequence++
	for _, a := range all {
		for _, size := range []int{smallest(a.to), a.mtu} {
			question := echo{way: a.id, asked: now, size: size}.question(a.to, p.id, p.sequence)
			_, _ = a.conn.WriteToIP(question, &net.IPAddr{IP: a.to.AsSlice()}) // what is not sent is not answered
		}
	}
}

// complain logs an error once.
func (p *prober) complain(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != "" && text != p.complained {
		p.log.Info("cannot probe the way to peers", "reason", text)
	}
	p.complained = text
}

// conn is the socket with which an address asks. It is opened as soon as the node has the address.
func (p *prober) conn(from netip.Addr) (*net.IPConn, error) {
	if conn := p.conns[from]; conn != nil {
		return conn, nil
	}
	conn, err := p.listen(from)
	if err != nil {
		return nil, err
	}
	p.conns[from] = conn
	p.listening.Go(func() { p.hearAll(conn, from) })
	return conn, nil
}

// hearAll takes answers in until the socket is closed.
func (p *prober) hearAll(conn *net.IPConn, at netip.Addr) {
	buffer := make([]byte, 1<<16)
	for {
		n, from, err := conn.ReadFromIP(buffer)
		if err != nil {
			break
		}
		if addr, ok := netip.AddrFromSlice(from.IP); ok {
			p.hear(addr.Unmap(), buffer[:n], time.Now())
		}
	}
	_ = conn.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conns[at] == conn {
		delete(p.conns, at)
	}
}

func (p *prober) hear(from netip.Addr, data []byte, now time.Time) {
	answer, ok := decodeEcho(from, data)
	if !ok {
		return
	}
	p.mu.Lock()
	changed := false
	for _, w := range p.ways {
		if w.to != from || w.id != answer.way {
			continue
		}
		if answer.size >= w.mtu {
			w.pulse.Full.Hear(answer.asked, now)
		} else {
			w.pulse.Small.Hear(answer.asked, now)
		}
		changed = w.judge(now)
	}
	p.mu.Unlock()
	if changed {
		p.beat()
	}
}

// look judges all ways. It returns when to look again, or to ask.
func (p *prober) look(now time.Time) time.Duration {
	p.mu.Lock()
	changed, again := false, p.interval
	for _, w := range p.ways {
		changed = w.judge(now) || changed
		again = min(again, w.pulse.Next(now), max(w.next.Sub(now), 0))
	}
	p.mu.Unlock()
	if changed {
		p.beat()
	}
	return again
}

// judge tells whether something else is known now.
func (w *way) judge(now time.Time) bool {
	value := w.pulse.Value(w.value, now)
	if value == w.value {
		return false
	}
	w.value, w.since = value, now
	return true
}
