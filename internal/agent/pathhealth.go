// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"slices"
	"time"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
)

// PathHealth is what is known of a way from its probes: of a tunnel, or of all that is between a node and a peer. Times are those of this
// machine, and have its monotonic clock.
type PathHealth struct {
	Interval  time.Duration // between two probes of a size
	Threshold int           // of lost probes in a row, after which there is no way

	Began       time.Time // of the first probe; the zero value: none was sent
	Asked       time.Time // by the peer, last
	Small, Full Answers
	Pads        bool // the peer sends padding back; from others no full answer ever comes
}

// Answers are those to the probes of one size.
type Answers struct {
	At      time.Time     // of the latest answer
	Latency time.Duration // of it
	Since   time.Time     // of the first answer of those between which none is missing
	Sent    uint64        // questions in all
	Heard   uint64        // answers that count

	asked []time.Time // of questions that may still be answered, oldest first
	owed  int         // questions since the one that was answered last
}

// remembered is how many questions may be on the way.
const remembered = 64

// Ask notes that a probe of each size is sent now.
func (p *PathHealth) Ask(now time.Time) {
	if p.Began.IsZero() {
		p.Began = now
	}
	p.Small.recordQuestion(now)
	p.Full.recordQuestion(now)
}

// Copy is for who looks at it while it goes on.
func (p *PathHealth) Copy() PathHealth {
	out := *p
	out.Small.asked, out.Full.asked = slices.Clone(p.Small.asked), slices.Clone(p.Full.asked)
	return out
}

func (a *Answers) recordQuestion(now time.Time) {
	a.Sent++
	a.owed++
	a.asked = append(a.asked, now)
	if len(a.asked) > remembered {
		a.asked = slices.Delete(a.asked, 0, 1)
	}
}

// Hear takes in the answer to what was asked at sent, if that was asked and nothing later was answered. Only our own memory of the
// question has the monotonic clock: what the peer sends back says which one it was, even if the clock was set meanwhile.
func (a *Answers) Hear(sent, now time.Time) bool {
	i := slices.IndexFunc(a.asked, sent.Equal)
	if i < 0 {
		return false
	}
	a.Heard++
	if a.At.IsZero() || i > 0 {
		a.Since = now
	}
	a.At, a.Latency = now, now.Sub(a.asked[i])
	a.asked = slices.Delete(a.asked, 0, i+1)
	a.owed = len(a.asked)
	return true
}

// Resize has questions be of another size, of which one was answered last.
func (a *Answers) Resize(at time.Time) { a.asked, a.owed, a.At = nil, 0, at }

// lostCount is how many questions in a row have no answer by now. Those of the time in which nobody asked, for the process stood still, are
// none.
func (p *PathHealth) lostCount(a Answers, now time.Time) int {
	if p.Began.IsZero() {
		return 0
	}
	since := a.At
	if since.IsZero() {
		since = p.Began
	}
	return min(int(now.Sub(since)/p.Interval), a.owed)
}

func (p *PathHealth) isPassing(a Answers, now time.Time) bool {
	return !a.At.IsZero() && p.lostCount(a, now) < p.Threshold
}

// Up tells whether packets of all sizes pass. Before the first answer it does not.
func (p *PathHealth) Up(now time.Time) bool {
	return p.isPassing(p.Small, now) && (!p.Pads || p.isPassing(p.Full, now))
}

// Failed tells whether answers are missing for so long that there is no way. Until then a first answer is waited for.
func (p *PathHealth) Failed(now time.Time) bool {
	small, full := p.Losses(now)
	return !p.Began.IsZero() && max(small, full) >= p.Threshold
}

// Losses are how many questions of each size in a row have no answer, of those that are answered at all.
func (p *PathHealth) Losses(now time.Time) (small, full int) {
	if p.Pads {
		full = p.lostCount(p.Full, now)
	}
	return p.lostCount(p.Small, now), full
}

// Next is when to look again: after an interval, or as soon as there is no way if no answer comes before. Who asks later than that looks
// after the question.
func (p *PathHealth) Next(now time.Time) time.Duration {
	again := p.Interval
	if !p.Up(now) {
		return again
	}
	for _, last := range []time.Time{p.Small.At, p.Full.At} {
		if until := last.Add(time.Duration(p.Threshold) * p.Interval).Sub(now); until > 0 {
			again = min(again, until)
		}
	}
	return again
}

// Value is what is said of a way of which that was said before. An error is one until an answer comes.
func (p *PathHealth) Value(was networkingv1beta1.ConnectionStatusValue, now time.Time) networkingv1beta1.ConnectionStatusValue {
	switch {
	case p.Up(now):
		return networkingv1beta1.Connected
	case p.Failed(now), was == networkingv1beta1.ConnectionError:
		return networkingv1beta1.ConnectionError
	}
	return networkingv1beta1.Connecting
}

// LatencyText is a round trip as other versions write it.
func LatencyText(d time.Duration) string {
	if d < time.Millisecond {
		return fmt.Sprintf("%dμs", d.Microseconds())
	}
	return fmt.Sprintf("%dms", d.Milliseconds())
}
