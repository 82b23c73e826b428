// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package pidfd kills processes through pid file descriptors, which are safe against reused process numbers.
package pidfd

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// Kill kills a process and waits until it has ended. A process that does not exist is no error. isExpected, if not nil, is called after the
// descriptor was opened, and reports whether the number still belongs to the expected process.
func Kill(pid int, isExpected func() bool) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if isExpected != nil && !isExpected() {
		return nil
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil {
		if errors.Is(err, unix.ESRCH) {
			return nil
		}
		return err
	}
	return waitForExit(fd, 20*time.Second)
}

func waitForExit(fd int, timeout time.Duration) error {
	for deadline := time.Now().Add(timeout); time.Now().Before(deadline); {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 1000)
		if n > 0 {
			return nil
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
	}
	return errors.New("the process does not end")
}
