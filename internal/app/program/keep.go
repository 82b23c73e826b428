// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package program

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"syscall"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
)

// Alone reports whether this process is PID 1 of its container, the case that Keep is for.
func Alone() bool { return os.Getpid() == 1 }

// Settled is the minimum uptime of a process for an immediate restart. After a shorter one the kubelet restarts the container with its
// backoff.
const Settled = 10 * time.Second

// Keep runs the command in a child process until the child exits or ctx ends. If the child is killed or panics, it is restarted at once,
// provided that it had settled: the kubelet notices the end of a container only once per second, and backs off for 10 s the second time.
// Keep returns nil, or the *exec.ExitError of the last child, which has logged the reason.
func Keep(ctx context.Context, settled time.Duration, command func() *exec.Cmd) error {
	for {
		began := time.Now()
		err := runChild(ctx, command())
		if ctx.Err() != nil || !hasCrashed(err) || time.Since(began) < settled {
			return err
		}
		ctrl.Log.Error(err, "the process ended, beginning another one")
	}
}

// self is the path of the running program.
const self = "/proc/self/exe"

// Again is the command line of this process.
func Again() *exec.Cmd {
	cmd := exec.Command(self, os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd
}

func runChild(ctx context.Context, cmd *exec.Cmd) error {
	if err := cmd.Start(); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Signal(syscall.SIGTERM) }) // a child that has exited already is no error
	defer stop()
	return cmd.Wait()
}

// panicked is the exit status of the Go runtime after a panic; errors of our programs exit with 1.
const panicked = 2

// hasCrashed reports whether a process was killed or panicked.
func hasCrashed(err error) bool {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && (status.Signaled() || status.ExitStatus() == panicked)
}
