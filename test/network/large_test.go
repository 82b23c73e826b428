// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

// large pings with what just fits into a tunnel, what does not, and what is fragments on every way.
func large(t *testing.T, from []probeSource, to []probeTarget) {
	t.Helper()
	var asking sync.WaitGroup
	for _, p := range from {
		asking.Go(func() {
			for _, g := range to { // one after the other, with all sizes at a time
				script := fmt.Sprintf(`for n in 1300 1400 4000; do (ping -c 3 -i 0.2 -W 2 -s $n %s >/dev/null || echo $n) & done; wait`, g.host)
				if lost, err := p.run(script); err != nil || lost != "" {
					t.Errorf("from %s to %s: messages are lost of the sizes %q %v", p.name, g.name, strings.Fields(lost), err)
				}
			}
		})
	}
	asking.Wait()
	if t.Failed() {
		show(t)
	}
}
