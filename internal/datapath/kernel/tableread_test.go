// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"fmt"
	"strings"
	"testing"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// What cannot be read is told in a condition, which is written again when its text is another.
func TestUnreadableState(t *testing.T) {
	closed, err := dialNetlink(netns.None())
	fatal(t, err)
	closed.closeAll()
	deaf := &Kernel{sockets: closed}
	id := tableID{unix.NFPROTO_IPV4, "t0"}
	tables, one := map[tableID]*kernelTable{}, &kernelTable{sets: map[string]*kernelSet{}}
	for i := range 8 {
		tables[tableID{unix.NFPROTO_IPV4, fmt.Sprint("t", i)}] = &kernelTable{ours: true}
		one.sets[fmt.Sprint("s", i)] = &kernelSet{}
	}
	for what, read := range map[string]func() error{
		"reading table t0 ": func() error { return deaf.readOurs(tables) },
		"reading set s0: ":  func() error { return deaf.readElements(id, one) },
	} {
		for range 20 {
			if err := read(); err == nil || !strings.HasPrefix(err.Error(), what) {
				t.Fatalf("got %v, want %s", err, what)
			}
		}
	}
}
