// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package progress tells a human what happens: one line per fact, with the time since the start.
package progress

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// Log writes lines; several goroutines may.
type Log struct {
	mu       sync.Mutex
	out      io.Writer
	start    time.Time
	terminal bool
	moving   bool // the last line has no end yet
}

// New writes to a file, with moving lines if that is a terminal.
func New(out *os.File) *Log {
	info, err := out.Stat()
	return &Log{out: out, start: time.Now(), terminal: err == nil && info.Mode()&os.ModeCharDevice != 0}
}

// Discard tells nobody.
func Discard() *Log { return &Log{out: io.Discard, start: time.Now()} }

// Say writes one line.
func (l *Log) Say(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.endMoving()
	fmt.Fprintf(l.out, "[%6.1fs] %s\n", time.Since(l.start).Seconds(), fmt.Sprintf(format, args...))
}

// Move replaces the last moving line on a terminal, and is silent elsewhere.
func (l *Log) Move(format string, args ...any) {
	if !l.terminal {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.moving = true
	fmt.Fprintf(l.out, "\r\x1b[K[%6.1fs] %s", time.Since(l.start).Seconds(), fmt.Sprintf(format, args...))
}

// Terminal says whether Move shows anything.
func (l *Log) Terminal() bool { return l.terminal }

func (l *Log) endMoving() {
	if l.moving {
		fmt.Fprint(l.out, "\r\x1b[K")
		l.moving = false
	}
}
