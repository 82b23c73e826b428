// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/pterm/pterm"
)

func TestLongWaitPrintedOnce(t *testing.T) {
	for rule, c := range map[string]struct {
		wait func(*Spinner)
		want string
	}{
		"one that goes well says nothing": {func(s *Spinner) {
			s.Waits("no pod is ready")
			time.Sleep(patience - time.Second)
		}, ""},
		"one for the same thing says for what": {func(s *Spinner) {
			s.Waits("no pod is ready")
			time.Sleep(patience + time.Second)
		}, " WARN   (remote) Waiting for the pod: no pod is ready\n"},
		"however often it is heard": {func(s *Spinner) {
			for range 2 * int(patience/time.Second) {
				s.Waits("no pod is ready")
				time.Sleep(time.Second)
			}
		}, " WARN   (remote) Waiting for the pod: no pod is ready\n"},
		"each thing once": {func(s *Spinner) {
			for range 2 {
				s.Waits("no pod is ready")
				time.Sleep(2 * patience)
				s.Waits("the pod has no node")
				time.Sleep(2 * patience)
			}
		}, " WARN   (remote) Waiting for the pod: no pod is ready\n WARN   (remote) Waiting for the pod: the pod has no node\n"},
		"one that goes on is told once it stays the same": {func(s *Spinner) {
			s.Waits("there is no pod")
			time.Sleep(patience - time.Second)
			s.Waits("the pod has no node")
			time.Sleep(patience + time.Second)
		}, " WARN   (remote) Waiting for the pod: the pod has no node\n"},
		"nothing after its end": {func(s *Spinner) {
			s.Waits("no pod is ready")
			s.Stop()
			s.Waits("the pod has no node")
			time.Sleep(2 * patience)
		}, ""},
	} {
		t.Run(rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, _, stderr := pipe("")
				s := p.Scope("remote").Spin("Waiting for the pod")
				c.wait(s)
				s.Stop()
				if diff := cmp.Diff(c.want, stderr.String()); diff != "" {
					t.Errorf("-want +got:\n%s", diff)
				}
			})
		})
	}
}

// shared is written to by spinners, too, while others write.
type shared struct {
	mu sync.Mutex
	b  strings.Builder
}

func (s *shared) Write(data []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(data)
}

func (s *shared) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// A spinner is one line: what it waits for may be cut, and is told then as where nothing spins.
func TestSpinnerOverflow(t *testing.T) {
	for missing, reported := range map[string]bool{"no pod is ready": false, strings.Repeat("no pod is ready, ", 10) + "nor planned": true} {
		synctest.Test(t, func(t *testing.T) {
			p, _, _ := pipe("")
			stderr := &shared{}
			p.stderr, p.terminal = stderr, true
			s := p.Scope("remote").Spin("Waiting for the pod")
			s.Waits(missing)
			time.Sleep(2 * patience)
			s.Stop()
			if strings.Contains(stderr.String(), "Waiting for the pod: "+missing+"\n") != reported {
				t.Errorf("%q is told: %t", missing, !reported)
			}
		})
	}
}

func TestWaitPrintedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _, stderr := pipe("")
		order := p.Order()
		first, end := order.Turn()
		second, _ := order.Turn()
		short, long := second.Spin("Waiting for this"), second.Spin("Waiting for that")
		short.Waits("there is none")
		long.Waits("there is none, too")
		time.Sleep(patience + time.Second)
		short.Stop() // before its turn came
		first.Success("First")
		end()
		time.Sleep(2 * patience)
		long.Stop()
		if diff := cmp.Diff(" INFO  First\n WARN  Waiting for that: there is none, too\n", stderr.String()); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	})
}

func TestSpinnerColours(t *testing.T) {
	p, _, _ := pipe("")
	for scope, want := range map[string]pterm.Color{"": pterm.FgBlue, "local": pterm.FgBlue, "remote": pterm.FgMagenta} {
		if got := p.Scope(scope).Spin("Working").colour; got != want {
			t.Errorf("%q: colour %d, want %d", scope, got, want)
		}
	}
}

func TestSpinnerOneLine(t *testing.T) {
	for text, want := range map[string]string{"short": "short", "just as long": "just as long", "a little longer": "a little lo…", "two\nlines": "two"} {
		if got := fit(text, 12); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
