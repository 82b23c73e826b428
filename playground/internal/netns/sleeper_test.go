// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package netns

import "os/exec"

// startSleeper starts a process in the caller's namespace and sends its result when it ends.
func startSleeper(ended chan<- error) error {
	cmd := exec.Command("sleep", "100")
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() { ended <- cmd.Wait() }()
	return nil
}
