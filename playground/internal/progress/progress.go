// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package progress prints the progress of a command: a line per event, with the time since the start.
package progress

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// Log writes lines. It is safe for concurrent use.
type Log struct {
	mu         sync.Mutex
	out        io.Writer
	start      time.Time
	terminal   bool
	unfinished bool // the last line has no newline yet
}

// New returns a Log that writes to a file, and rewrites lines if the file is a terminal.
func New(out *os.File) *Log {
	info, err := out.Stat()
	return &Log{out: out, start: time.Now(), terminal: err == nil && info.Mode()&os.ModeCharDevice != 0}
}

// Discard returns a Log that prints nothing.
func Discard() *Log { return &Log{out: io.Discard, start: time.Now()} }

// Print prints a line.
func (l *Log) Print(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.endLine()
	fmt.Fprintf(l.out, "[%6.1fs] %s\n", time.Since(l.start).Seconds(), fmt.Sprintf(format, args...))
}

// PrintProgress rewrites the last line on a terminal, and prints nothing to files.
func (l *Log) PrintProgress(format string, args ...any) {
	if !l.terminal {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unfinished = true
	fmt.Fprintf(l.out, "\r\x1b[K[%6.1fs] %s", time.Since(l.start).Seconds(), fmt.Sprintf(format, args...))
}

// IsTerminal reports whether the output is a terminal.
func (l *Log) IsTerminal() bool { return l.terminal }

func (l *Log) endLine() {
	if l.unfinished {
		fmt.Fprint(l.out, "\r\x1b[K")
		l.unfinished = false
	}
}
