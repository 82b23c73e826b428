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

// probePacket is a message of the connection check: JSON in one UDP packet between both gateways. Padding is our extension, because
// small packets may pass where large packets do not; other implementations ignore it and answer without padding.
type probePacket struct {
	ClusterID string    `json:"clusterID"` // of the receiver of the PING, which returns it unchanged
	Type      probeType `json:"msgType"`
	Time      time.Time `json:"timeStamp"` // of the sender of the PING
	Padding   string    `json:"padding,omitempty"`
}

type probeType string

const (
	ping probeType = "PING"
	pong probeType = "PONG"
)

// maxProbe is the maximum length of a received message, in bytes.
const maxProbe = 1 << 16

func decodeProbe(data []byte) (probePacket, error) {
	var p probePacket
	if err := json.Unmarshal(data, &p); err != nil {
		return p, fmt.Errorf("decoding a probe: %w", err)
	}
	if p.Type != ping && p.Type != pong || p.Time.IsZero() {
		return p, errors.New("decoding a probe: it is neither question nor answer")
	}
	return p, nil
}

// encodeQuestion returns a PING of size bytes, or of the minimum size. It always has padding: a peer that returns some padding returns any
// amount.
func encodeQuestion(cluster string, now time.Time, size int) ([]byte, error) {
	p := probePacket{ClusterID: cluster, Type: ping, Time: now, Padding: "."}
	data, err := json.Marshal(p)
	if missing := size - len(data); err == nil && missing > 0 {
		p.Padding += strings.Repeat(".", missing)
		data, err = json.Marshal(p)
	}
	if err != nil {
		return nil, fmt.Errorf("encoding a probe: %w", err)
	}
	return data, nil
}

// encodeAnswer returns the answer to a question of size bytes. An answer longer than its question is not sent, so that the gateway
// cannot be used for amplification.
func (p probePacket) encodeAnswer(size int) ([]byte, error) {
	p.Type = pong
	data, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("encoding an answer: %w", err)
	}
	if len(data) > size {
		return nil, fmt.Errorf("encoding an answer: it would have %d bytes, and the question had %d", len(data), size)
	}
	return data, nil
}
