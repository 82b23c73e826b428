// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package pidfd ends processes through handles, which a reused process number cannot fool.
package pidfd

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// Kill ends a process and waits until it is gone; gone already is fine. still, when given, is asked with the handle
// in hand whether the number still means the right process.
func Kill(pid int, still func() bool) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if still != nil && !still() {
		return nil
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil {
		if errors.Is(err, unix.ESRCH) {
			return nil
		}
		return err
	}
	return wait(fd, 20*time.Second)
}

func wait(fd int, limit time.Duration) error {
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 1000)
		if n > 0 {
			return nil
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
	}
	return errors.New("it does not end")
}
