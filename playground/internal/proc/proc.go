// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package proc starts processes that outlive the command, and finds and ends them by pid files.
package proc

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"liqo.io/liqo/playground/internal/home"
	"liqo.io/liqo/playground/internal/netns"
	"liqo.io/liqo/playground/internal/proc/pidfd"
)

// Spec is a process to start.
type Spec struct {
	PIDFile    string
	Log        string
	Netns      string  // named network namespace
	Namespaces uintptr // further new namespaces, CLONE_NEW…
	Argv       []string
	Timeout    time.Duration // of the start; 0 means ten seconds
}

// Self is the path of the running playground program.
const Self = "/proc/self/exe"

// Start runs the process in its own session unless it is running. The new process writes the pid file before it executes the program, so
// that a running program always has a pid file.
func Start(s Spec) error {
	if Alive(s.PIDFile) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(s.Log), 0o755); err != nil {
		return fmt.Errorf("creating the log folder of %s: %w", s.Argv[0], err)
	}
	log, err := os.OpenFile(s.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("opening the log of %s: %w", s.Argv[0], err)
	}
	defer log.Close()
	if err := os.Remove(s.PIDFile); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("removing a stale pid file: %w", err)
	}
	cmd := exec.Command(Self, append([]string{"internal", "record", s.PIDFile}, s.Argv...)...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Cloneflags: s.Namespaces}
	start := cmd.Start
	if s.Netns != "" {
		start = func() error { return netns.Do(s.Netns, cmd.Start) }
	}
	if err := start(); err != nil {
		return fmt.Errorf("starting %s: %w", s.Argv[0], err)
	}
	go cmd.Wait() // reaps the process while this command runs
	return waitForPIDFile(s)
}

func waitForPIDFile(s Spec) error {
	for deadline := time.Now().Add(cmp.Or(s.Timeout, 10*time.Second)); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if Alive(s.PIDFile) {
			return nil
		}
	}
	return fmt.Errorf("%s did not start, see %s", s.Argv[0], s.Log)
}

// Record writes the pid file of the calling process and executes the program.
func Record(pidFile string, argv []string) error {
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return fmt.Errorf("finding %s: %w", argv[0], err)
	}
	// In a new PID namespace getpid returns 1; the /proc of the machine, which is still mounted, has the pid of the machine.
	pid, err := os.Readlink("/proc/self")
	if err != nil {
		return fmt.Errorf("reading the pid: %w", err)
	}
	start, err := startTime(pid)
	if err != nil {
		return err
	}
	if err := home.Write(pidFile, []byte(pid+" "+start+" "+bootID()), 0o644); err != nil {
		return err
	}
	return fmt.Errorf("running %s: %w", path, unix.Exec(path, argv, os.Environ()))
}

// Alive reports whether the process of the pid file is running. A later process with the same number does not count.
func Alive(pidFile string) bool { return PID(pidFile) != 0 }

// PID returns the number of the running process of a pid file, or 0.
func PID(pidFile string) int {
	data, err := os.ReadFile(pidFile)
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(data))
	if len(fields) != 3 || fields[2] != bootID() {
		return 0
	}
	start, err := startTime(fields[0])
	if err != nil || start != fields[1] {
		return 0
	}
	pid, _ := strconv.Atoi(fields[0])
	return pid
}

// Kill sends SIGKILL to the process of a pid file and waits until it has ended.
func Kill(pidFile string) error {
	if pid := PID(pidFile); pid != 0 {
		if err := pidfd.Kill(pid, func() bool { return PID(pidFile) == pid }); err != nil {
			return fmt.Errorf("ending process %d of %s: %w", pid, pidFile, err)
		}
	}
	if err := os.Remove(pidFile); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("removing a pid file: %w", err)
	}
	return nil
}

// startTime returns field 22 of stat, in ticks since boot, and an error for a zombie.
func startTime(pid string) (string, error) {
	data, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return "", err
	}
	_, rest, ok := strings.Cut(string(data[strings.LastIndexByte(string(data), ')')+1:]), " ")
	fields := strings.Fields(rest)
	if !ok || len(fields) < 20 {
		return "", fmt.Errorf("reading the state of process %s", pid)
	}
	if fields[0] == "Z" || fields[0] == "X" {
		return "", os.ErrProcessDone
	}
	return fields[19], nil
}

func bootID() string {
	data, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(data))
}
