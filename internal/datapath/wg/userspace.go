// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package wg

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.zx2c4.com/wireguard/device"
)

// userspaceEngine is WireGuard in this process.
type userspaceEngine struct {
	tun     *tunDevice
	device  *device.Device
	refused *atomic.Uint64 // packets with a source outside the peer's allowed IPs
}

func openUserspace(name string, log *slog.Logger, before writeHook, icmp *icmpErrors) (*userspaceEngine, error) {
	t, err := openTunnel(name, log, before)
	if err != nil {
		return nil, err
	}
	out, in := newWindow(packetsInside), newWindow(packetsInside)
	t.out, t.in = windowGate{receiveWindow: out}, in
	refused := &atomic.Uint64{}
	return &userspaceEngine{t, device.NewDevice(t, newBind(out, in, icmp), libraryLog(log.With("interface", name), refused)), refused}, nil
}

func (e *userspaceEngine) getState() (deviceState, error) {
	select {
	case <-e.device.Wait():
		return deviceState{}, fmt.Errorf("reading the state: %w", errGone)
	default:
	}
	text, err := e.device.IpcGet()
	if err != nil {
		return deviceState{}, fmt.Errorf("reading the state: %w", err)
	}
	s, err := parseUAPI(text)
	s.refused = e.refused.Load()
	return s, err
}

func (e *userspaceEngine) applyChange(c configChange) error {
	if err := e.device.IpcSet(encodeUAPI(c)); err != nil {
		return fmt.Errorf("writing the change: %w", err)
	}
	return nil
}

func (e *userspaceEngine) start(mtu int) error {
	e.tun.reportMTU(mtu)
	if err := e.device.Up(); err != nil {
		return fmt.Errorf("opening the sockets: %w", err)
	}
	return nil
}

func (e *userspaceEngine) close() error {
	e.device.Close()
	return nil
}

func (e *userspaceEngine) remove() error {
	err := e.tun.setPersistent(false) // the kernel deletes a non-persistent TUN when its file is closed
	e.tun.before.beforeWrite("closing the TUN")
	e.device.Close()
	return err
}

// encodeUAPI returns a change in WireGuard's configuration protocol. Prefixes are added and dropped one by one: replacing the list would leave
// a moment without prefixes.
func encodeUAPI(c configChange) string {
	var b strings.Builder
	line := func(key, value string) { b.WriteString(key + "=" + value + "\n") }
	if c.privateKey != nil {
		line("private_key", hex.EncodeToString(c.privateKey[:]))
	}
	if c.listenPort != nil {
		line("listen_port", strconv.Itoa(int(*c.listenPort)))
	}
	if c.mark != nil {
		line("fwmark", strconv.FormatUint(uint64(*c.mark), 10))
	}
	for _, p := range c.peers {
		line("public_key", hex.EncodeToString(p.key[:]))
		if p.remove {
			line("remove", "true")
			continue
		}
		if p.endpoint.IsValid() {
			line("endpoint", p.endpoint.String())
		}
		if p.keepalive != nil {
			line("persistent_keepalive_interval", strconv.Itoa(int(*p.keepalive/time.Second)))
		}
		for _, prefix := range p.drop {
			line("allowed_ip", "-"+prefix.String())
		}
		for _, prefix := range p.add {
			line("allowed_ip", prefix.String())
		}
	}
	return b.String()
}

// parseUAPI parses the library's state. Irrelevant lines are skipped.
func parseUAPI(text string) (deviceState, error) {
	s := deviceState{peers: map[PublicKey]peerState{}}
	var p peerState
	seen := false
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		var err error
		switch name {
		case "private_key":
			err = fromHex(s.privateKey[:], value)
		case "listen_port":
			s.listenPort, err = parseNumber[uint16](value)
		case "fwmark":
			s.mark, err = parseNumber[uint32](value)
		case "public_key":
			if seen {
				s.peers[p.PublicKey] = p
			}
			p, seen = peerState{}, true
			err = fromHex(p.PublicKey[:], value)
		default:
			err = p.readField(name, value)
		}
		if err != nil {
			return deviceState{}, fmt.Errorf("reading %s of the state: %w", name, err)
		}
	}
	if seen {
		s.peers[p.PublicKey] = p
	}
	return s, nil
}

func (p *peerState) readField(name, value string) error {
	var err error
	switch name {
	case "endpoint":
		p.Endpoint, err = netip.ParseAddrPort(value)
		p.Endpoint = unmapAddr(p.Endpoint)
	case "last_handshake_time_sec":
		var seconds int64
		if seconds, err = parseNumber[int64](value); seconds != 0 {
			p.LastHandshake = time.Unix(seconds, 0)
		}
	case "last_handshake_time_nsec": // follows the seconds
		var nanoseconds int64
		if nanoseconds, err = parseNumber[int64](value); !p.LastHandshake.IsZero() {
			p.LastHandshake = p.LastHandshake.Add(time.Duration(nanoseconds))
		}
	case "rx_bytes":
		p.Received, err = parseNumber[uint64](value)
	case "tx_bytes":
		p.Sent, err = parseNumber[uint64](value)
	case "persistent_keepalive_interval":
		var seconds uint16
		seconds, err = parseNumber[uint16](value)
		p.keepalive = time.Duration(seconds) * time.Second
	case "allowed_ip":
		var prefix netip.Prefix
		prefix, err = netip.ParsePrefix(value)
		p.allowedIPs = append(p.allowedIPs, prefix)
	}
	return err
}

func parseNumber[T uint16 | uint32 | int64 | uint64](text string) (T, error) {
	n, err := strconv.ParseUint(text, 10, 64)
	if err == nil && uint64(T(n)) != n {
		err = strconv.ErrRange
	}
	return T(n), err
}

// fromHex decodes a key. The error never quotes the text, which may be a private key.
func fromHex(key []byte, text string) error {
	if n, err := hex.Decode(key, []byte(text)[:min(len(text), 2*len(key))]); err != nil || n != len(key) || len(text) != 2*n {
		return errors.New("invalid hexadecimal key")
	}
	return nil
}

// errorInterval is the rate limit of errors of one kind: the library logs an error per batch of packets.
const errorInterval = 10 * time.Second

// disallowedSource is in the format of the library's log line for a packet dropped because its source is not among the peer's allowed IPs. The
// library has no counter for these packets.
const disallowedSource = "disallowed source address"

// libraryLog forwards the library's log lines and counts the packets dropped for their source. The lines identify peers by a few letters of
// their public keys and never contain a key.
func libraryLog(log *slog.Logger, refused *atomic.Uint64) *device.Logger {
	var mu sync.Mutex
	last := map[string]time.Time{} // by format, of which the library has a few dozen
	debugf := func(format string, args ...any) {
		if strings.Contains(format, disallowedSource) {
			refused.Add(1)
		}
		if log.Enabled(context.Background(), slog.LevelDebug) {
			log.Debug("WireGuard library", "line", fmt.Sprintf(format, args...))
		}
	}
	errorf := func(format string, args ...any) {
		line := fmt.Sprintf(format, args...)
		if strings.Contains(line, "no known endpoint") { // normal for a server: a server waits for its clients
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
