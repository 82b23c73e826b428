// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"cmp"
	"slices"
	"time"
)

// pmtuSearch finds the path MTU of a tunnel as RFC 8899 does: where full packets are lost and small packets pass, several smaller sizes
// are probed at once, in turns. The largest answered size is the MTU from the next turn on, and the range between it and the smallest
// lost size is searched again, until the range is less than a step. All sizes are packet sizes, in bytes.
type pmtuSearch struct {
	floor, ceiling int           // of the MTU
	mtu            int           // in use
	again          time.Duration // time a found MTU is kept before larger sizes are probed
	rest           time.Time     // until then nothing larger is tried, as long as the MTU itself passes

	top    int  // upper bound of the running search; 0: none runs
	low    int  // passes; 0: nothing is known to
	high   int  // smallest size given up, with all above; 0: none
	better bool // low is news of this turn
	misses int  // turns in a row without news
}

const (
	// searchAfter is the number of full probes lost in a row before smaller sizes are probed: less than the threshold
	// of the Connection.
	searchAfter = 2
	// tries is the number of lost probes after which a size is given up. Probes can be lost for other reasons.
	tries = 3
	// atOnce is the number of parts into which a range is split, with one probe for each.
	atOnce = 4
	// step is the padding of WireGuard: multiples of 16 bytes.
	step = 16
	// raiseAfter is the time a found MTU is kept before larger sizes are probed (raise timer).
	raiseAfter = 10 * time.Minute
)

// Floors of a search. A path with less than 1024 bytes is broken: RFC 4821 begins at that size, too. IPv6 needs more.
const (
	floorIPv4 = 1024
	floorIPv6 = 1280
)

// setFloor sets the lower bound of the MTU. A smaller MTU is no longer used.
func (s *pmtuSearch) setFloor(floor int) {
	if s.floor == floor {
		return
	}
	s.stopSearch()
	s.floor, s.mtu = floor, max(s.mtu, min(floor, s.ceiling))
}

// setKnownMTU adopts the MTU of an earlier process. Larger sizes are probed at once.
func (s *pmtuSearch) setKnownMTU(mtu int) {
	if mtu >= s.floor && mtu < s.mtu {
		s.mtu = mtu
	}
}

func (s *pmtuSearch) stopSearch() { s.top, s.low, s.high, s.better, s.misses = 0, 0, 0, false, 0 }

// nextSizes ends the last turn and returns the sizes to probe in the next. lost is the number of full probes lost in a row; without alive,
// small probes are lost too, and a black hole cannot be told from a dead tunnel.
func (s *pmtuSearch) nextSizes(now time.Time, lost int, alive bool) []int {
	if !alive {
		s.stopSearch()
		return nil
	}
	if s.top > 0 && s.narrowRange(now) {
		lost = 0 // sizes that are no longer probed do not count
	}
	switch {
	case lost >= searchAfter && s.floor < s.mtu && (s.top == 0 || s.low > 0):
		s.stopSearch()
		s.top = s.mtu
	case s.top == 0 && s.mtu < s.ceiling && !now.Before(s.rest):
		s.top, s.low = s.ceiling, s.mtu
	}
	return s.probeSizes()
}

// reset ends the search without a result: the MTU is the upper bound.
func (s *pmtuSearch) reset() {
	s.stopSearch()
	s.mtu = s.ceiling
}

// narrowRange ends a turn, and the search if the range is less than a step. It reports whether the MTU
// changed.
func (s *pmtuSearch) narrowRange(now time.Time) (changed bool) {
	was := s.mtu
	s.mtu = cmp.Or(s.low, s.mtu)
	if s.misses++; s.better {
		s.misses = 0
	}
	s.better = false
	if remaining := s.probeSizes(); s.misses == tries && len(remaining) > 0 {
		s.high, s.misses = remaining[0], 0
	}
	if len(s.probeSizes()) == 0 {
		s.stopSearch()
		s.rest = now.Add(s.again)
	}
	return s.mtu != was
}

// probeSizes returns the sizes to probe, ascending. While no size is known to pass, the MTU itself is repeated, so that the MTU is lowered only if it
// does not pass: a single packet can be lost for other reasons.
func (s *pmtuSearch) probeSizes() []int {
	var out []int
	from, until := s.low, cmp.Or(s.high, s.top)
	if from == 0 && until > s.floor {
		from, out = s.floor, []int{s.floor}
	}
	if from == 0 || until <= from {
		return nil
	}
	wide := (until - from + atOnce - 1) / atOnce
	wide = (wide + step - 1) / step * step
	for size := (from + wide) / step * step; size < until; size += wide {
		out = append(out, size)
	}
	switch {
	case s.high > 0:
	case s.low == 0:
		out = append(out, slices.Repeat([]int{s.top}, tries)...)
	default:
		out = append(out, s.top)
	}
	return out
}

// recordAnswer records that a packet passed, and reports whether the size is new.
func (s *pmtuSearch) recordAnswer(size int) bool {
	if size < s.floor || size <= s.low || size > s.top || s.high > 0 && size >= s.high {
		return false
	}
	s.low, s.better = size, true
	return true
}
