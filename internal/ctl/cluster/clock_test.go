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
