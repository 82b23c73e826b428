// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"syscall"
	"testing"
	"time"
)

// nowhere is what no gateway leads to, in the end or from the beginning: oslo has none.
var nowhere = map[string][]string{
	"a peer that has no gateway": {"10.69.1.5:7", "10.64.0.11:7"},
	"a peer whose gateway went":  {"10.71.1.5:7", "10.68.0.12:7"},
}

// astray are Services with a backend that is nowhere. Who asks one is told nothing: the kernel knows no flow yet by which it could translate
// what the error quotes. That is why such endpoints are withdrawn.
var astray = []string{service, "172.29.1.2:30080"}

// isUnreachable has pods and nodes ask in vain: they are told so, and nothing takes the way to all others.
func (l *lab) isUnreachable(t *testing.T, all []string) {
	before := l.strays()
	for _, from := range []string{"a/pod", "a/far", "a/one", "a/two"} {
		for _, to := range slices.Concat(all, astray) {
			l.spaces[from].inside(t, func() error {
				_ = datagram(netip.MustParseAddrPort(to))(t.Context()) // whose sender is only told if it wants to be
				if slices.Contains(astray, to) {
					return nil
				}
				return refusedAtOnce(netip.MustParseAddrPort(to))
			})
		}
	}
	if n := l.strays(); n != before {
		t.Errorf("%d packets left by the way to all others", n-before)
	}
	l.spaces["a/two"].inside(t, func() error { // where the world would see them
		return errors.Join(datagram(netip.MustParseAddrPort("10.99.0.1:7"))(t.Context()),
			soon("a stray packet", func() (bool, error) { return l.strays() == before+1, nil }))
	})
}

// neighbourless is less than it takes until whoever asks for a neighbour that is not there gives up, and says "unreachable", too.
const neighbourless = 2 * time.Second

// refusedAtOnce has somebody told that an address is unreachable, and not after looking for it. A kernel tells an address so five times in a row
// and then once a second, which no namespace has a setting for: whoever asked before waits that long.
func refusedAtOnce(to netip.AddrPort) error {
	var took time.Duration
	for range 10 { // a busy machine may be late
		start := time.Now()
		_, err := streamTo(to, 6)
		if !errors.Is(err, syscall.EHOSTUNREACH) && !errors.Is(err, syscall.ENETUNREACH) {
			return fmt.Errorf("%s: %v, and not: unreachable", to, err)
		}
		if took = time.Since(start); took < neighbourless {
			return nil
		}
		time.Sleep(time.Second + 100*time.Millisecond)
	}
	return fmt.Errorf("%s is unreachable only after %s", to, took)
}
