// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package program

import (
	"context"
	"io"
	"os/exec"
	"testing"
	"time"
)

// A shell stands for the process.
func TestEndedProcess(t *testing.T) {
	for script, want := range map[string]bool{
		"exit 0":        false,
		"exit 1":        false, // with an error that it told
		"exit 2":        true,  // a panic
		"kill -KILL $$": true,  // or out of memory
	} {
		if err := runChild(t.Context(), exec.Command("sh", "-c", script)); hasCrashed(err) != want {
			t.Errorf("%s: died is not %t: %v", script, want, err)
		}
	}
	if err := runChild(t.Context(), exec.Command("/does/not/exist")); err == nil || hasCrashed(err) {
		t.Errorf("what cannot be started: %v", err)
	}
}

func TestProcessRestart(t *testing.T) {
	scripts := []string{"kill -KILL $$", "exit 2", "exit 0"}
	for settled, want := range map[time.Duration]int{0: 3, time.Hour: 1} {
		begun := 0
		err := Keep(t.Context(), settled, func() *exec.Cmd {
			begun++
			return exec.Command("sh", "-c", scripts[begun-1])
		})
		if begun != want || (err == nil) != (want == 3) {
			t.Errorf("settled after %s: %d processes, %v; want %d", settled, begun, err, want)
		}
	}
}

func TestProcessStop(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	begun := 0
	err := Keep(ctx, 0, func() *exec.Cmd {
		begun++
		cmd := exec.Command("sh", "-c", "trap 'exit 3' TERM; echo ready; read forever")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := cmd.StdinPipe(); err != nil { // it stays open
			t.Fatal(err)
		}
		go func() {
			_, _ = io.ReadFull(out, make([]byte, len("ready")))
			stop()
		}()
		return cmd
	})
	if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 3 || begun != 1 {
		t.Errorf("%d processes, the last of which ended with %v", begun, err)
	}
}
