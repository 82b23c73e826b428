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

	"liqo.io/liqo/internal/probe"
	"liqo.io/liqo/internal/testkit"
)

func TestProbeCommand(t *testing.T) {
	at := net.JoinHostPort("127.0.0.1", fmt.Sprint(testkit.Port(t)))
	serving, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- Command([]string{"liqo", "reach", "serve", "--name", "a", "--listen", at}).ExecuteContext(serving)
	}()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("answering: %v", err)
		}
	}()
	targets, err := json.Marshal([]probe.Target{{At: at, Answers: []string{"a"}}, {At: at, Answers: []string{"b"}}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "termination-log")
	if err := Command([]string{"liqo", "reach", "ask", "--results", file, string(targets)}).ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	message, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	results, err := probe.ParseResults(string(message), 2)
	if err != nil || results.Marks != ".x" || results.Why[1] != `"a" answers instead of b` {
		t.Errorf("%s, %v", message, err)
	}
	interrupted, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Command([]string{"liqo", "reach", "ask", "--results", file, string(targets)}).ExecuteContext(interrupted); err == nil {
		t.Error("one that was interrupted has results")
	}
	for _, args := range [][]string{{"ask"}, {"ask", "no list"}, {"serve", "--listen", "nowhere"}} {
		cmd := Command(append([]string{"liqo", "reach"}, args...))
		cmd.SetErr(&bytes.Buffer{})
		if cmd.ExecuteContext(t.Context()) == nil {
			t.Errorf("%v does not fail", args)
		}
	}
}
