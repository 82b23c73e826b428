// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"math"
	"testing"
	"time"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
)

// timedHealth is a pulse with a clock of its own, which begins at 0 s. A probe of either size is sent each second.
type timedHealth struct {
	PathHealth
	zero time.Time
}

func newTimedHealth() *timedHealth {
	return &timedHealth{PathHealth: PathHealth{Interval: time.Second, Threshold: 3}, zero: time.Now()}
}

func (h *timedHealth) at(seconds float64) time.Time {
	return h.zero.Add(time.Duration(seconds * float64(time.Second)))
}

func (h *timedHealth) ask(seconds ...float64) {
	for _, s := range seconds {
		h.Ask(h.at(s))
	}
}

// wire is a time as a peer sends it back.
func wire(t time.Time) time.Time { return t.Round(0) }

// padded has small and full questions of one moment answered at another.
func (h *timedHealth) padded(asked, answered float64) {
	h.Pads = h.Small.Hear(wire(h.at(asked)), h.at(answered)) || h.Pads
	h.Full.Hear(wire(h.at(asked)), h.at(answered))
}

func (h *timedHealth) want(t *testing.T, at float64, up, failed bool) {
	t.Helper()
	if got := h.Up(h.at(at)); got != up {
		t.Errorf("up at %v s: %t, want %t", at, got, up)
	}
	if got := h.Failed(h.at(at)); got != failed {
		t.Errorf("failed at %v s: %t, want %t", at, got, failed)
	}
}

func TestPathHealthBeforeFirstProbe(t *testing.T) {
	newTimedHealth().want(t, 100, false, false)
	var none PathHealth
	if none.Up(time.Now()) || none.Failed(time.Now()) || none.lostCount(none.Small, time.Now()) != 0 {
		t.Error("a pulse without questions says something")
	}
}

func TestPathHealthThreshold(t *testing.T) {
	h := newTimedHealth()
	h.ask(0, 1, 2, 3)
	h.want(t, 2.9, false, false)
	h.want(t, 3, false, true)
	h.padded(3, 3.5)
	h.want(t, 3.5, true, false)
	h.ask(4, 5, 6)
	h.want(t, 6.4, true, false)
	h.want(t, 6.5, false, true)
	h.ask(7)
	h.padded(7, 7.5)
	h.want(t, 7.5, true, false)
}

// A process that stands still asks nothing, and so nothing is lost.
func TestPathHealthCountsProbes(t *testing.T) {
	for name, test := range map[string]struct {
		asked      []float64 // after an answer at 10.1 s to a question at 10 s
		at         float64
		up, failed bool
		next       time.Duration
	}{
		"none since":                        {nil, 14.5, true, false, time.Second},
		"one was on its way":                {[]float64{11}, 16, true, false, time.Second},
		"one on its way, and one since":     {[]float64{11, 16}, 16.1, true, false, time.Second},
		"as many, after all":                {[]float64{11, 16, 17}, 17, false, true, time.Second},
		"as many, none in time":             {[]float64{14.5, 15.5, 16.5}, 16.5, false, true, time.Second},
		"the last of them is late":          {[]float64{11, 12}, 13.1, true, false, time.Second},
		"too many at once, and hardly late": {[]float64{11, 11.1, 11.2}, 13, true, false, 100 * time.Millisecond},
	} {
		h := newTimedHealth()
		h.ask(0, 10)
		h.padded(10, 10.1)
		h.ask(test.asked...)
		t.Log(name)
		h.want(t, test.at, test.up, test.failed)
		if got := h.Next(h.at(test.at)); got.Round(time.Millisecond) != test.next {
			t.Errorf("the next look is after %s, want %s", got, test.next)
		}
	}
	h := newTimedHealth() // a threshold of more than is remembered
	h.Threshold = 3 * remembered
	for i := range h.Threshold + 1 {
		h.ask(float64(i))
	}
	h.want(t, float64(h.Threshold), false, true)
	h.Small.Resize(h.at(0))
	if lost := h.lostCount(h.Small, h.at(100)); lost != 0 {
		t.Errorf("%d of another size are lost", lost)
	}
}

// TestLossRatio has the last probes, of which the latest may be on its way.
func TestLossRatio(t *testing.T) {
	for name, tc := range map[string]struct {
		sent   int
		lost   func(i int) bool
		resize bool
		want   float64
		known  bool
	}{
		"none_sent":       {0, nil, false, 0, false},
		"on_its_way":      {1, func(int) bool { return true }, false, 0, false},
		"all_answered":    {100, func(int) bool { return false }, false, 0, true},
		"latest_on_way":   {4, func(i int) bool { return i == 3 }, false, 0, true},
		"one_of_four":     {4, func(i int) bool { return i == 1 }, false, 0.25, true},
		"one_of_twenty":   {200, func(i int) bool { return i%20 == 7 }, false, 0.05, true},
		"long_ago":        {200, func(i int) bool { return i < 100 }, false, 0, true},
		"everything":      {200, func(int) bool { return true }, false, 1, true},
		"of_another_size": {200, func(i int) bool { return i > 190 }, true, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			h := newTimedHealth()
			for i := range tc.sent {
				h.ask(float64(i))
				if !tc.lost(i) {
					h.padded(float64(i), float64(i)+0.1)
				}
			}
			if tc.resize {
				h.Full.Resize(h.at(float64(tc.sent)))
			}
			if got, known := h.Full.LossRatio(); math.Abs(got-tc.want) > 1e-9 || known != tc.known {
				t.Errorf("got %v, %v, want %v, %v", got, known, tc.want, tc.known)
			}
		})
	}
}

func TestPathHealthFullPackets(t *testing.T) {
	h := newTimedHealth()
	h.ask(0, 1, 2, 3)
	h.padded(0, 0.1)
	for s := range 3 {
		h.Small.Hear(wire(h.at(float64(s+1))), h.at(float64(s)+1.1))
	}
	h.want(t, 3.0, true, false)
	h.want(t, 3.2, false, true)
	if lost := h.lostCount(h.Small, h.at(3.2)); lost != 0 {
		t.Errorf("%d small ones are lost", lost)
	}
}

// What the chart asks for is seen within 5 s, whatever the way takes, whichever packets get lost, and whenever it was last looked.
func TestPathHealthDown(t *testing.T) {
	for _, trip := range []float64{0.001, 0.02, 0.025, 0.3, 0.999} {
		for _, looks := range []float64{0, 0.02, 0.3, 0.97} {
			for name, passes := range map[string]struct{ small, full bool }{"all": {}, "full ones": {small: true}, "small ones": {full: true}} {
				h := newTimedHealth()
				h.Threshold = 4
				h.ask(0)
				h.padded(0, trip)
				dropped, at := trip, trip+looks // the loss begins right after the last answer
				for second, asked := 0.0, 0.0; h.Up(h.at(at)); {
					again := h.Next(h.at(at))
					if again <= 0 || again > h.Interval {
						t.Fatalf("trip of %v s, %s lost: the next look is after %s", trip, name, again)
					}
					for at += again.Seconds(); asked+1 < at; asked++ {
						h.ask(asked + 1)
					}
					for ; second+1+trip < at; second++ {
						if passes.small {
							h.Small.Hear(wire(h.at(second+1)), h.at(second+1+trip))
						}
						if passes.full {
							h.Full.Hear(wire(h.at(second+1)), h.at(second+1+trip))
						}
					}
				}
				if took := at - dropped; took > 4.001 {
					t.Errorf("trip of %v s, looked at %v s, %s lost: seen after %v s", trip, looks, name, took)
				}
			}
		}
	}
	if got := newTimedHealth().Next(time.Now()); got != time.Second {
		t.Errorf("before the first question the next look is after %s", got)
	}
}

func TestPathHealthWithoutPadding(t *testing.T) {
	h := newTimedHealth()
	h.ask(0, 1, 2, 3, 4)
	h.Small.Hear(wire(h.at(4)), h.at(4.1))
	h.want(t, 4.1, true, false)
	h.ask(5, 6, 7)
	h.want(t, 7.2, false, true)
}

func TestPathHealthClockStep(t *testing.T) {
	h := newTimedHealth()
	h.ask(0)
	h.padded(0, 0.25)
	for _, step := range []time.Duration{-time.Hour, time.Hour} {
		// Between question and answer the wall clock is set: the same moment has another time on the wire.
		requestedAt := h.at(1)
		h.Small.recordQuestion(requestedAt)
		if h.Small.Hear(wire(requestedAt).Add(step), h.at(1.5)) {
			t.Errorf("an answer is taken for one of %s before", step)
		}
		if !h.Small.Hear(wire(requestedAt), h.at(1.5)) || h.Small.Latency != 500*time.Millisecond {
			t.Errorf("after a step of %s the latency is %s", step, h.Small.Latency)
		}
	}
}

func TestPathHealthStaleAnswers(t *testing.T) {
	h := newTimedHealth()
	h.ask(0, 1, 2)
	for name, sent := range map[string]time.Time{"never asked": h.at(1.5), "of the future": h.at(100), "of nobody": {}} {
		if h.Small.Hear(wire(sent), h.at(2.5)) {
			t.Errorf("an answer counts that was %s", name)
		}
	}
	if !h.Small.Hear(wire(h.at(1)), h.at(2.5)) {
		t.Error("an answer does not count")
	}
	if h.Small.Hear(wire(h.at(1)), h.at(2.6)) || h.Small.Hear(wire(h.at(0)), h.at(2.6)) {
		t.Error("an answer counts twice, or after it was overtaken")
	}
	if h.Small.Latency != 1500*time.Millisecond {
		t.Errorf("the latency is %s", h.Small.Latency)
	}
}

func TestPathHealthBounded(t *testing.T) {
	var a Answers
	zero := time.Now()
	for i := range 3 * remembered {
		a.recordQuestion(zero.Add(time.Duration(i) * time.Second))
	}
	if len(a.asked) != remembered || a.Hear(wire(zero), zero.Add(time.Hour)) {
		t.Errorf("%d questions are remembered, from %s on", len(a.asked), a.asked[0].Sub(zero))
	}
}

func TestPathHealthValues(t *testing.T) {
	const connected, connecting, failed = networkingv1beta1.Connected, networkingv1beta1.Connecting, networkingv1beta1.ConnectionError
	waiting, answered, half := newTimedHealth(), newTimedHealth(), newTimedHealth()
	for _, h := range []*timedHealth{waiting, answered, half} {
		h.ask(0, 1, 2, 3, 4)
	}
	answered.padded(1, 1.012)
	half.Pads = half.Small.Hear(wire(half.at(1)), half.at(1.012))
	for name, test := range map[string]struct {
		was  networkingv1beta1.ConnectionStatusValue
		beat *timedHealth
		at   float64
		want networkingv1beta1.ConnectionStatusValue
	}{
		"at first":                  {"", newTimedHealth(), 0, connecting},
		"while waited for":          {connecting, waiting, 2, connecting},
		"waited for in vain":        {connecting, waiting, 3, failed},
		"answered after an error":   {failed, answered, 1.1, connected},
		"lost":                      {connected, answered, 5, failed},
		"an error, and nothing new": {failed, waiting, 2, failed},
		"never for all sizes":       {connected, half, 3, failed},
	} {
		if got := test.beat.Value(test.was, test.beat.at(test.at)); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

func TestLatencyFormat(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0μs", 1500 * time.Nanosecond: "1μs", 999 * time.Microsecond: "999μs", time.Millisecond: "1ms", 2 * time.Second: "2000ms",
	} {
		if got := LatencyText(d); got != want {
			t.Errorf("%s: %s, want %s", d, got, want)
		}
	}
}
