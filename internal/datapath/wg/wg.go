// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package wg reconciles the WireGuard device of a gateway, in the kernel or in user space, with a complete Config by the smallest change.
//
// In user space the device is a persistent TUN. When the process ends, the TUN stays with its addresses and routes, and the next process attaches to
// the TUN. Sessions and learned endpoints end with the process: pass the endpoints of the last Observe to the peers of the new device, and the device
// initiates handshakes by itself.
//
// All functions work in the network namespace of the calling thread, which must always be the same one.
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

// Config is the complete desired state of a device.
type Config struct {
	// MTU of the tunnel in bytes.
	MTU int
	// PrivateKey may change; the device stays. Sessions are renegotiated with the next packet, keepalives included.
	PrivateKey PrivateKey
	// ListenPort is the UDP port of both families. 0 = any, and Rebind changes it.
	ListenPort uint16
	// Mark is the fwmark of outer packets, by which rules distinguish outer from inner packets; 0 = none.
	Mark uint32
	// Peers is the complete list. A missing peer is removed and its traffic stops at once. Without peers the device is silent.
	Peers []Peer
}

// Peer is the desired state of one peer.
type Peer struct {
	PublicKey PublicKey
	// Endpoint is the initial endpoint of the peer. Zero = learned: the present endpoint is kept. A peer may also roam away from its Endpoint; Apply
	// sets the Endpoint again only after a change in the Config, and Rebind always does.
	Endpoint netip.AddrPort
	// AllowedIPs are the source addresses allowed from the peer and the destinations routed to the peer. Each prefix belongs to one peer; the
	// longest match wins.
	AllowedIPs []netip.Prefix
	// Keepalive is the interval of persistent keepalives in whole seconds, at most 65535 s. 0 = none.
	Keepalive time.Duration
}

// Status is the observed state of a device.
type Status struct {
	// ListenPort is the port in use, chosen by the kernel if none was wanted. 0 = no socket is open.
	ListenPort uint16
	// Peers are sorted by key.
	Peers []PeerStatus
	// Refused counts packets with a source outside the peer's allowed IPs, since the creation of the device or, in user space, since Open.
	Refused uint64
}

// PeerStatus is the observed state of one peer.
type PeerStatus struct {
	PublicKey PublicKey
	// Endpoint is the endpoint in use, configured or learned. Zero = unknown yet.
	Endpoint netip.AddrPort
	// LastHandshake is the time of the last completed handshake. Zero = never, or not since Restart.
	LastHandshake time.Time
	// Received and Sent count bytes on the outer network, including the headers of WireGuard.
	Received, Sent uint64
}

// Implementation selects where WireGuard runs.
type Implementation string

// Auto is the kernel if supported, else user space. The kernel implementation was written from the interface of the kernel and compared with the
// messages of another client; the machines used for testing have no WireGuard in their kernel. The kernel sets no DF on outer packets: PMTU probes
// through a kernel device need a firewall rule for DF.
const (
	Auto      Implementation = "auto"
	Kernel    Implementation = "kernel"
	Userspace Implementation = "userspace"
)

// Device is one WireGuard device. Its methods are safe for concurrent use.
type Device struct {
	name   string
	log    *slog.Logger
	before writeHook
	icmp   icmpErrors

	mu     sync.Mutex // guards the fields below
	impl   Implementation
	engine deviceEngine
	last   *applied // nil = unknown, or the last Apply failed half-way
	closed bool
}

// writeHook is called with a description before each write to the kernel. It may be nil.
type writeHook func(what string)

func (h writeHook) beforeWrite(what string) {
	if h != nil {
		h(what)
	}
}

// deviceEngine is an implementation: the kernel or user space.
type deviceEngine interface {
	getState() (deviceState, error)
	applyChange(configChange) error
	// start opens the sockets unless they are open. The link is up and has this MTU.
	start(mtu int) error
	close() error
	remove() error
}

// Open attaches to the device of a name, or creates the device. A link with the name and another kind is an error.
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
		if opened, err = openUserspace(d.name, d.log, d.before, &d.icmp); err != nil {
			return err
		}
	}
	d.impl, d.engine, d.last = impl, opened, nil
	d.log.Info("WireGuard device opened", "interface", d.name, "implementation", d.impl)
	return nil
}

// OnUnreachable has f called when ICMP errors report that nothing receives at the endpoint of a peer, or that no route leads there. Anyone can forge such
// errors. OnUnreachable must be called before the first Apply; f must not block. The kernel implementation never calls f.
func (d *Device) OnUnreachable(f func()) { d.icmp.report.Store(&f) }

// Implementation returns the implementation in use: Kernel or Userspace.
func (d *Device) Implementation() Implementation {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.impl
}

// errGone means that the device's link was deleted or is no longer readable.
var errGone = errors.New("the device is gone")

// Apply reconciles the device with want by the smallest change: unchanged peers keep their sessions. A device whose link was deleted is opened
// again, which costs less than a new process would. The addresses and routes of the link are lost.
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
	current, err := d.engine.getState()
	if errors.Is(err, errGone) && !d.closed {
		if err = d.openEngine(); err == nil {
			current, err = d.engine.getState()
		}
	}
	if err != nil {
		return err
	}
	if err := setMTU(d.name, want.MTU, d.before); err != nil {
		return err
	}
	if todo := diffConfig(current, d.last, want); !todo.isEmpty() {
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

// Keep removes all peers without a key in the list. Without a Config as argument, an invalid Config keeps no peer alive.
func (d *Device) Keep(keys ...PublicKey) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.keepPeers(keys); err != nil {
		return fmt.Errorf("removing peers of WireGuard device %q: %w", d.name, err)
	}
	return nil
}

func (d *Device) keepPeers(keys []PublicKey) error {
	current, err := d.engine.getState()
	if errors.Is(err, errGone) {
		return nil // deleted together with its peers
	}
	if err != nil {
		return err
	}
	todo := configChange{peers: peersToRemove(current, keys)}
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

// Observe returns the observed state of the device.
func (d *Device) Observe() (Status, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	current, err := d.engine.getState()
	if err != nil {
		return Status{}, fmt.Errorf("observing WireGuard device %q: %w", d.name, err)
	}
	status := Status{ListenPort: current.listenPort, Refused: current.refused}
	for _, p := range current.peers {
		status.Peers = append(status.Peers, p.PeerStatus)
	}
	slices.SortFunc(status.Peers, func(a, b PeerStatus) int { return slices.Compare(a.PublicKey[:], b.PublicKey[:]) })
	return status, nil
}

// Rebind opens a new source port, unless ListenPort fixes the port, and restores the configured Endpoints. A NAT on the path may have mapped the old
// port to a vanished destination. All retries of WireGuard come from the same port, and keep the mapping alive for ever. Sessions survive; if the
// peer has lost its sessions, call Restart as well.
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
	const tries = 5 // the kernel rarely picks the old port again
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

// Restart reconnects: Restart recreates a peer with its present endpoint, so that a handshake begins at once; counters restart at zero. Restart
// replaces the timers of WireGuard for the case that the peer lost its sessions: 15 s (10 s keepalive timeout and 5 s rekey timeout) from the first
// unanswered packet to the first handshake attempt; 5 s between attempts; 90 s of attempts, then none until the next packet to send; 120 s until a
// session that only receives is rekeyed.
func (d *Device) Restart(key PublicKey) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.restartHandshake(key); err != nil {
		return fmt.Errorf("restarting a peer of WireGuard device %q: %w", d.name, err)
	}
	return nil
}

func (d *Device) restartHandshake(key PublicKey) error {
	current, err := d.engine.getState()
	if err != nil {
		return err
	}
	p, ok := current.peers[key]
	switch {
	case !ok:
		return fmt.Errorf("peer %s does not exist", key)
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

// Close leaves the interface with its addresses and routes in place. In user space no packet passes until the device is opened again; in the
// kernel the tunnel keeps working: apply a Config without peers to stop it.
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

// validateConfig rejects settings that an implementation would silently interpret differently.
func validateConfig(c Config) error {
	if c.PrivateKey == (PrivateKey{}).clampScalar() {
		return errors.New("the private key is missing")
	}
	if c.MTU < names.MinMTU || c.MTU > names.MaxMTU {
		return fmt.Errorf("MTU %d is out of range", c.MTU)
	}
	peers, owner := map[PublicKey]bool{}, map[netip.Prefix]PublicKey{}
	for _, p := range c.Peers {
		switch {
		case peers[p.PublicKey]:
			return fmt.Errorf("duplicate peer %s", p.PublicKey)
		case p.PublicKey == c.PrivateKey.Public():
			return fmt.Errorf("peer %s is the device itself", p.PublicKey)
		case !c.PrivateKey.canReach(p.PublicKey):
			return fmt.Errorf("peer %s: the public key is invalid", p.PublicKey)
		case p.Keepalive < 0 || p.Keepalive > 65535*time.Second || p.Keepalive%time.Second != 0:
			return fmt.Errorf("peer %s: invalid keepalive %s: must be whole seconds, at most 65535 s", p.PublicKey, p.Keepalive)
		case p.Endpoint.IsValid() && p.Endpoint.Port() == 0:
			return fmt.Errorf("peer %s: endpoint %s has no port", p.PublicKey, p.Endpoint)
		}
		peers[p.PublicKey] = true
		for _, prefix := range p.AllowedIPs {
			prefix = canonicalPrefix(prefix)
			if !prefix.IsValid() {
				return fmt.Errorf("peer %s: an allowed IP is invalid", p.PublicKey)
			}
			if other, taken := owner[prefix]; taken && other != p.PublicKey {
				return fmt.Errorf("peers %s and %s are both allowed %s", other, p.PublicKey, prefix)
			}
			owner[prefix] = p.PublicKey
		}
	}
	return nil
}

// canonicalPrefix returns a prefix as a device reports it: masked, and invalid if IPv4-mapped.
func canonicalPrefix(p netip.Prefix) netip.Prefix {
	if p.Addr().Is4In6() {
		return netip.Prefix{}
	}
	return p.Masked()
}

// canonicalPrefixes returns a list as a device reports it: sorted and without duplicates.
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
