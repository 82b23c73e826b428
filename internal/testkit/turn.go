// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"sync"
	"testing"
)

// turns are what tests take turns in, by name.
var turns struct {
	sync.Mutex
	idle map[string]chan int
}

// Turn has tests that run at the same time share n of something, such as clusters: it waits for one that no other test has, tells which,
// counted from 0, and keeps it until all that the test does from now on is cleaned up.
func Turn(t testing.TB, what string, n int) int {
	t.Helper()
	idle := idleOf(what, n)
	mine := <-idle
	t.Cleanup(func() { idle <- mine })
	return mine
}

func idleOf(what string, n int) chan int {
	turns.Lock()
	defer turns.Unlock()
	if turns.idle == nil {
		turns.idle = map[string]chan int{}
	}
	if turns.idle[what] == nil {
		turns.idle[what] = make(chan int, n)
		for i := range n {
			turns.idle[what] <- i
		}
	}
	return turns.idle[what]
}
