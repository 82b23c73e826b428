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

func newSupervisor(t *testing.T, units ...Unit) *supervisor {
	t.Helper()
	runtime.LockOSThread() // children receive Pdeathsig when their thread ends
	s := &supervisor{logs: t.TempDir(), programs: make([]program, len(units))}
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

func waitForExit(t *testing.T, s *supervisor) {
	t.Helper()
	for end := time.Now().Add(time.Minute); s.programs[0].pid != 0; s.reapChildren() {
		if time.Now().After(end) {
			t.Fatal("the program does not end")
		}
	}
}

func TestGate(t *testing.T) {
	gate := filepath.Join(t.TempDir(), "gate")
	s := newSupervisor(t, Unit{Name: "x", Argv: []string{"sleep", "100"}, Gate: gate})
	s.startAndStop(time.Now())
	if s.programs[0].pid != 0 {
		t.Fatal("started before its gate was open")
	}
	if err := os.WriteFile(gate, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	s.startAndStop(time.Now())
	if s.programs[0].pid == 0 {
		t.Fatal("not started although its gate is open")
	}
	if err := os.Remove(gate); err != nil {
		t.Fatal(err)
	}
	s.startAndStop(time.Now())
	waitForExit(t, s)
}

func TestRestartDelay(t *testing.T) {
	s := newSupervisor(t, Unit{Name: "x", Argv: []string{"true"}})
	now := time.Now()
	s.startAndStop(now)
	if s.programs[0].pid == 0 {
		t.Fatal("not started")
	}
	waitForExit(t, s)
	next := s.programs[0].next
	if next.Before(now.Add(restartDelay)) {
		t.Errorf("it may start again %s after it was started", next.Sub(now))
	}
	s.startAndStop(next.Add(-1))
	if s.programs[0].pid != 0 {
		t.Error("started again at once")
	}
	s.startAndStop(next.Add(1))
	if s.programs[0].pid == 0 {
		t.Error("not started again")
	}
	waitForExit(t, s)
}

func TestProgramEnvironment(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1")
	s := newSupervisor(t, Unit{Name: "x", Argv: []string{"env"}, Env: []string{"GOGC=50"}})
	s.startAndStop(time.Now())
	waitForExit(t, s)
	got, err := os.ReadFile(filepath.Join(s.logs, "x.log"))
	want := "PATH=" + os.Getenv("PATH") + "\nHOME=/root\nGOGC=50\n"
	if diff := cmp.Diff(want, string(got)); diff != "" || err != nil {
		t.Error(err, diff)
	}
}

func TestSaveAndLoad(t *testing.T) {
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
