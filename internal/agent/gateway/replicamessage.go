// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"time"

	"liqo.io/liqo/internal/datapath/wg"
	"liqo.io/liqo/internal/election"
	"liqo.io/liqo/internal/names"
)

// replicaMessage is a message between two replicas of a gateway.
type replicaMessage struct {
	election.Message
	// Endpoint is where the active replica of a server reaches the client.
	Endpoint netip.AddrPort
}

// messageSize is the length of each message before sealing, in bytes: no answer is longer than its request, and the length discloses nothing.
const messageSize = 1024

// sealer encrypts and authenticates the messages by a key derived from the private key of the tunnel, which all replicas have.
type sealer struct {
	aead cipher.AEAD
	of   []byte // gateway
}

func newSealer(key wg.PrivateKey, gateway string) (*sealer, error) {
	derived, err := hkdf.Key(sha256.New, key[:], nil, "liqo replicas of a gateway, version 1", 32)
	if err != nil {
		return nil, fmt.Errorf("deriving the key of replicas: %w", err)
	}
	block, err := aes.NewCipher(derived)
	if err != nil {
		return nil, fmt.Errorf("deriving the key of replicas: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, fmt.Errorf("deriving the key of replicas: %w", err)
	}
	return &sealer{aead, []byte(gateway)}, nil
}

func (s *sealer) sealMessage(m replicaMessage) ([]byte, error) {
	plain, err := json.Marshal(m)
	if err != nil || len(plain) > messageSize {
		return nil, fmt.Errorf("encoding a message of %d bytes: %w", len(plain), err)
	}
	plain = append(plain, bytes.Repeat([]byte(" "), messageSize-len(plain))...)
	return s.aead.Seal(nil, nil, plain, s.of), nil
}

func (s *sealer) openMessage(data []byte) (m replicaMessage, err error) {
	plain, err := s.aead.Open(nil, nil, data, s.of)
	if err == nil {
		err = json.Unmarshal(plain, &m)
	}
	if err != nil {
		return m, fmt.Errorf("opening a message: %w", err)
	}
	return m, nil
}

// sendMessage sends a message to another replica. A lost message is like an unanswered message. The caller holds mu.
func (e *elector) sendMessage(m election.Message, to netip.AddrPort) {
	if e.conn == nil || e.sealer == nil || !to.Addr().IsValid() {
		return
	}
	data, err := e.sealer.sealMessage(replicaMessage{m, e.endpoint})
	if err != nil {
		e.log.Error(err, "a message is not sent")
		return
	}
	_, _ = e.conn.WriteToUDPAddrPort(data, to)
}

// receiveMessages receives until the context ends.
func (e *elector) receiveMessages(ctx context.Context) {
	for ctx.Err() == nil {
		if err := e.receiveSome(ctx); err != nil && ctx.Err() == nil {
			e.log.Info("other replicas are not heard", "reason", err.Error())
			pauseFor(ctx, pause)
		}
	}
}

func (e *elector) receiveSome(ctx context.Context) error {
	conn, err := e.bind(netip.AddrPortFrom(e.options.Address, names.ReplicaPort))
	if err != nil {
		return fmt.Errorf("listening for other replicas: %w", err)
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	defer conn.Close()
	e.mu.Lock()
	e.conn = conn
	e.mu.Unlock()
	buffer := make([]byte, 2*messageSize)
	for {
		n, from, err := conn.ReadFromUDPAddrPort(buffer)
		if err != nil {
			return fmt.Errorf("reading from other replicas: %w", err)
		}
		e.receiveMessage(buffer[:n], from)
	}
}

// receiveMessage handles a message. A message that no replica of this gateway sent is ignored without an answer. Messages are opened without mu, so
// that a flood of foreign messages does not delay the election.
func (e *elector) receiveMessage(data []byte, from netip.AddrPort) {
	sealer := e.currentSealer()
	if sealer == nil {
		return
	}
	m, err := sealer.openMessage(data)
	if err != nil {
		e.log.V(1).Info("a message is not of a replica", "from", from.String(), "reason", err.Error())
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	answer, fresh := e.rule.Receive(m.Message, time.Now())
	if answer != nil {
		e.sendMessage(*answer, from)
	}
	if fresh && m.Endpoint != e.endpoint {
		e.endpoint = m.Endpoint
		if err := e.learned.storeEndpoint(m.Endpoint); err != nil {
			e.log.Error(err, "the endpoint of the client is not kept")
		}
	}
	e.wake.Send()
}

// currentSealer returns the sealer, or nil while this replica has no key.
func (e *elector) currentSealer() *sealer {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.sealer
}

func newNonce() (n election.Nonce) {
	_, _ = rand.Read(n[:]) // never fails
	return n
}

func bindReplica(at netip.AddrPort) (*net.UDPConn, error) {
	return net.ListenUDP("udp", net.UDPAddrFromAddrPort(at))
}
