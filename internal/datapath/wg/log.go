// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package wg

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.zx2c4.com/wireguard/device"
)

// errorInterval is the rate limit of errors of one kind: the library logs one per batch of packets.
const errorInterval = 10 * time.Second

// disallowedSource is in the format of the library's log line for a packet dropped because its source is not among the peer's allowed IPs. The
// library has no counter for these packets.
const disallowedSource = "disallowed source address"

// libraryLog forwards the library's log lines and counts the packets dropped for their source. The lines identify peers by a few letters of
// their public keys and never contain a key.
func libraryLog(log *slog.Logger, refused *atomic.Uint64) *device.Logger {
	var mu sync.Mutex
	last := map[string]time.Time{} // by format, of which the library has a few dozen
	debugf := func(format string, args ...any) {
		if strings.Contains(format, disallowedSource) {
			refused.Add(1)
		}
		if log.Enabled(context.Background(), slog.LevelDebug) {
			log.Debug("WireGuard library", "line", fmt.Sprintf(format, args...))
		}
	}
	errorf := func(format string, args ...any) {
		line := fmt.Sprintf(format, args...)
		if strings.Contains(line, "no known endpoint") { // normal for a server: it waits for its clients
			debugf("%s", line)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if now := time.Now(); now.Sub(last[format]) >= errorInterval {
			last[format] = now
			log.Warn("WireGuard library", "line", line)
		}
	}
	return &device.Logger{Verbosef: debugf, Errorf: errorf}
}
