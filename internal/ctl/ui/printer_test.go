// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func pipe(input string) (*Printer, *bytes.Buffer, *bytes.Buffer) {
	var stdout, stderr bytes.Buffer
	return NewPrinter(strings.NewReader(input), &stdout, &stderr), &stdout, &stderr
}

func TestPipedLines(t *testing.T) {
	p, stdout, stderr := pipe("")
	p.Info("plain %d%%", 5)
	p.Success("done")
	p.Warn("careful")
	p.Error("you should:\n- x\n")
	step := p.Spin("Working")
	step.Text("Still working")
	step.Done("Worked %s", "well")
	step.Stop()

	want := " INFO  plain 5%\n" +
		" INFO  done\n" +
		" WARN  careful\n" +
		" ERRO  you should:\n       - x\n" +
		" INFO  Worked well\n"
	if diff := cmp.Diff(want, stderr.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if stdout.Len() != 0 {
		t.Errorf("progress on standard output: %q", stdout.String())
	}
}

func TestScopeNames(t *testing.T) {
	p, _, stderr := pipe("")
	p.Scope("remote").Success("done")
	p.Scope("").Success("done")
	p.Scope("").Warn("careful")
	if diff := cmp.Diff(" INFO   (remote) done\n INFO  done\n WARN  careful\n", stderr.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestTerminalColours(t *testing.T) {
	p, _, stderr := pipe("")
	p.terminal = true
	p.Warn("careful")
	if got := stderr.String(); !strings.Contains(got, "WARN") || !strings.Contains(got, "careful") {
		t.Errorf("got %q", got)
	}
}

func TestConfirmation(t *testing.T) {
	for response, want := range map[string]error{
		"y\n": nil, "YES\n": nil, "y": nil,
		"\n": errAborted, "n\n": errAborted, "": errAborted, "yesterday\n": errAborted,
	} {
		p, _, stderr := pipe(response)
		if err := p.ask(t.Context(), "uninstall"); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", response, err, want)
		}
		if !strings.HasPrefix(stderr.String(), "uninstall is a potentially destructive command.\nAre you sure you want to continue? [y/N] ") {
			t.Errorf("%q: asked %q", response, stderr.String())
		}
	}
}

func TestConfirmationSignal(t *testing.T) {
	silent, _ := io.Pipe()
	defer silent.Close()
	var stderr bytes.Buffer
	p := NewPrinter(silent, &bytes.Buffer{}, &stderr)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.ask(ctx, "uninstall"); !errors.Is(err, errAborted) {
		t.Errorf("got %v", err)
	}
	if !strings.HasSuffix(stderr.String(), "[y/N] no\n") {
		t.Errorf("it said %q", stderr.String())
	}
}

func TestConfirmationWithoutTerminal(t *testing.T) {
	p, _, stderr := pipe("y\n")
	if err := p.Confirm(t.Context(), "uninstall"); !errors.Is(err, errNoTerminal) {
		t.Errorf("got %v", err)
	}
	if stderr.Len() != 0 {
		t.Errorf("asked nobody %q", stderr.String())
	}
}

func TestBoxWraps(t *testing.T) {
	p, stdout, _ := pipe("")
	s := NewSection("Peer")
	s.Entry("Address", "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen")
	alerts := s.Section("Alerts")
	alerts.Entry("ConnectionOfSomeNodes: pods of the nodes worker-1, worker-2, worker-3 and worker-4 do not reach the peer")
	alerts.Entry("  → see the fabric of these nodes, and the conditions of their InternalNodes in this cluster")
	p.Box(s)

	want := `
┌─ Peer ───────────────────────────────────────────────────────────────────────┐
│ Address: one two three four five six seven eight nine ten eleven twelve      │
│          thirteen fourteen fifteen                                           │
│ Alerts                                                                       │
│     ConnectionOfSomeNodes: pods of the nodes worker-1, worker-2, worker-3    │
│     and worker-4 do not reach the peer                                       │
│       → see the fabric of these nodes, and the conditions of their           │
│       InternalNodes in this cluster                                          │
└──────────────────────────────────────────────────────────────────────────────┘
`
	if diff := cmp.Diff(strings.TrimPrefix(want, "\n"), stdout.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestBox(t *testing.T) {
	p, stdout, _ := pipe("")
	s := NewSection("Local")
	s.Entry("ID", "cl-a")
	s.Entry("Version", "v1")
	s.Entry("Pod CIDRs", "10.0.0.0/8", "fd00::/64")
	s.Entry("✔    fine")
	labels := s.Section("Labels")
	labels.Entry("region", "eu")
	labels.Section("Deep").Entry("x", "y")
	p.Box(s)

	want := `
┌─ Local ──────────────────────────────────────────────────────────────────────┐
│ ID:        cl-a                                                              │
│ Version:   v1                                                                │
│ Pod CIDRs:                                                                   │
│     - 10.0.0.0/8                                                             │
│     - fd00::/64                                                              │
│ ✔    fine                                                                    │
│ Labels                                                                       │
│     region: eu                                                               │
│     Deep                                                                     │
│         x: y                                                                 │
└──────────────────────────────────────────────────────────────────────────────┘
`
	if diff := cmp.Diff(strings.TrimPrefix(want, "\n"), stdout.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
