// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package netns

import (
	"fmt"
	"os"
	"time"

	"liqo.io/liqo/playground/internal/proc/pidfd"
)

// Remove ends every process of the namespace and removes it. What lives in a namespace with our name is ours: there
// is no other way in than through us.
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
				return fmt.Errorf("the playground runs inside %s and cannot remove it", name)
			}
			if err := pidfd.Kill(pid, nil); err != nil {
				return fmt.Errorf("ending process %d of %s: %w", pid, name, err)
			}
		}
		time.Sleep(20 * time.Millisecond) // what these have started
	}
	return fmt.Errorf("processes keep appearing in %s", name)
}
