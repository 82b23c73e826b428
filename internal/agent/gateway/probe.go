// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// probe is a message of the connection check: JSON in one UDP packet between both ends of a tunnel. Padding is what we add, for
// small packets may pass where large ones do not; others ignore it.
type probe struct {
	ClusterID string    `json:"clusterID"` // of the receiver of the PING, who sends it back as it is
	Type      probeType `json:"msgType"`
	Time      time.Time `json:"timeStamp"` // of the sender of the PING
	Padding   string    `json:"padding,omitempty"`
}

type probeType string

const (
	ping probeType = "PING"
	pong probeType = "PONG"
)

// maxProbe is the longest message that is read, in bytes.
const maxProbe = 1 << 16

func decodeProbe(data []byte) (probe, error) {
	var p probe
	if err := json.Unmarshal(data, &p); err != nil {
		return p, fmt.Errorf("decoding a probe: %w", err)
	}
	if p.Type != ping && p.Type != pong || p.Time.IsZero() {
		return p, errors.New("decoding a probe: it is neither question nor answer")
	}
	return p, nil
}

// encode makes the message size bytes long, if that is longer than it is.
func (p probe) encode(size int) ([]byte, error) {
	data, err := json.Marshal(p)
	const around = len(`,"padding":""`)
	if missing := size - len(data) - around; err == nil && missing > 0 {
		p.Padding = strings.Repeat(".", missing)
		data, err = json.Marshal(p)
	}
	if err != nil {
		return nil, fmt.Errorf("encoding a probe: %w", err)
	}
	return data, nil
}

// pulse is what is known of a tunnel from its probes. Times are those of this machine.
type pulse struct {
	interval  time.Duration // between two probes of a size
	threshold int           // of lost probes in a row, after which the tunnel is down

	began       time.Time // of the first probe
	small, full answers
}

// answers are those to the probes of one size.
type answers struct {
	sent    time.Time     // of the latest question that was answered
	at      time.Time     // when that was
	latency time.Duration // of it
}

// hear takes an answer in.
func (a *answers) hear(sent, now time.Time) {
	if sent.After(now) || sent.Before(a.sent) {
		return // nothing of ours, or one that was overtaken
	}
	a.sent, a.at, a.latency = sent, now, now.Sub(sent)
}

// lost is how many questions in a row have no answer by now.
func (p *pulse) lost(a answers, now time.Time) int {
	since := a.at
	if since.Before(p.began) {
		since = p.began
	}
	return int(now.Sub(since) / p.interval)
}

// up tells whether packets of all sizes pass. Before the first answer it does not.
func (p *pulse) up(now time.Time) bool {
	return !p.small.at.IsZero() && !p.full.at.IsZero() && p.lost(p.small, now) < p.threshold && p.lost(p.full, now) < p.threshold
}

// failed tells whether waiting for a first answer has taken as long as losing one.
func (p *pulse) failed(now time.Time) bool {
	return !p.up(now) && max(p.lost(p.small, now), p.lost(p.full, now)) >= p.threshold
}
