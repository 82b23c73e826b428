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

// Alone tells whether this process is the first of its container, which Keep is for.
func Alone() bool { return os.Getpid() == 1 }

// Settled is how long a process must have worked to be begun anew at once. One that ends sooner is left to kubelet, which waits longer
// each time.
const Settled = 10 * time.Second

// Keep runs the command once more, in a process of its own, until that ends by itself or ctx does. If it is killed, or panics, another one
// begins at once if it had settled: kubelet sees only each second whether a container ended, and waits for 10 s the second time. It returns
// nil, or an *exec.ExitError of the last process, which has told why.
func Keep(ctx context.Context, settled time.Duration, command func() *exec.Cmd) error {
	for {
		began := time.Now()
		err := keep(ctx, command())
		if ctx.Err() != nil || !died(err) || time.Since(began) < settled {
			return err
		}
		ctrl.Log.Error(err, "the process ended, beginning another one")
	}
}

// self is the program that this process runs.
const self = "/proc/self/exe"

// Again is the command line of this process.
func Again() *exec.Cmd {
	cmd := exec.Command(self, os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd
}

func keep(ctx context.Context, cmd *exec.Cmd) error {
	if err := cmd.Start(); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Signal(syscall.SIGTERM) }) // that it ended already is no error
	defer stop()
	return cmd.Wait()
}

// panicked is the status that the Go runtime exits with; ours is 1.
const panicked = 2

// died tells whether a process ended without having decided to.
func died(err error) bool {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && (status.Signaled() || status.ExitStatus() == panicked)
}
