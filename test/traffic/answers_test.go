// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"math"
	"testing"
	"time"
)

var midnight = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

const roundTrip = time.Millisecond

// asked are questions of so long, answered at once unless the story says otherwise.
func asked(long time.Duration, story func(sent time.Duration) (back time.Duration, lost bool)) (out []probe) {
	for sent := time.Duration(0); sent < long; sent += askEvery {
		q := probe{sent: midnight.Add(sent), back: midnight.Add(sent + roundTrip)}
		if back, lost := story(sent); lost {
			q.back = time.Time{}
		} else if back > 0 {
			q.back = midnight.Add(back)
		}
		out = append(out, q)
	}
	return out
}

func well(time.Duration) (time.Duration, bool) { return 0, false }

func between(from, to, back time.Duration) func(time.Duration) (time.Duration, bool) {
	return func(sent time.Duration) (time.Duration, bool) {
		if sent < from || sent >= to {
			return 0, false
		}
		return back, back == 0
	}
}

func TestOutageDuration(t *testing.T) {
	const ms = time.Millisecond
	for name, tc := range map[string]struct {
		story   func(time.Duration) (time.Duration, bool)
		since   time.Duration
		longest time.Duration
		lost    int
	}{
		"all is well":                      {story: well, longest: askEvery},
		"lost questions":                   {story: between(1000*ms, 1500*ms, 0), longest: 505 * ms, lost: 100},
		"questions that waited in a queue": {story: between(1000*ms, 1600*ms, 1601*ms), longest: 605 * ms},
		"lost ones, and then such that waited": {story: func(sent time.Duration) (time.Duration, bool) {
			if back, lost := between(1000*ms, 1360*ms, 0)(sent); lost {
				return back, lost
			}
			return between(1360*ms, 2000*ms, 2001*ms)(sent)
		}, longest: 1005 * ms, lost: 72},
		"what was lost before counts not":                 {story: between(1000*ms, 1500*ms, 0), since: 1600 * ms, longest: askEvery},
		"the moment itself is the beginning":              {story: between(1000*ms, 1500*ms, 0), since: 1300 * ms, longest: 201 * ms, lost: 40},
		"an answer that arrives late is one that arrives": {story: between(1000*ms, 1200*ms, 1190*ms), longest: 194 * ms},
		"what was just asked is not lost":                 {story: between(2900*ms, 3000*ms, 0), longest: 104 * ms},
	} {
		longest, lost := gap(asked(3*time.Second, tc.story), midnight.Add(tc.since), midnight.Add(3*time.Second))
		if longest != tc.longest || lost != tc.lost {
			t.Errorf("%s: %v and %d lost, want %v and %d", name, longest, lost, tc.longest, tc.lost)
		}
	}
	if longest, _ := gap(nil, midnight, midnight.Add(time.Minute)); longest != time.Minute {
		t.Errorf("of nobody it is %v", longest)
	}
}

func TestAnswerRow(t *testing.T) {
	const ms = time.Millisecond
	for name, tc := range map[string]struct {
		story func(time.Duration) (time.Duration, bool)
		after time.Duration
		now   time.Duration
		first time.Duration // 0 for no row yet
	}{
		"from the beginning":                       {story: well, now: 3000 * ms, first: roundTrip},
		"from a moment":                            {story: well, after: 1002 * ms, now: 3000 * ms, first: 1006 * ms},
		"too short":                                {story: well, after: 2000 * ms, now: 3000 * ms},
		"what was just asked breaks no row":        {story: between(2600*ms, 3000*ms, 0), after: 1500 * ms, now: 3000 * ms, first: 1501 * ms},
		"a miss begins it anew":                    {story: between(400*ms, 405*ms, 0), now: 3000 * ms, first: 406 * ms},
		"a miss that is old enough ends it":        {story: between(1000*ms, 1005*ms, 0), after: 500 * ms, now: 2000 * ms},
		"what waited in a queue was answered then": {story: between(0, 600*ms, 700*ms), now: 3000 * ms, first: 700 * ms},
	} {
		questions := asked(tc.now, tc.story)
		first, ok := row(questions, midnight.Add(tc.after), midnight.Add(tc.now))
		if want := midnight.Add(tc.first); ok != (tc.first > 0) || ok && !first.Equal(want) {
			t.Errorf("%s: %v %v, want %v", name, first, ok, want)
		}
	}
}

func TestSilence(t *testing.T) {
	const ms = time.Millisecond
	for name, tc := range map[string]struct {
		questions []probe
		want      bool
	}{
		"all is well":                {questions: asked(time.Second, well)},
		"half a second":              {questions: asked(time.Second, between(500*ms, time.Second, 0)), want: true},
		"a little less":              {questions: asked(time.Second, between(505*ms, time.Second, 0))},
		"one answer":                 {questions: asked(time.Second, between(0, 995*ms, 0))},
		"too few were asked to tell": {questions: asked(495*ms, between(0, time.Second, 0))},
	} {
		if got := silent(tc.questions); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestHighestRate(t *testing.T) {
	for name, tc := range map[string]struct {
		passes, sends, ceiling, want float64 // per second
	}{
		"a path that is slower than its sender": {passes: 40e3, sends: 100e3, ceiling: 100e3, want: 40.4e3},
		"a path that takes all":                 {passes: 1e6, sends: 100e3, ceiling: 100e3, want: 100e3},
		"a sender that keeps no pace":           {passes: 1e6, sends: 50e3, ceiling: 100e3, want: 50e3},
		"a path that takes nothing":             {passes: 0, sends: 100e3, ceiling: 100e3, want: 0},
	} {
		got := highest(tc.ceiling, func(rate float64) (int64, int64) {
			sent := min(rate, tc.sends) * rateTime.Seconds()
			return int64(sent), int64(min(sent, tc.passes*rateTime.Seconds()))
		})
		if math.Abs(got-tc.want) > tc.ceiling/256 {
			t.Errorf("%s: %.0f, want %.0f", name, got, tc.want)
		}
	}
}
