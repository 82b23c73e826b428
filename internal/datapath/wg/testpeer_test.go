// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package wg

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"liqo.io/liqo/internal/pki"
)

// These tests need root and /dev/net/tun. All traffic stays between two network namespaces joined by one veth pair.

const tunnelName = "liqo-tunnel"

// testPeer is one end: a network namespace with the outer address on eth0 and the tunnel's on the device.
type testPeer struct {
	t      testing.TB
	ns     netns.NsHandle
	name   string
	outer  [2]netip.Addr // IPv4, IPv6
	inner  [2]netip.Prefix
	key    PrivateKey
	device *Device
}

// do runs f in the namespace. The thread is thrown away after it, like whatever it changed.
func (s *testPeer) do(f func() error) {
	s.t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		if err := netns.Set(s.ns); err != nil {
			done <- err
			return
		}
		done <- f()
	}()
	if err := <-done; err != nil {
		s.t.Helper()
		s.t.Fatalf("in namespace %s: %v", s.name, err)
	}
}

// newTestPeers makes both sides, and removes them when the test ends.
func newTestPeers(t testing.TB) (a, b *testPeer) {
	t.Helper()
	a = newTestPeer(t, "a", "192.0.2.1", "2001:db8::1", "169.254.18.1/30", "fd00:18::1/126")
	b = newTestPeer(t, "b", "192.0.2.2", "2001:db8::2", "169.254.18.2/30", "fd00:18::2/126")
	a.do(func() error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = "eth0"
		return netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "eth0", PeerNamespace: netlink.NsFd(b.ns)})
	})
	for _, s := range []*testPeer{a, b} {
		s.do(func() error {
			return errors.Join(addAddresses("eth0", netip.PrefixFrom(s.outer[0], 24), netip.PrefixFrom(s.outer[1], 64)), up("eth0"), up("lo"))
		})
	}
	return a, b
}

func newTestPeer(t testing.TB, letter, v4, v6, inner4, inner6 string) *testPeer {
	t.Helper()
	s := &testPeer{
		t: t, name: fmt.Sprintf("lqwg-%d-%s", os.Getpid(), letter), key: newKey(t),
		outer: [2]netip.Addr{netip.MustParseAddr(v4), netip.MustParseAddr(v6)},
		inner: [2]netip.Prefix{netip.MustParsePrefix(inner4), netip.MustParsePrefix(inner6)},
	}
	made := make(chan error)
	go func() {
		runtime.LockOSThread() // NewNamed moves this thread
		var err error
		s.ns, err = netns.NewNamed(s.name)
		made <- err
	}()
	if err := <-made; err != nil {
		t.Fatalf("making network namespace %s: %v", s.name, err)
	}
	t.Cleanup(func() {
		if s.device != nil {
			_ = s.device.Close()
		}
		if err := errors.Join(s.ns.Close(), netns.DeleteNamed(s.name)); err != nil {
			t.Errorf("removing network namespace %s: %v", s.name, err)
		}
	})
	return s
}

func addAddresses(link string, addresses ...netip.Prefix) error {
	l, err := netlink.LinkByName(link)
	if err != nil {
		return err
	}
	for _, p := range addresses {
		addr, err := netlink.ParseAddr(p.String())
		if err != nil {
			return err
		}
		addr.Flags = 0x02 // nodad: usable at once
		if err := netlink.AddrAdd(l, addr); err != nil {
			return err
		}
	}
	return nil
}

func up(link string) error {
	l, err := netlink.LinkByName(link)
	if err != nil {
		return err
	}
	return netlink.LinkSetUp(l)
}

func newKey(t testing.TB) PrivateKey {
	t.Helper()
	private, _, err := pki.NewTunnelKey()
	if err != nil {
		t.Fatal(err)
	}
	return private
}

// open attaches to the device, or makes it. Addresses are only added to a new one.
func (s *testPeer) open() {
	s.t.Helper()
	s.do(func() error {
		_, err := netlink.LinkByName(tunnelName)
		fresh := err != nil
		s.device, err = Open(tunnelName, Userspace, quiet())
		if err != nil || !fresh {
			return err
		}
		return addAddresses(tunnelName, s.inner[0], s.inner[1])
	})
}

func (s *testPeer) apply(c Config) {
	s.t.Helper()
	s.do(func() error { return s.device.Apply(c) })
}

func (s *testPeer) status() Status {
	s.t.Helper()
	status, err := s.device.Observe()
	if err != nil {
		s.t.Fatal(err)
	}
	return status
}

func (s *testPeer) only() PeerStatus {
	s.t.Helper()
	status := s.status()
	if len(status.Peers) != 1 {
		s.t.Fatalf("%s has %d peers, want one", s.name, len(status.Peers))
	}
	return status.Peers[0]
}

const serverPort = 51840

// server is what a wants by default, client what b wants.
func server(a, b *testPeer) Config {
	return Config{MTU: 1340, PrivateKey: a.key, ListenPort: serverPort, Peers: []Peer{{
		PublicKey: b.key.Public(), AllowedIPs: []netip.Prefix{b.inner[0].Masked(), b.inner[1].Masked()}, Keepalive: 20 * time.Second,
	}}}
}

func client(a, b *testPeer) Config {
	return Config{MTU: 1340, PrivateKey: b.key, Peers: []Peer{{
		PublicKey: a.key.Public(), Endpoint: netip.AddrPortFrom(a.outer[0], serverPort), Keepalive: 20 * time.Second,
		AllowedIPs: []netip.Prefix{a.inner[0].Masked(), a.inner[1].Masked()},
	}}}
}

// tunnelUp opens both devices and waits until the first handshake is done.
func tunnelUp(t testing.TB) (a, b *testPeer) {
	t.Helper()
	a, b = newTestPeers(t)
	a.open()
	b.open()
	a.apply(server(a, b))
	b.apply(client(a, b))
	await(t, "a handshake", func() bool { return !a.only().LastHandshake.IsZero() && !b.only().LastHandshake.IsZero() })
	return a, b
}

// await looks until something is so. The limit is far beyond what anything here takes.
func await(t testing.TB, what string, ok func() bool) time.Duration {
	t.Helper()
	begin := time.Now()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Since(begin) > time.Minute {
			t.Fatalf("waited a minute for %s", what)
		}
		<-tick.C
	}
	return time.Since(begin)
}

// listen makes a TCP server that answers with what it gets.
func (s *testPeer) listen(addr netip.Addr) netip.AddrPort {
	s.t.Helper()
	var l net.Listener
	s.do(func() (err error) {
		l, err = net.Listen("tcp", netip.AddrPortFrom(addr, 0).String())
		return err
	})
	s.t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	}()
	return l.Addr().(*net.TCPAddr).AddrPort()
}

func (s *testPeer) dial(to netip.AddrPort) net.Conn {
	s.t.Helper()
	var c net.Conn
	s.do(func() (err error) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		c, err = (&net.Dialer{}).DialContext(ctx, "tcp", to.String())
		return err
	})
	s.t.Cleanup(func() { _ = c.Close() })
	return c
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }
