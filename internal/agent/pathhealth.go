// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"math/bits"
	"slices"
	"time"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
)

// PathHealth is the health of a path by its probes: of a tunnel, or of the whole path between a node and a peer. Times are local and
// monotonic.
type PathHealth struct {
	Interval  time.Duration // between two probes of a size
	Threshold int           // lost probes in a row after which the path is down

	Began       time.Time // of the first probe; the zero value: none was sent
	Asked       time.Time // by the peer, last
	Left        time.Time // of the last goodbye of the peer, or when its end was noticed: its new pod takes over
	Small, Full Answers
	Pads        bool // the peer returns padding; without padding no full answer ever comes
}

// Answers are the answers to the probes of one size.
type Answers struct {
	At      time.Time     // of the latest answer
	Latency time.Duration // of the last answer
	Since   time.Time     // time of the first answer in the current unbroken sequence
	Sent    uint64        // questions in all
	Heard   uint64        // number of valid answers

	asked []time.Time // send times of probes that may still be answered, oldest first
	owed  int         // probes sent since the last answered probe

	answered uint64 // last probes: bit 0 is set if the latest probe was answered, bit 1 for the probe before
}

// lossWindow is the number of probes of which LossRatio is a part.
const lossWindow = 60

// remembered is how many questions may be on the way.
const remembered = 64

// Ask records that a probe of each size is sent now.
func (p *PathHealth) Ask(now time.Time) {
	if p.Began.IsZero() {
		p.Began = now
	}
	p.Small.recordQuestion(now)
	p.Full.recordQuestion(now)
}

// Copy returns a copy for readers without the lock.
func (p *PathHealth) Copy() PathHealth {
	out := *p
	out.Small.asked, out.Full.asked = slices.Clone(p.Small.asked), slices.Clone(p.Full.asked)
	return out
}

func (a *Answers) recordQuestion(now time.Time) {
	a.Sent++
	a.owed++
	a.answered <<= 1
	a.asked = append(a.asked, now)
	if len(a.asked) > remembered {
		a.asked = slices.Delete(a.asked, 0, 1)
	}
}

// Hear records the answer to the probe sent at sent, if sent is known and no later probe was answered. Only the local record has the monotonic clock:
// the returned time identifies the probe, even if the wall clock was set meanwhile.
func (a *Answers) Hear(sent, now time.Time) bool {
	i := slices.IndexFunc(a.asked, sent.Equal)
	if i < 0 {
		return false
	}
	a.Heard++
	a.answered |= 1 << (len(a.asked) - 1 - i)
	if a.At.IsZero() || i > 0 {
		a.Since = now
	}
	a.At, a.Latency = now, now.Sub(a.asked[i])
	a.asked = slices.Delete(a.asked, 0, i+1)
	a.owed = len(a.asked)
	return true
}

// Unanswered returns the age of the first unanswered question after the last answer; 0 without an unanswered question.
func (a *Answers) Unanswered(now time.Time) time.Duration {
	if len(a.asked) == 0 {
		return 0
	}
	return now.Sub(a.asked[0])
}

// Resize changes the size of the probes, after one of the new size was answered.
func (a *Answers) Resize(at time.Time) {
	a.answered |= 1<<len(a.asked) - 1 // they are not lost
	a.asked, a.owed, a.At = nil, 0, at
}

// LossRatio returns the lost part of the last probes, 60 at most. The ratio is unknown before the second probe: the latest probe may be on its way.
func (a *Answers) LossRatio() (ratio float64, known bool) {
	answered, sent := a.answered, a.Sent
	if sent > 0 && answered&1 == 0 {
		answered, sent = answered>>1, sent-1
	}
	if sent = min(sent, lossWindow); sent == 0 {
		return 0, false
	}
	return 1 - float64(bits.OnesCount64(answered&(1<<sent-1)))/float64(sent), true
}

// lostCount returns the number of probes in a row without an answer in time. Probes missed while the process stood still do not count.
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

// Up reports whether packets of all sizes pass. Before the first answer it is false.
func (p *PathHealth) Up(now time.Time) bool {
	return p.isPassing(p.Small, now) && (!p.Pads || p.isPassing(p.Full, now))
}

// Failed reports whether answers are missing for so long that the path is down. Until then a first answer is awaited.
func (p *PathHealth) Failed(now time.Time) bool {
	small, full := p.Losses(now)
	return !p.Began.IsZero() && max(small, full) >= p.Threshold
}

// Losses returns how many probes of each size in a row have no answer, for sizes that are answered at all.
func (p *PathHealth) Losses(now time.Time) (small, full int) {
	if p.Pads {
		full = p.lostCount(p.Full, now)
	}
	return p.lostCount(p.Small, now), full
}

// Next returns the delay until the next check: an interval, or earlier if missing answers would take the path down before. A caller that
// probes later than the delay checks after the probe.
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

// Value returns the status value that follows was: an error stays until an answer comes.
func (p *PathHealth) Value(was networkingv1beta1.ConnectionStatusValue, now time.Time) networkingv1beta1.ConnectionStatusValue {
	switch {
	case p.Up(now):
		return networkingv1beta1.Connected
	case p.Failed(now), was == networkingv1beta1.ConnectionError:
		return networkingv1beta1.ConnectionError
	}
	return networkingv1beta1.Connecting
}

// LatencyText formats a round-trip time as other versions do.
func LatencyText(d time.Duration) string {
	if d < time.Millisecond {
		return fmt.Sprintf("%dμs", d.Microseconds())
	}
	return fmt.Sprintf("%dms", d.Milliseconds())
}
