// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package netns

import (
	"fmt"
	"os"
	"time"

	"liqo.io/liqo/playground/internal/proc/pidfd"
)

// Remove kills all processes of the namespace and removes it. All processes of such a namespace were started by the playground.
func Remove(name string) error {
	for range 50 {
		pids, err := Processes(name)
		if err != nil {
			return err
		}
		if len(pids) == 0 {
			return Delete(name)
		}
		for _, pid := range pids {
			if pid == os.Getpid() {
				return fmt.Errorf("cannot remove the network namespace %s: the playground runs in it", name)
			}
			if err := pidfd.Kill(pid, nil); err != nil {
				return fmt.Errorf("ending process %d of %s: %w", pid, name, err)
			}
		}
		time.Sleep(20 * time.Millisecond) // these processes may have started others
	}
	return fmt.Errorf("new processes keep starting in the network namespace %s", name)
}
