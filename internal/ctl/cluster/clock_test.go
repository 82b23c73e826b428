// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

func TestServerClock(t *testing.T) {
	ahead := 0 * time.Second
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", time.Now().Add(ahead).UTC().Format(http.TimeFormat))
	}))
	t.Cleanup(server.Close)
	for _, ahead = range []time.Duration{0, time.Hour, -time.Hour} {
		cfg := &rest.Config{Host: server.URL}
		clock := NewServerClock(cfg)
		c, err := rest.HTTPClientFor(cfg)
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if got := clock.Skew(); (got - ahead).Abs() > time.Minute {
			t.Errorf("%s ahead: %s", ahead, got)
		}
		if got := time.Until(clock.Now()); (got - ahead).Abs() > time.Minute {
			t.Errorf("%s ahead: it is %s later there", ahead, got)
		}
	}
}

// TestServerClockFollows sets the clock of this machine, or has it drift, while the process runs.
func TestServerClockFollows(t *testing.T) {
	clock, start := &ServerClock{}, time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for _, answer := range []struct {
		name               string
		after, ahead, took time.Duration
		want               time.Duration
	}{
		{"the first one, fast", 0, 10 * time.Second, 10 * time.Millisecond, 10 * time.Second},
		{"slower ones are less precise", time.Second, 11 * time.Second, 3 * time.Second, 10 * time.Second},
		{"a slower one contradicts: this clock was set", 2 * time.Second, time.Hour, 3 * time.Second, time.Hour},
		{"a faster one is more precise", 3 * time.Second, time.Hour + time.Second, time.Millisecond, time.Hour + time.Second},
		{"the best one is old", 2 * time.Minute, time.Hour, 3 * time.Second, time.Hour},
		{"this clock was set back before the best one", -2 * time.Hour, 0, time.Second, 0},
	} {
		sent := start.Add(answer.after)
		clock.noteDate(sent.Add(answer.took/2+answer.ahead-time.Second/2), sent, sent.Add(answer.took))
		if got := clock.Skew(); got != answer.want {
			t.Errorf("%s: %s ahead, want %s", answer.name, got, answer.want)
		}
	}
}
