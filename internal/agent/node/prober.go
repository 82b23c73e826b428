// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/agent"
	"liqo.io/liqo/internal/network/plan"
)

// pathState is the health of the path to a peer.
type pathState struct {
	plan.Probe
	tag   uint64    // distinguishes the answers of this path from answers of other paths
	id    uint16    // ICMP identifier of the echoes, which are one flow
	next  time.Time // time of the next probe
	pulse agent.PathHealth
	value networkingv1beta1.ConnectionStatusValue
	since time.Time
}

// pathProber probes peers on the path of this node's pods, with small and full packets, while there is a gateway.
type pathProber struct {
	interval  time.Duration
	threshold int
	log       logr.Logger
	beat      func() // is called when something else is to be said of a way
	listen    func() (io.ReadWriteCloser, error)
	news      chan struct{}                     // a way is new
	phase     func(time.Duration) time.Duration // returns a random shorter duration

	listening  sync.WaitGroup
	sequence   uint16
	complained string

	mu   sync.Mutex // guards the fields below
	ways []*pathState
	conn io.ReadWriteCloser // nil: none is open
}

func newProber(o Options, log logr.Logger, heartbeat func()) *pathProber {
	return &pathProber{
		interval: o.PingInterval, threshold: o.PingLossThreshold, log: log, beat: heartbeat, listen: listenRaw,
		news: make(chan struct{}, 1), phase: rand.N[time.Duration],
	}
}

// NeedLeaderElection returns false: each node has its own paths.
func (p *pathProber) NeedLeaderElection() bool { return false }

// setTargets replaces the probed paths. An unchanged path keeps its health. The first probe of a new path is sent at a random time of the
// interval: all nodes notice a gateway at once, and their probes share a tunnel.
func (p *pathProber) setTargets(want []plan.Probe) {
	if p.interval <= 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var ways []*pathState
	for _, t := range want {
		i := slices.IndexFunc(p.ways, func(w *pathState) bool { return w.Probe == t })
		if i >= 0 {
			ways = append(ways, p.ways[i])
			continue
		}
		ways = append(ways, &pathState{
			Probe: t, tag: rand.Uint64(), id: uint16(rand.Uint32()), next: time.Now().Add(p.phase(p.interval)),
			pulse: agent.PathHealth{Interval: p.interval, Threshold: p.threshold, Pads: true},
		})
		select {
		case p.news <- struct{}{}:
		default:
		}
	}
	p.ways = ways
	if len(ways) == 0 {
		p.closeSocket()
	}
}

// pathStates returns the health of all paths, sorted by peer.
func (p *pathProber) pathStates() []pathState {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []pathState
	for _, w := range p.ways {
		seen := *w
		seen.pulse = w.pulse.Copy()
		out = append(out, seen)
	}
	return out
}

// SendNow has the next probes of all paths sent now.
func (p *pathProber) SendNow() {
	p.mu.Lock()
	for _, w := range p.ways {
		w.next = time.Time{}
	}
	p.mu.Unlock()
	select {
	case p.news <- struct{}{}:
	default:
	}
}

// Paths returns the health of all paths, sorted by peer.
func (p *pathProber) Paths() []agent.ProbedPath {
	var out []agent.ProbedPath
	for _, w := range p.pathStates() {
		out = append(out, agent.ProbedPath{Peer: w.Peer, MTU: w.MTU, Health: w.pulse})
	}
	return out
}

// Start probes until the process ends.
func (p *pathProber) Start(ctx context.Context) error {
	defer p.closeAll()
	for {
		p.sendProbes(time.Now())
		again := time.NewTimer(p.checkPaths(time.Now()))
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

func (p *pathProber) closeAll() {
	p.mu.Lock()
	p.closeSocket()
	p.mu.Unlock()
	p.listening.Wait()
}

// sendProbes sends the due probes, a small and a full packet for each path. A path that was never probed has no health. On a path that can no longer
// be probed, probes count as lost.
func (p *pathProber) sendProbes(now time.Time) {
	var all []pathState
	p.mu.Lock()
	due := slices.DeleteFunc(slices.Clone(p.ways), func(w *pathState) bool { return now.Before(w.next) })
	if len(due) == 0 {
		p.mu.Unlock()
		return
	}
	conn, err := p.openSocket()
	for _, w := range due {
		w.next = now.Add(p.interval)
		if err == nil || !w.pulse.Began.IsZero() {
			w.pulse.Ask(now)
		}
		all = append(all, *w)
	}
	p.mu.Unlock()
	p.logOnce(err)
	if err != nil {
		return
	}
	p.sequence++
	for _, w := range all {
		for _, size := range []int{smallestPacket(w.To), w.MTU} {
			_, _ = conn.Write(echoSocket{way: w.tag, asked: now, size: size}.encodeFrame(w.From, w.To, w.id, p.sequence)) // an unsent probe counts as lost
		}
	}
}

// logOnce logs an error once.
func (p *pathProber) logOnce(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != "" && text != p.complained {
		p.log.Info("cannot probe the way to peers", "reason", text)
	}
	p.complained = text
}

// openSocket returns the socket for probes, once the node has the device.
func (p *pathProber) openSocket() (io.ReadWriteCloser, error) {
	if p.conn != nil {
		return p.conn, nil
	}
	conn, err := p.listen()
	if err != nil {
		return nil, err
	}
	p.conn = conn
	p.listening.Go(func() { p.hearAll(conn) })
	return conn, nil
}

// hearAll receives answers until the socket is closed or its device is removed.
func (p *pathProber) hearAll(conn io.ReadWriteCloser) {
	buffer := make([]byte, 1<<17)
	for {
		n, err := conn.Read(buffer)
		if err != nil {
			break
		}
		p.recordAnswer(buffer[:n], time.Now())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conn == conn {
		p.closeSocket()
	}
}

// closeSocket closes the socket; the next probe opens a new socket.
func (p *pathProber) closeSocket() {
	if p.conn != nil {
		_ = p.conn.Close()
		p.conn = nil
	}
}

func (p *pathProber) recordAnswer(frame []byte, now time.Time) {
	from, answer, ok := decodeEcho(frame)
	if !ok {
		return
	}
	p.mu.Lock()
	changed := false
	for _, w := range p.ways {
		if w.To != from || w.tag != answer.way {
			continue
		}
		if answer.size >= w.MTU {
			w.pulse.Full.Hear(answer.asked, now)
		} else {
			w.pulse.Small.Hear(answer.asked, now)
		}
		changed = w.updateHealth(now)
	}
	p.mu.Unlock()
	if changed {
		p.beat()
	}
}

// checkPaths updates the health of all paths, and returns the delay until the next check or probe.
func (p *pathProber) checkPaths(now time.Time) time.Duration {
	p.mu.Lock()
	changed, again := false, p.interval
	for _, w := range p.ways {
		changed = w.updateHealth(now) || changed
		again = min(again, w.pulse.Next(now), max(w.next.Sub(now), 0))
	}
	p.mu.Unlock()
	if changed {
		p.beat()
	}
	return again
}

// updateHealth tells whether something else is known now.
func (w *pathState) updateHealth(now time.Time) bool {
	value := w.pulse.Value(w.value, now)
	if value == w.value {
		return false
	}
	w.value, w.since = value, now
	return true
}
