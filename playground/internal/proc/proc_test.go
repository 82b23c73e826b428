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

// The test binary stands in for the playground, which starts itself to write the pid file.
func TestMain(m *testing.M) {
	if len(os.Args) > 4 && os.Args[1] == "internal" && os.Args[2] == "record" {
		println(Record(os.Args[3], os.Args[4:]).Error())
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func spec(t *testing.T, argv ...string) Spec {
	t.Helper()
	dir := t.TempDir()
	return Spec{PIDFile: filepath.Join(dir, "pid"), Log: filepath.Join(dir, "log", "x.log"), Argv: argv}
}

func TestAProcessIsStartedOnceAndEnded(t *testing.T) {
	s := spec(t, "sleep", "100")
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
		t.Error("it lives")
	}
	if err := Kill(s.PIDFile); err != nil {
		t.Errorf("ending it twice: %v", err)
	}
}

func TestAReusedPIDIsNotOurs(t *testing.T) {
	self := strconv.Itoa(os.Getpid())
	start, err := startTime(self)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		text string
		ours bool
	}{
		"the very process":         {self + " " + start + " " + bootID(), true},
		"another start":            {self + " 1" + start + " " + bootID(), false},
		"before the last boot":     {self + " " + start + " 0000", false},
		"a file written by nobody": {"x", false},
		"a number that nobody has": {"4194304 1 " + bootID(), false},
	} {
		file := filepath.Join(t.TempDir(), "pid")
		if err := os.WriteFile(file, []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		if Alive(file) != c.ours {
			t.Errorf("%s: ours is %v", name, !c.ours)
		}
		if !c.ours {
			if err := Kill(file); err != nil { // must not end this test
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func TestAProgramThatIsNotThere(t *testing.T) {
	s := spec(t, "no-such-program")
	s.Limit = 200 * time.Millisecond
	err := Start(s)
	if err == nil || !strings.Contains(err.Error(), s.Log) {
		t.Errorf("got %v, want the place of the log", err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) { // it may have begun late, on a busy machine
		log, _ := os.ReadFile(s.Log)
		if strings.Contains(string(log), "no-such-program") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the log does not say why: %s", log)
		}
	}
}
