// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"liqo.io/liqo/internal/benchmark"
	"liqo.io/liqo/internal/testkit"
)

func TestBenchCommand(t *testing.T) {
	at := net.JoinHostPort("127.0.0.1", fmt.Sprint(testkit.Port(t)))
	serving, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- Command([]string{"liqo", "bench", "serve", "--token", "secret", "--listen", at}).ExecuteContext(serving)
	}()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("serving: %v", err)
		}
	}()
	testkit.Eventually(t, time.Minute, func() error {
		c, err := net.Dial("tcp", at)
		if err == nil {
			_ = c.Close()
		}
		return err
	})
	plan, err := json.Marshal(benchmark.Plan{Token: "secret", Targets: []string{at}, Streams: []int{1}, RoundTrips: true, Limits: benchmark.Limits{Time: 50 * time.Millisecond, Bytes: 1 << 30}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "termination-log")
	if err := Command([]string{"liqo", "bench", "measure", "--results", file, string(plan)}).ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	message, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var results []benchmark.Measured
	if err := json.Unmarshal(message, &results); err != nil || len(results) != 1 || results[0].Error != "" || len(results[0].Rates) != 1 || results[0].RoundTrips == nil {
		t.Errorf("%s, %v", message, err)
	}
	interrupted, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Command([]string{"liqo", "bench", "measure", "--results", file, string(plan)}).ExecuteContext(interrupted); err == nil {
		t.Error("one that was interrupted has results")
	}
	for _, args := range [][]string{{"measure"}, {"measure", "no plan"}, {"serve"}, {"serve", "--token", "x", "--listen", "nowhere"}} {
		cmd := Command(append([]string{"liqo", "bench"}, args...))
		cmd.SetErr(&bytes.Buffer{})
		if cmd.ExecuteContext(t.Context()) == nil {
			t.Errorf("%v does not fail", args)
		}
	}
}
