// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"fmt"
	"sync/atomic"
	"time"
)

// rateWindow is the number of seconds for the measurement of the rate.
const rateWindow = 10

// meter counts the work of a target.
type meter struct {
	phase                                      atomic.Value // string
	files, totalFiles, bytes, totalBytes, rate atomic.Int64
	// transferred counts the received bytes, and shows progress over several attempts.
	transferred atomic.Int64
	// charged counts the bytes for the limit in this attempt.
	charged atomic.Int64
}

func newMeter() *meter {
	m := &meter{}
	m.phase.Store(Copying)
	return m
}

// beginAttempt starts an attempt of a phase.
func (m *meter) beginAttempt() {
	for _, count := range []*atomic.Int64{&m.files, &m.bytes, &m.charged} {
		count.Store(0)
	}
}

func (m *meter) addDone(files, bytes int64) {
	m.files.Add(files)
	m.bytes.Add(bytes)
}

// chargeLimit fails once more than the limit is used.
func (m *meter) chargeLimit(bytes, limit int64) error {
	if m.charged.Add(bytes) > limit {
		return fmt.Errorf("the data is larger than the volume: %d bytes", limit)
	}
	return nil
}

func (m *meter) currentProgress() Progress {
	return Progress{
		Phase: m.phase.Load().(string), Files: m.files.Load(), TotalFiles: m.totalFiles.Load(),
		Bytes: m.bytes.Load(), TotalBytes: m.totalBytes.Load(), Rate: m.rate.Load(),
	}
}

// startReports calls f each second until the returned function is called.
func (m *meter) startReports(f func(Progress)) (stop func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticks := time.NewTicker(time.Second)
		defer ticks.Stop()
		var window []int64
		for {
			select {
			case <-end:
				return
			case <-ticks.C:
			}
			now := m.bytes.Load()
			if len(window) > 0 && now < window[len(window)-1] { // another attempt or phase
				window = nil
			}
			if window = append(window, now); len(window) > rateWindow {
				window = window[1:]
			}
			m.rate.Store((now - window[0]) / int64(max(len(window)-1, 1)))
			f(m.currentProgress())
		}
	}()
	return func() {
		close(end)
		<-ended
	}
}
