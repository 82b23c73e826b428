// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"liqo.io/liqo/internal/network/plan"
)

// echoingProber has a path whose answers of some sizes come after a round trip; the first probes may get lost.
type echoingProber struct {
	health      PathHealth
	small, full bool
	lost, sent  int
}

// SendNow sends both probes.
func (p *echoingProber) SendNow() {
	now := time.Now()
	p.health.Ask(now)
	if p.sent++; p.sent <= p.lost {
		return
	}
	time.Sleep(3 * time.Millisecond)
	if p.small {
		p.health.Small.Hear(now, time.Now())
	}
	if p.full {
		p.health.Full.Hear(now, time.Now())
	}
}

// Paths returns the only path.
func (p *echoingProber) Paths() []ProbedPath {
	return []ProbedPath{{Peer: "rome", MTU: 1340, Health: p.health.Copy()}}
}

func TestProbeHandler(t *testing.T) {
	small, full := plan.ProbeResult{Peer: "rome", Answered: true, Milliseconds: 3}, plan.ProbeResult{Peer: "rome", Bytes: 1340, Answered: true, Milliseconds: 3}
	lostSmall, lostFull := plan.ProbeResult{Peer: "rome"}, plan.ProbeResult{Peer: "rome", Bytes: 1340}
	for name, tc := range map[string]struct {
		prober echoingProber
		pads   bool
		want   []plan.ProbeResult
		sent   int
	}{
		"answered":                {echoingProber{small: true, full: true}, true, []plan.ProbeResult{small, full}, 1},
		"one packet lost":         {echoingProber{small: true, full: true, lost: 1}, true, []plan.ProbeResult{small, full}, 2},
		"large packets lost":      {echoingProber{small: true}, true, []plan.ProbeResult{small, lostFull}, 2},
		"all lost":                {echoingProber{}, true, []plan.ProbeResult{lostSmall, lostFull}, 2},
		"peer without full probe": {echoingProber{small: true}, false, []plan.ProbeResult{small}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := tc.prober
				p.health = PathHealth{Interval: time.Minute, Threshold: 3, Pads: tc.pads}
				p.health.Small.At = time.Now() // an older answer says nothing about now
				time.Sleep(time.Second)
				handler := newProbeHandler(&p)
				ask := func() *httptest.ResponseRecorder {
					answer := httptest.NewRecorder()
					handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/debug/probe?peer=192.0.2.1", nil))
					return answer
				}
				var got []plan.ProbeResult
				if answer := ask(); answer.Code != http.StatusOK || json.Unmarshal(answer.Body.Bytes(), &got) != nil {
					t.Fatalf("%d %s", answer.Code, answer.Body)
				}
				if diff := cmp.Diff(tc.want, got); diff != "" || p.sent != tc.sent {
					t.Errorf("sent %d times (-want +got):\n%s", p.sent, diff)
				}
				if answer := ask(); answer.Code != http.StatusTooManyRequests || answer.Header().Get("Retry-After") != "1" || p.sent != tc.sent {
					t.Errorf("at once again: %d %v, sent %d times", answer.Code, answer.Header(), p.sent)
				}
				time.Sleep(probePause)
				if answer := ask(); answer.Code != http.StatusOK {
					t.Errorf("a second later: %d", answer.Code)
				}
			})
		})
	}
}
