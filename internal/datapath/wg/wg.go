// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package wg is the WireGuard device of a gateway: it takes the whole wanted state of one device and makes the smallest
// change to what is there, in the kernel or in user space.
//
// In user space the device is a persistent TUN. When the process ends, the TUN with its addresses and routes stays; the
// next process attaches to it. Sessions and learned endpoints end with the process: give the endpoints that Observe told
// before to the peers of the new device, and it initiates by itself.
//
// Everything here works in the network namespace of the thread that calls it, which must always be the same one.
package wg

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"

	"liqo.io/liqo/internal/names"
)

// Config is the whole wanted state of a device.
type Config struct {
	// MTU of the tunnel.
	MTU int
	// PrivateKey may change; the device stays. Sessions begin anew with the next packet, keepalives included.
	PrivateKey PrivateKey
	// ListenPort for both families. 0 = any, which Rebind changes.
	ListenPort uint16
	// Mark is that of outer packets, by which rules tell them from what is inside; 0 = none.
	Mark uint32
	// Peers are all peers. One that is missing is removed: nothing of it passes any more. No peers at all silence the device.
	Peers []Peer
}

// Peer is the wanted state of one peer.
type Peer struct {
	PublicKey PublicKey
	// Endpoint is where the peer is first looked for. Zero = learned: the peer keeps what it has. A peer may also roam away
	// from its Endpoint; it is set again only when it changed here, or by Rebind.
	Endpoint netip.AddrPort
	// AllowedIPs is what the peer may send from and is sent to. No two peers share one; the longest wins.
	AllowedIPs []netip.Prefix
	// Keepalive is a number of whole seconds, at most 65535. 0 = none.
	Keepalive time.Duration
}

// Status is what a device does now.
type Status struct {
	// ListenPort in use, chosen by the kernel if none was wanted. 0 = no socket is open.
	ListenPort uint16
	// Peers are ordered by key.
	Peers []PeerStatus
	// Refused counts packets that a peer sent from where it may not, since the device was made or, in user space, opened.
	Refused uint64
}

// PeerStatus is what is known of one peer.
type PeerStatus struct {
	PublicKey PublicKey
	// Endpoint in use, wanted or learned. Zero = unknown yet.
	Endpoint netip.AddrPort
	// LastHandshake is when a session was last agreed on. Zero = never, or not since Restart.
	LastHandshake time.Time
	// Received and Sent count bytes on the outer network, headers of WireGuard included.
	Received, Sent uint64
}

// Implementation says where WireGuard runs.
type Implementation string

// Auto is the kernel if it can, else user space. The kernel's was written from its interface and compared with what
// another client sends; the machines this was tested on have no WireGuard in their kernel. It sets no DF on outer packets:
// whoever probes the MTU through it has to see to that with a firewall rule.
const (
	Auto      Implementation = "auto"
	Kernel    Implementation = "kernel"
	Userspace Implementation = "userspace"
)

// Device is one WireGuard device. Its methods may be called at the same time.
type Device struct {
	name   string
	log    *slog.Logger
	before writeHook

	mu     sync.Mutex // guards what follows
	impl   Implementation
	engine deviceEngine
	last   *applied // nil = unknown, or the last Apply failed half-way
	closed bool
}

// writeHook is called before each step that the kernel does, with what it is. nil: nothing is.
type writeHook func(what string)

func (h writeHook) beforeWrite(what string) {
	if h != nil {
		h(what)
	}
}

// deviceEngine is what differs between kernel and user space.
type deviceEngine interface {
	getState() (deviceState, error)
	applyChange(configChange) error
	// start opens the sockets, if that has not been done. The link is up and has this MTU.
	start(mtu int) error
	close() error
	remove() error
}

// Open attaches to the device of that name, or makes it. A link of that name that is something else is an error.
func Open(name string, impl Implementation, log *slog.Logger) (*Device, error) {
	d := &Device{name: name, impl: impl, log: log}
	if err := d.openEngine(); err != nil {
		return nil, fmt.Errorf("opening WireGuard device %q: %w", name, err)
	}
	return d, nil
}

func (d *Device) openEngine() error {
	impl, err := chooseImplementation(d.name, d.impl, d.before)
	if err != nil {
		return err
	}
	var opened deviceEngine = &kernelEngine{name: d.name}
	if impl == Userspace {
		if opened, err = openUserspace(d.name, d.log, d.before); err != nil {
			return err
		}
	}
	d.impl, d.engine, d.last = impl, opened, nil
	d.log.Info("WireGuard device opened", "interface", d.name, "implementation", d.impl)
	return nil
}

// Implementation in use: Kernel or Userspace.
func (d *Device) Implementation() Implementation {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.impl
}

// errGone is why nothing is known of a device: its link was deleted, or could not be read any more.
var errGone = errors.New("the device is gone")

// Apply makes the device what want says, with the smallest change: what did not change goes on undisturbed. A device whose link was
// deleted is opened again, which takes less than a new process would. The addresses and routes of the link are gone.
func (d *Device) Apply(want Config) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	want.PrivateKey = want.PrivateKey.clampScalar()
	if err := validateConfig(want); err != nil {
		return fmt.Errorf("checking WireGuard device %q: %w", d.name, err)
	}
	if err := d.applyConfig(want); err != nil {
		d.last = nil
		return fmt.Errorf("applying WireGuard device %q: %w", d.name, err)
	}
	d.last = newApplied(want)
	return nil
}

func (d *Device) applyConfig(want Config) error {
	have, err := d.engine.getState()
	if errors.Is(err, errGone) && !d.closed {
		if err = d.openEngine(); err == nil {
			have, err = d.engine.getState()
		}
	}
	if err != nil {
		return err
	}
	if err := setMTU(d.name, want.MTU, d.before); err != nil {
		return err
	}
	if todo := diffConfig(have, d.last, want); !todo.isEmpty() {
		d.before.beforeWrite("writing the change")
		if err := d.engine.applyChange(todo); err != nil {
			return err
		}
		d.log.Info("WireGuard device changed", "interface", d.name, "peers", len(want.Peers), "changed", len(todo.peers))
	}
	if err := setUp(d.name, d.before); err != nil {
		return err
	}
	d.before.beforeWrite("opening the sockets")
	return d.engine.start(want.MTU)
}

// Keep removes all peers but these. It needs nothing of a Config, so that what is wrong with one keeps no peer.
func (d *Device) Keep(keys ...PublicKey) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.keepPeers(keys); err != nil {
		return fmt.Errorf("removing peers of WireGuard device %q: %w", d.name, err)
	}
	return nil
}

func (d *Device) keepPeers(keys []PublicKey) error {
	have, err := d.engine.getState()
	if errors.Is(err, errGone) {
		return nil // and its peers with it
	}
	if err != nil {
		return err
	}
	todo := configChange{peers: peersToRemove(have, keys)}
	if todo.isEmpty() {
		return nil
	}
	if err := d.engine.applyChange(todo); err != nil {
		d.last = nil
		return err
	}
	d.log.Info("WireGuard peers removed", "interface", d.name, "removed", len(todo.peers))
	return nil
}

// Observe tells what the device does now.
func (d *Device) Observe() (Status, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	have, err := d.engine.getState()
	if err != nil {
		return Status{}, fmt.Errorf("observing WireGuard device %q: %w", d.name, err)
	}
	status := Status{ListenPort: have.listenPort, Refused: have.refused}
	for _, p := range have.peers {
		status.Peers = append(status.Peers, p.PeerStatus)
	}
	slices.SortFunc(status.Peers, func(a, b PeerStatus) int { return slices.Compare(a.PublicKey[:], b.PublicKey[:]) })
	return status, nil
}

// Rebind takes a new source port, unless ListenPort fixes it, and puts back the Endpoints that were applied: a NAT on the
// way may hold the old port for something that is gone, and WireGuard, whose retries all come from the same port, keeps
// that entry alive for ever. Sessions go on; if the other side has lost them, Restart its peer as well.
func (d *Device) Rebind() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.rebindSocket(); err != nil {
		return fmt.Errorf("rebinding WireGuard device %q: %w", d.name, err)
	}
	return nil
}

func (d *Device) rebindSocket() error {
	if d.last == nil {
		return errors.New("nothing was applied")
	}
	before, err := d.engine.getState()
	if err != nil {
		return err
	}
	todo := configChange{listenPort: &d.last.listenPort}
	for key, endpoint := range d.last.endpoints {
		if _, ok := before.peers[key]; ok && endpoint.IsValid() {
			todo.peers = append(todo.peers, peerChange{key: key, endpoint: endpoint})
		}
	}
	const tries = 5 // that the kernel picks the old port again is rare
	for range tries {
		if err := d.engine.applyChange(todo); err != nil {
			d.last = nil
			return err
		}
		after, err := d.engine.getState()
		if err != nil {
			return err
		}
		if d.last.listenPort != 0 || after.listenPort != before.listenPort {
			d.log.Info("WireGuard socket reopened", "interface", d.name, "port", after.listenPort)
			return nil
		}
	}
	return fmt.Errorf("port %d came back %d times", before.listenPort, tries)
}

// Restart makes a peer anew with the endpoint it has, so that a handshake begins at once; its counters begin at zero.
// It replaces the timers of WireGuard for the case that the other side lost its sessions: 15 s (10 s keepalive timeout and
// 5 s rekey timeout) from the first packet without answer until a handshake is tried; 5 s between two tries; 90 s of tries,
// after which nothing is tried until there is something to send; 120 s until a session that only receives is renewed.
func (d *Device) Restart(key PublicKey) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.restartHandshake(key); err != nil {
		return fmt.Errorf("restarting a peer of WireGuard device %q: %w", d.name, err)
	}
	return nil
}

func (d *Device) restartHandshake(key PublicKey) error {
	have, err := d.engine.getState()
	if err != nil {
		return err
	}
	p, ok := have.peers[key]
	switch {
	case !ok:
		return fmt.Errorf("there is no peer %s", key)
	case !p.Endpoint.IsValid():
		return fmt.Errorf("the endpoint of peer %s is unknown", key)
	}
	if err := d.engine.applyChange(reapplyPeer(p)); err != nil {
		d.last = nil
		return err
	}
	d.log.Info("WireGuard peer restarted", "interface", d.name, "peer", key, "endpoint", p.Endpoint)
	return nil
}

// Close leaves the interface with its addresses and routes in place. In user space nothing passes it any more until it is
// opened again; in the kernel the tunnel goes on: apply a Config without peers to end it.
func (d *Device) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	if err := d.engine.close(); err != nil {
		return fmt.Errorf("closing WireGuard device %q: %w", d.name, err)
	}
	return nil
}

// Remove closes the device and deletes the interface.
func (d *Device) Remove() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	if err := d.engine.remove(); err != nil {
		return fmt.Errorf("removing WireGuard device %q: %w", d.name, err)
	}
	return nil
}

// validateConfig refuses what an implementation would silently understand otherwise.
func validateConfig(c Config) error {
	if c.PrivateKey == (PrivateKey{}).clampScalar() {
		return errors.New("there is no private key")
	}
	if c.MTU < names.MinMTU || c.MTU > names.MaxMTU {
		return fmt.Errorf("MTU %d is out of range", c.MTU)
	}
	peers, owner := map[PublicKey]bool{}, map[netip.Prefix]PublicKey{}
	for _, p := range c.Peers {
		switch {
		case peers[p.PublicKey]:
			return fmt.Errorf("peer %s is there twice", p.PublicKey)
		case p.PublicKey == c.PrivateKey.Public():
			return fmt.Errorf("peer %s is the device itself", p.PublicKey)
		case !c.PrivateKey.canReach(p.PublicKey):
			return fmt.Errorf("peer %s: its key is none", p.PublicKey)
		case p.Keepalive < 0 || p.Keepalive > 65535*time.Second || p.Keepalive%time.Second != 0:
			return fmt.Errorf("peer %s: keepalive of %s is no number of seconds that fits", p.PublicKey, p.Keepalive)
		case p.Endpoint.IsValid() && p.Endpoint.Port() == 0:
			return fmt.Errorf("peer %s: endpoint %s has no port", p.PublicKey, p.Endpoint)
		}
		peers[p.PublicKey] = true
		for _, prefix := range p.AllowedIPs {
			prefix = canonicalPrefix(prefix)
			if !prefix.IsValid() {
				return fmt.Errorf("peer %s: an allowed prefix is none", p.PublicKey)
			}
			if other, taken := owner[prefix]; taken && other != p.PublicKey {
				return fmt.Errorf("peers %s and %s are both allowed %s", other, p.PublicKey, prefix)
			}
			owner[prefix] = p.PublicKey
		}
	}
	return nil
}

// canonicalPrefix is a prefix as a device reports it: masked, invalid if it is IPv4 inside IPv6.
func canonicalPrefix(p netip.Prefix) netip.Prefix {
	if p.Addr().Is4In6() {
		return netip.Prefix{}
	}
	return p.Masked()
}

// canonicalPrefixes is a list as a device reports it, sorted and without doubles.
func canonicalPrefixes(list []netip.Prefix) []netip.Prefix {
	out := make([]netip.Prefix, len(list))
	for i, p := range list {
		out[i] = canonicalPrefix(p)
	}
	slices.SortFunc(out, func(a, b netip.Prefix) int {
		return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
	})
	return slices.Compact(out)
}
