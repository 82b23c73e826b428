// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"slices"
	"time"
)

// Outages are measured by probes and their answers. Packets may wait in a queue of the tunnel and come late, so a question counts
// as lost only when it is older than warmUp, and times are those of arrivals.

// probe is when one was sent, and when its answer arrived: never, if that is zero.
type probe struct{ sent, back time.Time }

const (
	askEvery = 5 * time.Millisecond
	// rowLength is how many answers in a row say that all is well, silence how many questions in a row without one that nothing is.
	rowLength = int(time.Second/askEvery) * 9 / 10
	silence   = int(time.Second / askEvery / 2)
)

// row is when the first of enough questions in a row, asked after a moment, was answered.
func row(questions []probe, after, now time.Time) (first time.Time, ok bool) {
	length := 0
	for _, q := range questions {
		switch {
		case q.sent.Before(after), now.Sub(q.sent) < warmUp: // the answer to the latter may be on its way
			continue
		case q.back.IsZero():
			length = 0
			continue
		case length == 0:
			first = q.back
		}
		if length++; length >= rowLength {
			return first, true
		}
	}
	return time.Time{}, false
}

// silent tells whether none of the last questions has been answered.
func silent(questions []probe) bool {
	return len(questions) >= silence && !slices.ContainsFunc(questions[len(questions)-silence:], func(q probe) bool { return !q.back.IsZero() })
}

// gap is the longest time since a moment in which no answer arrived, and how many questions that were asked since then were lost.
func gap(questions []probe, since, now time.Time) (longest time.Duration, lost int) {
	arrivals := []time.Time{now}
	for _, q := range questions {
		if q.back.After(since) {
			arrivals = append(arrivals, q.back)
		}
		if q.back.IsZero() && !q.sent.Before(since) && now.Sub(q.sent) >= warmUp {
			lost++
		}
	}
	slices.SortFunc(arrivals, time.Time.Compare)
	for last := since; len(arrivals) > 0; arrivals = arrivals[1:] {
		longest, last = max(longest, arrivals[0].Sub(last)), arrivals[0]
	}
	return longest, lost
}

// highest is the highest rate up to a ceiling at which at most lossLimit is lost, as it was really sent.
func highest(ceiling float64, try func(rate float64) (sent, arrived int64)) float64 {
	best, low, high := 0.0, 0.0, ceiling
	for range rateSteps {
		rate := (low + high) / 2
		if sent, arrived := try(rate); float64(sent-arrived) <= lossLimit*float64(sent) {
			low, best = rate, max(best, float64(sent)/rateTime.Seconds())
		} else {
			high = rate
		}
	}
	return best
}
