// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"cmp"
	"slices"
	"time"
)

// pmtuSearch finds the largest packets that pass a tunnel, as RFC 8899 does: where full packets get lost and small ones do not, several
// smaller sizes are tried at once, in turns. The largest that is answered is the MTU from the next turn on, and what lies between it and
// what is given up is searched again, until that is less than a step. All sizes are those of packets, in bytes.
type pmtuSearch struct {
	floor, ceiling int           // of the MTU
	mtu            int           // in use
	again          time.Duration // how long an MTU that was found is kept before larger ones are tried
	rest           time.Time     // until then nothing larger is tried, as long as the MTU itself passes

	top    int  // the largest size of the search that goes on; 0: none does
	low    int  // passes; 0: nothing is known to
	high   int  // was given up, with all above it; 0: nothing was
	better bool // low is news of this turn
	misses int  // turns in a row without news
}

const (
	// searchAfter is how many full probes are lost in a row before others are tried: less than what ends a Connection.
	searchAfter = 2
	// tries of a size are lost before it is given up. Some are lost for other reasons.
	tries = 3
	// atOnce is into how many parts a range is split, with one try for each.
	atOnce = 4
	// step is that of WireGuard, which fills up packets to multiples of it.
	step = 16
	// raiseAfter is how long an MTU that was found is kept.
	raiseAfter = 10 * time.Minute
)

// Floors of a search. Less than 1024 bytes is no way of today, but one that is broken: RFC 4821 begins there, too. IPv6 needs more.
const (
	floorIPv4 = 1024
	floorIPv6 = 1280
)

// setFloor sets how far the MTU may go down. One that is below is no longer used.
func (s *pmtuSearch) setFloor(floor int) {
	if s.floor == floor {
		return
	}
	s.stopSearch()
	s.floor, s.mtu = floor, max(s.mtu, min(floor, s.ceiling))
}

// setKnownMTU takes up an MTU that was found before. Whether there is more is tried at once.
func (s *pmtuSearch) setKnownMTU(mtu int) {
	if mtu >= s.floor && mtu < s.mtu {
		s.mtu = mtu
	}
}

func (s *pmtuSearch) stopSearch() { s.top, s.low, s.high, s.better, s.misses = 0, 0, 0, false, 0 }

// nextSizes begins one: it takes in the last one, and tells which sizes to try. That many full probes were lost in a row; without alive small
// ones are, too, and nothing can be told apart.
func (s *pmtuSearch) nextSizes(now time.Time, lost int, alive bool) []int {
	if !alive {
		s.stopSearch()
		return nil
	}
	if s.top > 0 && s.narrowRange(now) {
		lost = 0 // of what is not asked any more
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

// reset is what passes, and nobody can find it out: the MTU is what it may be.
func (s *pmtuSearch) reset() {
	s.stopSearch()
	s.mtu = s.ceiling
}

// narrowRange ends a turn, and the search where nothing is left of it. It tells whether there is another MTU.
func (s *pmtuSearch) narrowRange(now time.Time) (changed bool) {
	was := s.mtu
	s.mtu = cmp.Or(s.low, s.mtu)
	if s.misses++; s.better {
		s.misses = 0
	}
	s.better = false
	if left := s.probeSizes(); s.misses == tries && len(left) > 0 {
		s.high, s.misses = left[0], 0
	}
	if len(s.probeSizes()) == 0 {
		s.stopSearch()
		s.rest = now.Add(s.again)
	}
	return s.mtu != was
}

// probeSizes are those to try, in order. The MTU itself is among them as often as has it lowered only where it does not pass, while nothing is
// known to: one packet gets lost for other reasons.
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

// recordAnswer takes in that a packet passed, and tells whether that is news.
func (s *pmtuSearch) recordAnswer(size int) bool {
	if size < s.floor || size <= s.low || size > s.top || s.high > 0 && size >= s.high {
		return false
	}
	s.low, s.better = size, true
	return true
}
