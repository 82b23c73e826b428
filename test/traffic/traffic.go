// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package traffic sends traffic between network namespaces of this machine, and measures rates, round trips, and gaps in which nothing is answered.
package traffic

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"liqo.io/liqo/internal/benchmark"
)

// Path is a way that traffic takes.
type Path struct {
	Name     string
	From, To Endpoint
}

const (
	trafficTime = 3 * time.Second
	warmUp      = benchmark.WarmUp
	dialLimit   = 10 * time.Second
)

// Streams is the throughput of so many TCP connections, in Gbit/s.
func (p Path) Streams(count int) (float64, error) {
	conns, err := p.connect(count)
	if err != nil {
		return 0, err
	}
	var sending sync.WaitGroup
	far := make([]net.Conn, len(conns))
	for i, c := range conns {
		far[i] = c.far
		sending.Go(func() { benchmark.Send(c.near) })
	}
	rate, err := benchmark.Receive(context.Background(), far, benchmark.Limits{Time: trafficTime})
	for _, c := range conns {
		c.close()
	}
	sending.Wait()
	if err != nil {
		return 0, fmt.Errorf("by %s: %w", p.Name, err)
	}
	return rate.BitsPerSecond / 1e9, nil
}

// RoundTrips are the times of small requests and answers on one TCP connection, in seconds.
func (p Path) RoundTrips() ([]float64, error) {
	conns, err := p.connect(1)
	if err != nil {
		return nil, err
	}
	c := conns[0]
	defer c.close()
	go benchmark.Echo(c.far)
	took, err := benchmark.RoundTrips(c.near, trafficTime)
	if err != nil {
		return nil, fmt.Errorf("by %s: %w", p.Name, err)
	}
	return took, nil
}

type connection struct{ near, far net.Conn }

func (c connection) close() {
	_ = c.near.Close()
	_ = c.far.Close()
}

func (p Path) connect(count int) ([]connection, error) {
	var l net.Listener
	if err := p.To.Do(func() (err error) {
		l, err = net.Listen("tcp", netip.AddrPortFrom(p.To.Own, 0).String())
		return err
	}); err != nil {
		return nil, fmt.Errorf("listening: %w", err)
	}
	defer l.Close()
	at := netip.AddrPortFrom(p.To.Seen, l.Addr().(*net.TCPAddr).AddrPort().Port())
	var out []connection
	for range count {
		var c connection
		if err := p.From.Do(func() (err error) {
			c.near, err = net.DialTimeout("tcp", at.String(), dialLimit)
			return err
		}); err != nil {
			return nil, fmt.Errorf("by %s: %w", p.Name, err)
		}
		var err error
		if c.far, err = l.Accept(); err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	end := time.Now().Add(dialLimit + warmUp + trafficTime) // a path that breaks meanwhile is an error, not a wait
	for _, c := range out {
		if err := errors.Join(c.near.SetDeadline(end), c.far.SetDeadline(end)); err != nil {
			return nil, err
		}
	}
	return out, nil
}

const (
	datagram  = 1200
	lossLimit = 0.01
	rateTime  = time.Second
	rateSteps = 9
)

// Datagrams is the highest rate at which at most lossLimit of datagrams are lost, in Gbit/s. It is searched for between
// none and as many as can be sent.
func (p Path) Datagrams() (float64, error) {
	near, far, err := p.sockets()
	if err != nil {
		return 0, err
	}
	defer near.Close()
	defer far.Close()
	var received atomic.Int64
	go func() {
		data := make([]byte, 2*datagram)
		for {
			if _, _, err := far.ReadFromUDPAddrPort(data); err != nil {
				return
			}
			received.Add(1)
		}
	}()
	try := func(rate float64) (sent, arrived int64) {
		before := received.Load()
		sent = send(near, rate)
		for last := int64(-1); last != received.Load(); { // what is on its way
			last = received.Load()
			time.Sleep(50 * time.Millisecond)
		}
		return sent, received.Load() - before
	}
	most, _ := try(0)
	return highest(float64(most)/rateTime.Seconds(), try) * datagram * 8 / 1e9, nil
}

// send sends for rateTime, at a rate per second or, if that is 0, as fast as it can, and returns how many. What the kernel
// does not take counts, too: it is lost.
func send(c net.Conn, rate float64) int64 {
	var sent int64
	data := make([]byte, datagram)
	for start := time.Now(); ; {
		since := time.Since(start)
		if since >= rateTime {
			return sent
		}
		due := int64(rate * since.Seconds())
		if rate == 0 {
			due = sent + 64
		}
		for ; sent < due; sent++ {
			_, _ = c.Write(data)
		}
		if rate > 0 {
			time.Sleep(200 * time.Microsecond)
		}
	}
}

func (p Path) sockets() (near net.Conn, far *net.UDPConn, err error) {
	if err := p.To.Do(func() (err error) {
		far, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(p.To.Own, 0)))
		return err
	}); err != nil {
		return nil, nil, fmt.Errorf("listening: %w", err)
	}
	_ = far.SetReadBuffer(4 << 20)
	at := netip.AddrPortFrom(p.To.Seen, far.LocalAddr().(*net.UDPAddr).AddrPort().Port())
	err = p.From.Do(func() (err error) {
		near, err = net.Dial("udp", at.String())
		return err
	})
	return near, far, err
}

// watcher asks all the time for an answer from the other end.
type watcher struct {
	near net.Conn
	far  *net.UDPConn
	stop chan struct{}
	done sync.WaitGroup

	mu    sync.Mutex
	asked []probe
}

// Watchers ask all the time, those of one end and those of the other: what somebody begins may pass where what others begin does not.
type Watchers []*watcher

func (p Path) Watch() (Watchers, error) {
	forth, err := p.watchFrom()
	if err != nil {
		return nil, err
	}
	back, err := Path{Name: p.Name + ", the other way", From: p.To, To: p.From}.watchFrom()
	if err != nil {
		forth.close()
		return nil, err
	}
	return Watchers{forth, back}, nil
}

// Answered waits until all are, as a watcher does, and returns when the last of them was for the first time.
func (all Watchers) Answered(ctx context.Context, after time.Time) (first time.Time, err error) {
	for _, w := range all {
		at, err := w.answered(ctx, after)
		if err != nil {
			return first, err
		}
		if at.After(first) {
			first = at
		}
	}
	return first, nil
}

// Silent waits until nobody is answered.
func (all Watchers) Silent(ctx context.Context) error {
	for _, w := range all {
		if err := w.silent(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Gap is the longest of any, and how many questions all of them lost.
func (all Watchers) Gap(since time.Time) (longest time.Duration, lost int) {
	for _, w := range all {
		long, n := w.gap(since)
		longest, lost = max(longest, long), lost+n
	}
	return longest, lost
}

func (all Watchers) Close() {
	for _, w := range all {
		w.close()
	}
}

func (p Path) watchFrom() (*watcher, error) {
	near, far, err := p.sockets()
	if err != nil {
		return nil, err
	}
	w := &watcher{near: near, far: far, stop: make(chan struct{})}
	w.done.Go(func() {
		data := make([]byte, 64)
		for {
			n, from, err := far.ReadFromUDPAddrPort(data)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			_, _ = far.WriteToUDPAddrPort(data[:n], from)
		}
	})
	w.done.Go(w.ask)
	w.done.Go(w.listen)
	return w, nil
}

func (w *watcher) ask() {
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for {
		select {
		case <-w.stop:
			return
		case now := <-tick.C:
			w.mu.Lock()
			n := len(w.asked)
			w.asked = append(w.asked, probe{sent: now})
			w.mu.Unlock()
			_, _ = fmt.Fprintf(w.near, "%d", n) // "connection refused" or "unreachable" is no answer
		}
	}
}

func (w *watcher) listen() {
	data := make([]byte, 64)
	for {
		n, err := w.near.Read(data)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		var which int
		if _, err := fmt.Sscan(string(data[:n]), &which); err != nil {
			continue
		}
		w.mu.Lock()
		if which < len(w.asked) && w.asked[which].back.IsZero() {
			w.asked[which].back = time.Now()
		}
		w.mu.Unlock()
	}
}

// answered waits until a second's questions in a row, asked after a moment, have been answered, and returns when the first of them was.
func (w *watcher) answered(ctx context.Context, after time.Time) (first time.Time, err error) {
	return first, w.until(ctx, "answers", func(asked []probe) (ok bool) {
		first, ok = row(asked, after, time.Now())
		return ok
	})
}

// silent waits until nothing asked in the last half second has been answered.
func (w *watcher) silent(ctx context.Context) error { return w.until(ctx, "silence", silent) }

// until waits for what the questions must say.
func (w *watcher) until(ctx context.Context, what string, says func([]probe) bool) error {
	for {
		w.mu.Lock()
		ok := says(w.asked)
		w.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// gap is the longest time since a moment in which no answer arrived, and how many questions were lost.
func (w *watcher) gap(since time.Time) (longest time.Duration, lost int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return gap(w.asked, since, time.Now())
}

func (w *watcher) close() {
	close(w.stop)
	_ = w.near.Close()
	_ = w.far.Close()
	w.done.Wait()
}
