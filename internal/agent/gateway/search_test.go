// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	_ "liqo.io/liqo/internal/testkit/repeatable"
	"pgregory.net/rapid"
)

// line is a way on which packets up to a size pass, with probes of each second.
type line struct {
	pmtuSearch
	now     time.Time
	passes  int
	dead    bool
	lost    int // full probes in a row
	drops   func(size int) bool
	changes []string
}

func newLine(floor, ceiling, passes int) *line {
	l := &line{pmtuSearch: pmtuSearch{ceiling: ceiling, mtu: ceiling, again: raiseAfter}, passes: passes, now: time.Unix(0, 0), drops: func(int) bool { return false }}
	l.setFloor(floor)
	return l
}

// second is one interval: it tells what was tried.
func (l *line) second() []int {
	l.now = l.now.Add(time.Second)
	was := l.mtu
	tried := l.nextSizes(l.now, l.lost, !l.dead)
	if l.mtu != was {
		l.lost, l.changes = 0, append(l.changes, fmt.Sprint(l.mtu))
	}
	through := func(size int) bool { return !l.dead && size <= l.passes && !l.drops(size) }
	requested := tried
	if !slices.Contains(requested, l.mtu) {
		requested = append(requested, l.mtu)
	}
	l.lost++
	for _, size := range requested {
		if !through(size) {
			continue
		}
		if l.recordAnswer(size); size == l.mtu {
			l.lost = 0
		}
	}
	return tried
}

func (l *line) seconds(n int) {
	for range n {
		l.second()
	}
}

func TestPMTUSearchResult(t *testing.T) {
	for name, test := range map[string]struct {
		floor, ceiling, passes int
		want                   string // the MTUs that came to be used
		within                 int    // seconds until nothing is tried any more
	}{
		"all passes":                    {1024, 1340, 1340, "", 0},
		"more than all":                 {1024, 1340, 9000, "", 0},
		"a little less":                 {1024, 1340, 1339, "1264 1328", 12},
		"much less":                     {1024, 1340, 1100, "1024 1088", 14},
		"only just":                     {1024, 1340, 1024, "1024", 14},
		"nothing that may be":           {1024, 1340, 1023, "", 0},
		"IPv6, of which a little fits":  {1280, 1440, 1300, "1280 1296", 10},
		"IPv6, of which nothing does":   {1280, 1440, 1279, "", 0},
		"jumbo frames on half of a way": {1024, 8940, 1440, "1024 1408 1440", 20},
		"no room to search":             {1024, 1000, 900, "", 0},
	} {
		l := newLine(test.floor, test.ceiling, test.passes)
		for seconds := 0; seconds < 60; seconds++ {
			if tried := l.second(); len(tried) > atOnce+1+tries {
				t.Errorf("%s: %v are tried at once", name, tried)
			} else if test.within > 0 && seconds > test.within && len(tried) > 0 {
				t.Errorf("%s: after %d s %v are tried", name, seconds, tried)
			}
		}
		if got := strings.Join(l.changes, " "); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// The Connection ends with the fourth loss: until then there is an MTU that passes.
func TestPMTUSearchInTime(t *testing.T) {
	l := newLine(1024, 1340, 1340)
	l.seconds(5)
	l.passes = 1200
	for worst := 0; len(l.changes) == 0; {
		if l.second(); l.lost > worst {
			worst = l.lost
		}
		if worst > 3 {
			t.Fatal("nothing is found in time")
		}
	}
}

func TestPMTUSearchRaise(t *testing.T) {
	l := newLine(1024, 1340, 1200)
	l.seconds(60)
	found := l.mtu
	l.passes = 1340
	quiet := int(raiseAfter/time.Second) - 60
	for range quiet {
		if tried := l.second(); len(tried) > 0 {
			t.Fatalf("%s after the search %v are tried", l.now.Sub(time.Unix(0, 0)), tried)
		}
	}
	if l.seconds(61); l.mtu != 1340 {
		t.Errorf("the MTU is %d, and was %d", l.mtu, found)
	}
}

func TestPMTUSearchEnds(t *testing.T) {
	for name, test := range map[string]struct {
		do   func(*line)
		want int
	}{
		"the loss was a passing one":      {func(l *line) { l.seconds(3); l.passes = 1340; l.seconds(20) }, 1340},
		"nothing passes any more":         {func(l *line) { l.seconds(2); l.dead = true; l.seconds(20) }, 1340},
		"nothing, and then little passes": {func(l *line) { l.dead = true; l.seconds(20); l.dead = false; l.seconds(20) }, 1200},
		"less and less passes":            {func(l *line) { l.seconds(30); l.passes = 1100; l.seconds(30) }, 1088},
		"less passes while more is tried": {func(l *line) {
			l.seconds(30)
			l.now = l.now.Add(raiseAfter)
			l.second()
			l.passes = 1100
			l.seconds(30)
		}, 1088},
		"IPv6 comes, which needs more": {func(l *line) { l.seconds(30); l.setFloor(floorIPv6) }, 1280},
		"it was found before":          {func(l *line) { l.setKnownMTU(1200); l.seconds(30) }, 1200},
		"more was found before":        {func(l *line) { l.setKnownMTU(1400); l.seconds(30) }, 1200},
		"what was found passes no more": {func(l *line) {
			l.setKnownMTU(1300)
			l.seconds(30)
		}, 1200},
		"what was found is too little": {func(l *line) { l.setKnownMTU(600); l.seconds(30) }, 1200},
	} {
		l := newLine(1024, 1340, 1200)
		test.do(l)
		if l.mtu != test.want {
			t.Errorf("%s: the MTU is %d, want %d", name, l.mtu, test.want)
		}
	}
	l := newLine(1024, 1340, 1340)
	l.setKnownMTU(1200)
	if l.seconds(2); l.mtu != 1340 {
		t.Errorf("what passes again is not used at once, but %d", l.mtu)
	}
}

// Where one packet of twenty gets lost each way, an answer is missing with 0.0975. Two in a row begin a search about 31 times in an hour. One
// that has the MTU lowered by a single try of it would do so with 0.0975, three times in an hour; with three tries it is once in 35 hours. Each
// is two changes, for it is raised again: more than ten in a day have a probability below one in ten thousand, and the seeds are given.
func TestPMTUSearchPacketLoss(t *testing.T) {
	const missing = 1 - 0.95*0.95
	changes := 0
	for hour := range uint64(24) {
		random := rand.New(rand.NewPCG(hour, 0))
		l := newLine(1024, 1340, 1340)
		l.drops = func(int) bool { return random.Float64() < missing }
		l.seconds(60 * 60)
		changes += len(l.changes)
	}
	if changes > 10 {
		t.Errorf("in a day the MTU changed %d times", changes)
	}
}

// Whatever passes, and whatever else is lost: the MTU stays within its bounds and comes to be what passes, but for a step.
func TestPMTUSearchProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		floor := rapid.SampledFrom([]int{floorIPv4, floorIPv6}).Draw(t, "floor")
		ceiling := rapid.IntRange(600, 9000).Draw(t, "ceiling")
		l := newLine(floor, ceiling, ceiling)
		for range rapid.IntRange(1, 4).Draw(t, "ways") {
			l.passes = rapid.IntRange(500, 9100).Draw(t, "passes")
			noise := rapid.SliceOfN(rapid.IntRange(0, 9), 1, 50).Draw(t, "noise")
			n := 0
			l.drops = func(int) bool { n++; return noise[n%len(noise)] == 0 }
			for range rapid.IntRange(0, 80).Draw(t, "noisy seconds") {
				l.dead = noise[n%len(noise)] == 1
				if l.second(); l.mtu > ceiling || l.mtu < min(floor, ceiling) {
					t.Fatalf("the MTU is %d", l.mtu)
				}
			}
		}
		l.dead, l.drops = false, func(int) bool { return false }
		l.seconds(2*int(raiseAfter/time.Second) + 120) // twice: noise may be taken for what does not pass
		switch want := min(l.passes, ceiling); {
		case want < min(floor, ceiling) || floor >= ceiling:
		case l.mtu > want || l.mtu < want-step:
			t.Errorf("the MTU is %d, and %d pass", l.mtu, l.passes)
		}
	})
}
