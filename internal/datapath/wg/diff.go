// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package wg

import (
	"crypto/ecdh"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"slices"
	"time"
)

// deviceState is the state of a device as reported by an implementation.
type deviceState struct {
	privateKey PrivateKey
	listenPort uint16
	mark       uint32
	peers      map[PublicKey]peerState
	refused    uint64
}

type peerState struct {
	PeerStatus
	allowedIPs []netip.Prefix
	keepalive  time.Duration
}

// applied holds the parts of the last Config that cannot be read back from a device: the kernel may have chosen the port, and an endpoint may
// have been learned.
type applied struct {
	listenPort uint16
	endpoints  map[PublicKey]netip.AddrPort
}

func newApplied(c Config) *applied {
	a := &applied{listenPort: c.ListenPort, endpoints: map[PublicKey]netip.AddrPort{}}
	for _, p := range c.Peers {
		a.endpoints[p.PublicKey] = unmapAddr(p.Endpoint)
	}
	return a
}

// configChange is a change for an implementation, applied in the order of its fields. A nil pointer leaves a setting unchanged.
type configChange struct {
	privateKey *PrivateKey
	listenPort *uint16
	mark       *uint32
	peers      []peerChange
}

// peerChange removes, changes or creates a peer.
type peerChange struct {
	key       PublicKey
	remove    bool
	endpoint  netip.AddrPort // zero = unchanged
	keepalive *time.Duration
	// allowedIPs is the complete list; add and drop are the differences to it.
	allowedIPs, add, drop []netip.Prefix
}

func (c configChange) isEmpty() bool {
	return c.privateKey == nil && c.listenPort == nil && c.mark == nil && len(c.peers) == 0
}

// diffConfig returns the smallest change from current to want. Peers are removed first, because their allowed IPs may move to other peers.
func diffConfig(current deviceState, last *applied, want Config) configChange {
	var todo configChange
	if current.privateKey != want.PrivateKey {
		todo.privateKey = &want.PrivateKey
	}
	if portDiffers(current.listenPort, last, want.ListenPort) {
		todo.listenPort = &want.ListenPort
	}
	if current.mark != want.Mark {
		todo.mark = &want.Mark
	}
	var wanted []PublicKey
	for _, p := range want.Peers {
		wanted = append(wanted, p.PublicKey)
	}
	todo.peers = peersToRemove(current, wanted)
	for _, p := range want.Peers {
		todo.peers = append(todo.peers, diffPeer(current, last, p)...)
	}
	return todo
}

// peersToRemove returns the removal of all peers that are not wanted.
func peersToRemove(current deviceState, wanted []PublicKey) []peerChange {
	var out []peerChange
	for key := range current.peers {
		if !slices.Contains(wanted, key) {
			out = append(out, peerChange{key: key, remove: true})
		}
	}
	slices.SortFunc(out, func(a, b peerChange) int { return slices.Compare(a.key[:], b.key[:]) })
	return out
}

// portDiffers reports whether the listen port must change. Without a wanted port any open socket is right.
func portDiffers(current uint16, last *applied, want uint16) bool {
	switch {
	case last != nil:
		return last.listenPort != want
	case want == 0:
		return current == 0
	default:
		return current != want
	}
}

func diffPeer(current deviceState, last *applied, want Peer) []peerChange {
	old, exists := current.peers[want.PublicKey]
	c := peerChange{key: want.PublicKey, allowedIPs: canonicalPrefixes(want.AllowedIPs)}
	if exists && !old.Endpoint.IsValid() && want.Endpoint.IsValid() {
		// A handshake that failed for lack of an endpoint counts as sent: without a new peer the next one would wait for 5 s.
		return reapplyPeer(peerState{PeerStatus{PublicKey: c.key, Endpoint: unmapAddr(want.Endpoint)}, c.allowedIPs, want.Keepalive}).peers
	}
	if endpoint := unmapAddr(want.Endpoint); endpoint.IsValid() && old.Endpoint != endpoint {
		// a peer away from its configured endpoint has roamed: the peer keeps its endpoint until the configured endpoint changes
		if !exists || last == nil || last.endpoints[want.PublicKey] != endpoint {
			c.endpoint = endpoint
		}
	}
	if old.keepalive != want.Keepalive {
		c.keepalive = &want.Keepalive
	}
	had := canonicalPrefixes(old.allowedIPs)
	c.add, c.drop = subtractPrefixes(c.allowedIPs, had), subtractPrefixes(had, c.allowedIPs)
	if exists && !c.endpoint.IsValid() && c.keepalive == nil && len(c.add)+len(c.drop) == 0 {
		return nil
	}
	return []peerChange{c}
}

// reapplyPeer removes a peer and creates the peer again. Setting a keepalive makes a peer initiate a handshake: reapplyPeer sets a keepalive for a
// moment.
func reapplyPeer(p peerState) configChange {
	keepalive := max(p.keepalive, time.Second)
	todo := configChange{peers: []peerChange{
		{key: p.PublicKey, remove: true},
		{key: p.PublicKey, endpoint: p.Endpoint, keepalive: &keepalive, allowedIPs: p.allowedIPs, add: p.allowedIPs},
	}}
	if keepalive != p.keepalive {
		todo.peers = append(todo.peers, peerChange{key: p.PublicKey, keepalive: &p.keepalive})
	}
	return todo
}

func subtractPrefixes(list, other []netip.Prefix) []netip.Prefix {
	return slices.DeleteFunc(slices.Clone(list), func(p netip.Prefix) bool { return slices.Contains(other, p) })
}

func unmapAddr(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
}

const keySize = 32

// PublicKey identifies a peer. Its text is base64, as printed by the wg tool.
type PublicKey [keySize]byte

// PrivateKey is the secret of a device. Printing, logging and marshalling redact it.
type PrivateKey [keySize]byte

// Public returns the public key.
func (k PrivateKey) Public() PublicKey {
	return PublicKey(k.toECDH().PublicKey().Bytes())
}

// canReach reports whether a shared secret with the peer exists: not for the few points of low order.
func (k PrivateKey) canReach(peer PublicKey) bool {
	point, err := ecdh.X25519().NewPublicKey(peer[:])
	if err != nil {
		return false
	}
	_, err = k.toECDH().ECDH(point)
	return err == nil
}

func (k PrivateKey) toECDH() *ecdh.PrivateKey {
	key, err := ecdh.X25519().NewPrivateKey(k[:])
	if err != nil {
		panic(err) // any 32 bytes are a valid key
	}
	return key
}

// clampScalar sets the bits fixed in every X25519 key, so that equal keys are equal bytes.
func (k PrivateKey) clampScalar() PrivateKey {
	k[0] &= 0xf8
	k[31] = k[31]&0x7f | 0x40
	return k
}

const redacted = "(private key)"

// Format redacts the key for every verb.
func (k PrivateKey) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, redacted) }

// String returns a placeholder instead of the key.
func (k PrivateKey) String() string { return redacted }

// LogValue returns a placeholder instead of the key.
func (k PrivateKey) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText returns a placeholder instead of the key.
func (k PrivateKey) MarshalText() ([]byte, error) { return []byte(redacted), nil }

func (k PublicKey) String() string { return base64.StdEncoding.EncodeToString(k[:]) }

// MarshalText returns the base64 text, for logs and JSON.
func (k PublicKey) MarshalText() ([]byte, error) { return []byte(k.String()), nil }
