// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package supervise

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func newSet(t *testing.T, units ...Unit) *set {
	t.Helper()
	runtime.LockOSThread() // children die with their thread
	s := &set{logs: t.TempDir(), programs: make([]program, len(units))}
	for i, u := range units {
		s.programs[i].Unit = u
	}
	t.Cleanup(func() {
		for _, p := range s.programs {
			if p.pid != 0 {
				_ = syscall.Kill(p.pid, syscall.SIGKILL)
			}
		}
	})
	return s
}

func ended(t *testing.T, s *set) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); s.programs[0].pid != 0; s.reap() {
		if time.Now().After(end) {
			t.Fatal("it does not end")
		}
	}
}

func TestAProgramRunsOnlyWhileItsGateExists(t *testing.T) {
	gate := filepath.Join(t.TempDir(), "gate")
	s := newSet(t, Unit{Name: "x", Argv: []string{"sleep", "100"}, Gate: gate})
	s.step(time.Now())
	if s.programs[0].pid != 0 {
		t.Fatal("started before its gate was open")
	}
	if err := os.WriteFile(gate, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	s.step(time.Now())
	if s.programs[0].pid == 0 {
		t.Fatal("not started although its gate is open")
	}
	if err := os.Remove(gate); err != nil {
		t.Fatal(err)
	}
	s.step(time.Now())
	ended(t, s)
}

func TestAProgramThatEndsIsStartedAgainAfterAWhile(t *testing.T) {
	s := newSet(t, Unit{Name: "x", Argv: []string{"true"}})
	now := time.Now()
	s.step(now)
	if s.programs[0].pid == 0 {
		t.Fatal("not started")
	}
	ended(t, s)
	next := s.programs[0].next
	if next.Before(now.Add(restart)) {
		t.Errorf("it may start again %s after it was started", next.Sub(now))
	}
	s.step(next.Add(-1))
	if s.programs[0].pid != 0 {
		t.Error("started again at once")
	}
	s.step(next.Add(1))
	if s.programs[0].pid == 0 {
		t.Error("not started again")
	}
	ended(t, s)
}

func TestAProgramSeesOnlyItsOwnEnvironment(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1")
	s := newSet(t, Unit{Name: "x", Argv: []string{"env"}, Env: []string{"GOGC=50"}})
	s.step(time.Now())
	ended(t, s)
	got, err := os.ReadFile(filepath.Join(s.logs, "x.log"))
	want := "PATH=" + os.Getenv("PATH") + "\nHOME=/root\nGOGC=50\n"
	if diff := cmp.Diff(want, string(got)); diff != "" || err != nil {
		t.Error(err, diff)
	}
}

func TestUnitsAreReadAsTheyWereWritten(t *testing.T) {
	want := []Unit{{Name: "x", Argv: []string{"x", "--y"}, Env: []string{"A=b"}, Gate: "/g"}, {Name: "z", Argv: []string{"z"}}}
	dir := t.TempDir()
	if err := Save(dir, want); err != nil {
		t.Fatal(err)
	}
	got, err := Load(dir)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(err, diff)
	}
}
