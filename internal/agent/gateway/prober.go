// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"liqo.io/liqo/internal/agent"
)

// prober asks the peer's gateway through the tunnel whether it is there, and answers when it asks.
type prober struct {
	cluster       string // ID of the peer
	ours, theirs  netip.AddrPort
	interval      time.Duration
	log           logr.Logger
	beat          func() // is called after each interval, and when the first answer comes
	answered      func(after time.Duration)
	bind          func(netip.AddrPort) (*net.UDPConn, error)
	size          int // of a full packet's message, in bytes
	lastListening error

	mu    sync.Mutex // guards pulse
	pulse agent.Pulse
}

// overhead of a message in a packet of IPv4: IP and UDP.
const overhead = 20 + 8

func bind(at netip.AddrPort) (*net.UDPConn, error) {
	return net.ListenUDP("udp", net.UDPAddrFromAddrPort(at))
}

func newProber(o Options, ours, theirs netip.Addr, log logr.Logger, beat func()) *prober {
	return &prober{
		cluster: o.RemoteClusterID, interval: o.PingInterval, log: log, beat: beat, answered: func(time.Duration) {}, bind: bind,
		ours: netip.AddrPortFrom(ours, o.PingPort), theirs: netip.AddrPortFrom(theirs, o.PingPort),
		size:  o.MTU - overhead,
		pulse: agent.Pulse{Interval: o.PingInterval, Threshold: o.PingLossThreshold},
	}
}

// Start probes until the process ends. Without the tunnel's address, which comes and may go, it waits for that.
func (p *prober) Start(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := p.probe(ctx); err != nil && ctx.Err() == nil {
			p.complain(err)
			pause(ctx, p.interval)
			p.beat()
		}
	}
	return nil
}

// NeedLeaderElection is false: who waits to lead answers, too.
func (p *prober) NeedLeaderElection() bool { return false }

// complain logs an error once.
func (p *prober) complain(err error) {
	if p.lastListening == nil || p.lastListening.Error() != err.Error() {
		p.log.V(1).Info("cannot probe the tunnel yet", "reason", err.Error())
	}
	p.lastListening = err
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

func (p *prober) probe(ctx context.Context) error {
	conn, err := p.bind(p.ours)
	if err != nil {
		return fmt.Errorf("listening for probes: %w", err)
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	defer conn.Close()
	p.lastListening = nil
	asked := make(chan struct{})
	asking, stop := context.WithCancel(ctx)
	go func() {
		defer close(asked)
		p.ask(asking, conn)
	}()
	err = p.listen(conn)
	stop()
	<-asked
	return err
}

// ask sends questions, a small and a full one at a time.
func (p *prober) ask(ctx context.Context, conn *net.UDPConn) {
	tick := time.NewTicker(p.interval)
	defer tick.Stop()
	for {
		now := p.note()
		for _, size := range []int{0, p.size} {
			if data, err := question(p.cluster, now, size); err == nil {
				_, _ = conn.WriteToUDPAddrPort(data, p.theirs) // what is not sent is not answered
			}
		}
		select {
		case <-tick.C:
			p.beat()
		case <-ctx.Done():
			return
		}
	}
}

// note remembers that the peer is asked now.
func (p *prober) note() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.pulse.Ask(now)
	return now
}

// listen answers questions, and takes answers in, until the socket is closed.
func (p *prober) listen(conn *net.UDPConn) error {
	buffer := make([]byte, maxProbe)
	for {
		n, from, err := conn.ReadFromUDPAddrPort(buffer)
		if err != nil {
			return fmt.Errorf("reading probes: %w", err)
		}
		if from.Addr().Unmap() != p.theirs.Addr() {
			continue
		}
		message, err := decodeProbe(buffer[:n])
		switch {
		case err != nil:
			p.log.V(1).Info("a message on the tunnel is no probe", "reason", err.Error())
		case message.Type == ping:
			p.hearQuestion()
			p.reply(conn, message, n, from)
		case message.ClusterID == p.cluster:
			p.hear(message, n)
		}
	}
}

// hearQuestion remembers that the peer asks now.
func (p *prober) hearQuestion() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pulse.Asked = time.Now()
}

func (p *prober) reply(conn *net.UDPConn, question probe, size int, to netip.AddrPort) {
	data, err := question.answer(size)
	if err != nil {
		p.log.V(1).Info("a probe is not answered", "reason", err.Error())
		return
	}
	_, _ = conn.WriteToUDPAddrPort(data, to)
}

func (p *prober) hear(answer probe, size int) {
	now := time.Now()
	p.mu.Lock()
	was, small := p.pulse.Up(now), false
	if size >= p.size {
		p.pulse.Full.Hear(answer.Time, now)
	} else if small = p.pulse.Small.Hear(answer.Time, now); small {
		p.pulse.Pads = answer.Padding != ""
	}
	is, after := p.pulse.Up(now), p.pulse.Small.Latency
	p.mu.Unlock()
	if small {
		p.answered(after)
	}
	if is && !was {
		p.beat()
	}
}

// forget begins anew: the peer is another one.
func (p *prober) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pulse = agent.Pulse{Interval: p.pulse.Interval, Threshold: p.pulse.Threshold}
}

// now is how the tunnel fares.
func (p *prober) now() agent.Pulse {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pulse.Copy()
}
