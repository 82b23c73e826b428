// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"slices"
	"time"
)

// pulse is what is known of a tunnel from its probes. Times are those of this machine, and have its monotonic clock.
type pulse struct {
	interval  time.Duration // between two probes of a size
	threshold int           // of lost probes in a row, after which the tunnel is down

	began       time.Time // of the first probe; the zero value: none was sent
	asked       time.Time // by the peer, last
	small, full answers
	pads        bool // the peer sends padding back; from others no full answer ever comes
}

// answers are those to the probes of one size.
type answers struct {
	asked   []time.Time   // of questions that may still be answered, oldest first
	at      time.Time     // of the latest answer
	latency time.Duration // of it
	sent    uint64        // questions in all
	heard   uint64        // answers that count
}

// remembered is how many questions may be on the way.
const remembered = 64

func (a *answers) ask(now time.Time) {
	a.sent++
	a.asked = append(a.asked, now)
	if len(a.asked) > remembered {
		a.asked = slices.Delete(a.asked, 0, 1)
	}
}

// hear takes in the answer to what was asked at sent, if that was asked and nothing later was answered. Only our own memory of the
// question has the monotonic clock: what the peer sends back says which one it was, even if the clock was set meanwhile.
func (a *answers) hear(sent, now time.Time) bool {
	i := slices.IndexFunc(a.asked, sent.Equal)
	if i < 0 {
		return false
	}
	a.heard++
	a.at, a.latency = now, now.Sub(a.asked[i])
	a.asked = slices.Delete(a.asked, 0, i+1)
	return true
}

// resize has questions be of another size, of which one was answered last.
func (a *answers) resize(at time.Time) { a.asked, a.at = nil, at }

// lost is how many questions in a row have no answer by now.
func (p *pulse) lost(a answers, now time.Time) int {
	if p.began.IsZero() {
		return 0
	}
	since := a.at
	if since.IsZero() {
		since = p.began
	}
	return int(now.Sub(since) / p.interval)
}

func (p *pulse) passes(a answers, now time.Time) bool {
	return !a.at.IsZero() && p.lost(a, now) < p.threshold
}

// deaf tells whether the peer still asks, but does not answer: what is sent there gets lost. Where probes are dropped both ways, its last
// question came before our next answer would have.
func (p *pulse) deaf(now time.Time) bool {
	return p.asked.Sub(latest(p.small.at, p.began)) >= p.interval && now.Sub(p.asked) < restartAfter*p.interval
}

// up tells whether packets of all sizes pass. Before the first answer it does not.
func (p *pulse) up(now time.Time) bool {
	return p.passes(p.small, now) && (!p.pads || p.passes(p.full, now))
}

// failed tells whether answers are missing for so long that there is no tunnel. Until then a first answer is waited for.
func (p *pulse) failed(now time.Time) bool {
	small, full := p.losses(now)
	return !p.began.IsZero() && max(small, full) >= p.threshold
}

// losses are how many questions of each size in a row have no answer, of those that are answered at all.
func (p *pulse) losses(now time.Time) (small, full int) {
	if p.pads {
		full = p.lost(p.full, now)
	}
	return p.lost(p.small, now), full
}

// next is when to look again: after an interval, or as soon as the tunnel is down if no answer comes before.
func (p *pulse) next(now time.Time) time.Duration {
	if !p.up(now) {
		return p.interval
	}
	last := p.small.at
	if p.pads && p.full.at.Before(last) {
		last = p.full.at
	}
	return min(p.interval, last.Add(time.Duration(p.threshold)*p.interval).Sub(now))
}
