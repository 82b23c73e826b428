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

// errorInterval is how often the same kind of error is logged: the library logs one per batch of packets.
const errorInterval = 10 * time.Second

// ofAStranger is in the format of the line that the library has for each packet that it drops because the peer may not send from its source.
// It counts none, and tells of them nowhere else.
const ofAStranger = "disallowed source address"

// libraryLog hands the library's lines on, and counts packets that it refused. They name peers by a few letters of their public keys and never
// hold a key.
func libraryLog(log *slog.Logger, refused *atomic.Uint64) *device.Logger {
	var mu sync.Mutex
	last := map[string]time.Time{} // by format, of which the library has a few dozen
	debugf := func(format string, args ...any) {
		if strings.Contains(format, ofAStranger) {
			refused.Add(1)
		}
		if log.Enabled(context.Background(), slog.LevelDebug) {
			log.Debug("WireGuard library", "line", fmt.Sprintf(format, args...))
		}
	}
	errorf := func(format string, args ...any) {
		line := fmt.Sprintf(format, args...)
		if strings.Contains(line, "no known endpoint") { // a server waits for its clients
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
