// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The test binary replaces the playground, which runs itself to write the pid file.
func TestMain(m *testing.M) {
	if len(os.Args) > 4 && os.Args[1] == "internal" && os.Args[2] == "record" {
		println(Record(os.Args[3], os.Args[4:]).Error())
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func newSpec(t *testing.T, argv ...string) Spec {
	t.Helper()
	dir := t.TempDir()
	return Spec{PIDFile: filepath.Join(dir, "pid"), Log: filepath.Join(dir, "log", "x.log"), Argv: argv}
}

func TestStartAndKill(t *testing.T) {
	s := newSpec(t, "sleep", "100")
	if err := Start(s); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = Kill(s.PIDFile) })
	pid := PID(s.PIDFile)
	if err := Start(s); err != nil {
		t.Fatal(err)
	}
	if again := PID(s.PIDFile); pid == 0 || again != pid {
		t.Errorf("process %d, after a second start %d", pid, again)
	}
	if err := Kill(s.PIDFile); err != nil {
		t.Fatal(err)
	}
	if Alive(s.PIDFile) {
		t.Error("the process is running after Kill")
	}
	if err := Kill(s.PIDFile); err != nil {
		t.Errorf("second Kill: %v", err)
	}
}

func TestAliveOfReusedPID(t *testing.T) {
	self := strconv.Itoa(os.Getpid())
	start, err := startTime(self)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		text  string
		alive bool
	}{
		"same process":     {self + " " + start + " " + bootID(), true},
		"other start time": {self + " 1" + start + " " + bootID(), false},
		"other boot":       {self + " " + start + " 0000", false},
		"invalid file":     {"x", false},
		"unused number":    {"4194304 1 " + bootID(), false},
	} {
		file := filepath.Join(t.TempDir(), "pid")
		if err := os.WriteFile(file, []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		if Alive(file) != c.alive {
			t.Errorf("%s: alive is %v", name, !c.alive)
		}
		if !c.alive {
			if err := Kill(file); err != nil { // must not kill this test
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func TestStartOfMissingProgram(t *testing.T) {
	s := newSpec(t, "no-such-program")
	s.Timeout = 200 * time.Millisecond
	err := Start(s)
	if err == nil || !strings.Contains(err.Error(), s.Log) {
		t.Errorf("got %v, want the path of the log", err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) { // the process may start late on a busy machine
		log, _ := os.ReadFile(s.Log)
		if strings.Contains(string(log), "no-such-program") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the log does not have the reason: %s", log)
		}
	}
}
