// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"bytes"
	"context"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"liqo.io/liqo/internal/testkit"
)

// undoneAfter are lines of peer after which what was begun is undone, too: networks are exchanged, there is half a tunnel, a consumer
// without its Identity, and all but a granted slice.
var undoneAfter = []int{4, 12, 33, 36}

// whatIsInterruptedIsTakenUp sends the signal of Ctrl-C after a line, and after the next one of the next run. Gateways and the handshake
// go on at once: the lines of the handshake are come by one by one where it is alone.
func whatIsInterruptedIsTakenUp(t *testing.T, one, two *town) {
	before := census(t, one, two)
	for n := range strings.Count(guided(), "\n") {
		interruptedAt(t, n+1, peers(t, one, two, "peer")...)
		if slices.Contains(undoneAfter, n+1) {
			peered(t, one, two, "unpeer").succeeds(t)
			nothingIsLeft(t, before, one, two)
		}
	}
	wantTranscript(t, peered(t, one, two, "peer"), guided())
	for n := range strings.Count(ended+disconnected, "\n") {
		interruptedAt(t, n+1, peers(t, one, two, "unpeer")...)
	}
	peered(t, one, two, "unpeer").succeeds(t)
}

// interruptedAt interrupts a command after so many lines.
func interruptedAt(t *testing.T, n int, args ...string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stderr := &counter{left: n, then: cancel}
	err := Run(ctx, Options{Args: append([]string{"liqoctl"}, args...), Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: stderr})
	if err != nil && (stderr.left > 0 || strings.Count(stderr.String(), " ERRO ") != 1) {
		t.Errorf("interrupted after %d lines it said:\n%s", n, stderr)
	}
}

// counter does something after some lines.
type counter struct {
	bytes.Buffer
	left int
	then func()
}

func (c *counter) Write(p []byte) (int, error) {
	if strings.HasPrefix(string(p), " INFO ") {
		c.left -= bytes.Count(p, []byte("\n"))
	}
	n, err := c.Buffer.Write(p)
	if c.left <= 0 {
		c.then()
	}
	return n, err
}

// whatIsLostIsWaitedFor has commands lose the API server of either cluster in each of their phases, until they ask for it again.
func whatIsLostIsWaitedFor(t *testing.T, one, two *town) {
	local, near := relayed(t, one)
	remote, far := relayed(t, two)
	for _, of := range []struct {
		command, want string
		every         int
	}{{"peer", guided(), 6}, {"unpeer", ended + disconnected, 3}} {
		said, before := &losses{local: local, remote: remote, every: of.every}, []int{local.Refused(), remote.Refused()}
		args := append([]string{"liqoctl"}, peers(t, near, far, of.command)...)
		if err := Run(t.Context(), Options{Args: args, Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: said}); err != nil {
			t.Errorf("%s ended: %v", of.command, err)
		}
		if got := said.String(); got != of.want {
			t.Errorf("%s said\n%s\nnot\n%s", of.command, got, of.want)
		}
		if local.Refused() == before[0] || remote.Refused() == before[1] {
			t.Errorf("%s lost nothing", of.command)
		}
		local.Cut(0)
		remote.Cut(0)
	}
	// One that does not come back ends the command when its time is over, and another run goes on from there.
	command := []string{"peer", "--networking-disabled"}
	said := &counter{left: 2, then: func() { remote.Cut(math.MaxInt) }}
	args := append([]string{"liqoctl"}, peers(t, near, far, command...)...)
	err := Run(t.Context(), Options{Args: append(args, "--timeout", "10s"), Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: said})
	remote.Cut(0)
	result{stderr: said.String(), err: err}.refuses(t, "in the remote cluster: ", "timed out waiting for the condition", "Run it again to go on from here")
	wantTranscript(t, peered(t, one, two, command...), authenticated+sliced)
	peered(t, one, two, "unpeer").succeeds(t)
}

// relayed is a town whose API server can be lost.
func relayed(t *testing.T, c *town) (*testkit.Relay, *town) {
	t.Helper()
	behind := *c.ControlPlane
	relay, cfg := testkit.NewRelay(t, c.Config)
	behind.Config = cfg
	return relay, &town{ControlPlane: &behind, id: c.id, liqo: c.liqo}
}

// losses takes one API server away after some lines, and the other one after some more, each until somebody asks for it.
type losses struct {
	bytes.Buffer
	local, remote *testkit.Relay
	every, lines  int
}

func (l *losses) Write(p []byte) (int, error) {
	if strings.Contains(string(p), " Waiting for the API server: ") { // not where the libraries try again by themselves
		return len(p), nil
	}
	if l.lines++; l.lines%l.every == 0 {
		[]*testkit.Relay{l.local, l.remote}[l.lines/l.every%2].Cut(1)
	}
	return l.Buffer.Write(p)
}
