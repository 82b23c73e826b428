// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package wg

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"golang.zx2c4.com/wireguard/tun"
)

func TestTunnelTCP(t *testing.T) {
	a, b := tunnelUp(t)
	for i, family := range []string{"IPv4", "IPv6"} {
		echo(t, b.dial(a.listen(a.inner[i].Addr())), 4<<20)
		t.Logf("%s passed", family)
	}
	if p := a.only(); p.Endpoint.Addr() != b.outer[0] || p.Received < 8<<20 || p.Sent < 8<<20 {
		t.Errorf("the server observes %+v", p)
	}
}

// What stays counted would make every later read wait. The last read alone may not be looked at yet.
func TestTunnelAllPackets(t *testing.T) {
	a, b := tunnelUp(t)
	conn := b.dial(a.listen(a.inner[0].Addr()))
	echo(t, conn, 4<<20)
	garbage := b.udp(b.outer[0])
	for range packetsInside / 2 {
		if _, err := garbage.WriteTo([]byte("\x04\x00\x00\x00 no session has this number"), net.UDPAddrFromAddrPort(netip.AddrPortFrom(a.outer[0], serverPort))); err != nil {
			t.Fatal(err)
		}
	}
	echo(t, conn, 16) // behind the garbage, in the same socket
	for _, s := range []*testPeer{a, b} {
		e := s.device.engine.(*userspaceEngine)
		for name, w := range map[string]*receiveWindow{"out": e.tun.out.receiveWindow, "in": e.tun.in} {
			await(t, name+" to be empty", func() bool {
				w.mu.Lock()
				defer w.mu.Unlock()
				return w.inside < packetsInside/10
			})
		}
	}
}

// echo sends so many bytes and reads them back.
func echo(t *testing.T, c net.Conn, size int) {
	t.Helper()
	data := bytes.Repeat([]byte("0123456789abcdef"), size/16)
	var writing sync.WaitGroup
	writing.Go(func() {
		if _, err := c.Write(data); err != nil {
			t.Error(err)
		}
	})
	got := make([]byte, len(data))
	if _, err := io.ReadFull(c, got); err != nil {
		t.Fatal(err)
	}
	writing.Wait()
	if !bytes.Equal(got, data) {
		t.Error("what came back differs")
	}
}

func TestTunnelOverIPv6(t *testing.T) {
	a, b := newTestPeers(t)
	a.open()
	b.open()
	a.apply(server(a, b))
	c := client(a, b)
	c.Peers[0].Endpoint = netip.AddrPortFrom(a.outer[1], serverPort)
	b.apply(c)
	echo(t, b.dial(a.listen(a.inner[0].Addr())), 1<<20)
	if p := a.only(); p.Endpoint.Addr() != b.outer[1] {
		t.Errorf("the server learned %s", p.Endpoint)
	}
}

func TestUnchangedConfig(t *testing.T) {
	a, b := tunnelUp(t)
	conn := b.dial(a.listen(a.inner[0].Addr()))
	echo(t, conn, 1<<16)
	before, port := a.only(), b.status().ListenPort
	for range 3 {
		a.apply(server(a, b))
		b.apply(client(a, b))
	}
	after := a.only()
	if !after.LastHandshake.Equal(before.LastHandshake) || after.Endpoint != before.Endpoint || after.Received < before.Received {
		t.Errorf("before %+v, after %+v", before, after)
	}
	if got := b.status().ListenPort; got != port {
		t.Errorf("the client's port went from %d to %d", port, got)
	}
	echo(t, conn, 1<<16)
}

func TestConfigChangeInPlace(t *testing.T) {
	a, b := tunnelUp(t)
	conn := b.dial(a.listen(a.inner[0].Addr()))
	echo(t, conn, 1<<16)
	before, index := a.only(), a.index()
	c := server(a, b)
	c.MTU = 1280
	c.Peers[0].Keepalive = 5 * time.Second
	c.Peers[0].AllowedIPs = append(c.Peers[0].AllowedIPs, netip.MustParsePrefix("10.71.0.0/16"))
	a.apply(c)
	echo(t, conn, 1<<20)
	if after := a.only(); !after.LastHandshake.Equal(before.LastHandshake) || after.Received < before.Received {
		t.Errorf("before %+v, after %+v", before, after)
	}
	have, err := a.device.engine.getState()
	if err != nil {
		t.Fatal(err)
	}
	p := have.peers[b.key.Public()]
	if diff := cmp.Diff(canonicalPrefixes(c.Peers[0].AllowedIPs), canonicalPrefixes(p.allowedIPs), exact...); diff != "" || p.keepalive != 5*time.Second {
		t.Errorf("keepalive %s, prefixes (-want +got):\n%s", p.keepalive, diff)
	}
	if got := a.index(); got != index {
		t.Errorf("the link went from index %d to %d", index, got)
	}
	a.do(func() error {
		link, err := netlink.LinkByName(tunnelName)
		if err == nil && link.Attrs().MTU != 1280 {
			t.Errorf("the link has MTU %d", link.Attrs().MTU)
		}
		return err
	})
	engine := a.device.engine.(*userspaceEngine)
	if mtu, _ := engine.tun.MTU(); mtu != 1280 {
		t.Errorf("the library is told MTU %d", mtu)
	}
}

func (s *testPeer) index() (index int) {
	s.t.Helper()
	s.do(func() error {
		link, err := netlink.LinkByName(tunnelName)
		if err == nil {
			index = link.Attrs().Index
		}
		return err
	})
	return index
}

func TestRemovedPeer(t *testing.T) {
	a, b := tunnelUp(t)
	from, to := b.udp(b.inner[0].Addr()), a.udp(a.inner[0].Addr())
	await(t, "a datagram to pass", func() bool { return passes(t, from, to) })
	c := server(a, b)
	revoked := c.Peers
	c.Peers = nil
	a.apply(c)
	if n := len(a.status().Peers); n != 0 {
		t.Fatalf("%d peers are left", n)
	}
	drain(t, to, 0) // what came before, and late
	// The client still sends: with its session, then with handshakes that are not answered. What arrived on the outer
	// network before a fence of our own was looked at before it.
	got := a.outerDatagrams(b, from, to.LocalAddr(), 200)
	if got < 200 {
		t.Errorf("only %d datagrams arrived on the outer network", got)
	}
	if drained := drain(t, to, 0); drained != 0 {
		t.Errorf("%d datagrams of a removed peer came through", drained)
	}
	c.Peers = revoked
	a.apply(c)
	await(t, "a datagram to pass again", func() bool {
		b.do(func() error { return b.device.Restart(a.key.Public()) })
		return passes(t, from, to)
	})
}

func (s *testPeer) udp(addr netip.Addr) *net.UDPConn {
	s.t.Helper()
	var c *net.UDPConn
	s.do(func() (err error) {
		c, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr, 0)))
		return err
	})
	s.t.Cleanup(func() { _ = c.Close() })
	return c
}

// passes sends a datagram and looks whether one arrives soon.
func passes(t *testing.T, from, to *net.UDPConn) bool {
	t.Helper()
	if _, err := from.WriteTo([]byte("hello"), to.LocalAddr()); err != nil {
		t.Fatal(err)
	}
	_ = to.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	_, _, err := to.ReadFrom(make([]byte, 16))
	return err == nil
}

// drain reads what has arrived, and counts what is longer than so many bytes.
func drain(t *testing.T, c *net.UDPConn, longerThan int) (n int) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	for {
		size, _, err := c.ReadFrom(make([]byte, 64))
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return n
		case err != nil:
			t.Fatal(err)
		case size > longerThan:
			n++
		}
	}
}

// outerDatagrams sends want datagrams through the tunnel and counts outer ones until so many arrived, or a minute passed.
func (s *testPeer) outerDatagrams(other *testPeer, from *net.UDPConn, to net.Addr, want int) int {
	s.t.Helper()
	frames := s.capture()
	for range want {
		if _, err := from.WriteTo([]byte("hello"), to); err != nil {
			s.t.Fatal(err)
		}
	}
	n := 0
	buf := make([]byte, 1<<16)
	for n < want {
		size, _, err := unix.Recvfrom(frames, buf, 0)
		if err != nil {
			return n
		}
		if packet := buf[:size]; size > 28 && packet[0]>>4 == 4 && packet[9] == unix.IPPROTO_UDP && netip.AddrFrom4([4]byte(packet[12:16])) == other.outer[0] {
			n += (size - 28 + 79) / 80 // segments may come merged; ours are 80 bytes
		}
	}
	return n
}

// capture sees the packets that arrive at eth0, from the IP header on. Reading from it ends after a minute of silence.
func (s *testPeer) capture() int {
	s.t.Helper()
	var fd int
	s.do(func() (err error) {
		link, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		all := binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, unix.ETH_P_ALL))
		if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, int(all)); err != nil {
			return err
		}
		return errors.Join(unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: link.Attrs().Index}),
			unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 16<<20), // they are read later
			unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 60}))
	})
	s.t.Cleanup(func() { _ = unix.Close(fd) })
	return fd
}

func TestInterfaceOutlivesProcess(t *testing.T) {
	a, b := tunnelUp(t)
	from, to := b.udp(b.inner[0].Addr()), a.udp(a.inner[0].Addr())
	await(t, "a datagram to pass", func() bool { return passes(t, from, to) })
	index, learned := a.index(), a.only().Endpoint
	before := a.addresses()
	if err := a.device.Close(); err != nil {
		t.Fatal(err)
	}
	if got := a.index(); got != index {
		t.Fatalf("the link has index %d after Close, want %d", got, index)
	}
	// The client keeps the session that the server lost. It would notice after 15 s: the server comes first.
	begin := time.Now()
	a.open()
	c := server(a, b)
	c.Peers[0].Endpoint = learned
	a.apply(c)
	await(t, "a datagram to pass again", func() bool { return passes(t, from, to) })
	t.Logf("traffic again %s after reopening", time.Since(begin).Round(time.Millisecond))
	if diff := cmp.Diff(before, a.addresses()); diff != "" || a.index() != index {
		t.Errorf("index %d, want %d; addresses (-before +after):\n%s", a.index(), index, diff)
	}
	a.do(func() error { return a.device.Remove() })
	a.do(func() error {
		if _, err := netlink.LinkByName(tunnelName); err == nil {
			t.Error("the link is there after Remove")
		}
		return nil
	})
}

func (s *testPeer) addresses() (out []string) {
	s.t.Helper()
	s.do(func() error {
		link, err := netlink.LinkByName(tunnelName)
		if err != nil {
			return err
		}
		list, err := netlink.AddrList(link, netlink.FAMILY_ALL)
		for _, addr := range list {
			out = append(out, addr.IPNet.String())
		}
		return err
	})
	return out
}

func TestRestartHandshake(t *testing.T) {
	for _, keepalive := range []time.Duration{20 * time.Second, 0} {
		t.Run("keepalive "+keepalive.String(), func(t *testing.T) {
			a, b := tunnelUp(t)
			c := server(a, b)
			c.Peers[0].Keepalive = keepalive
			a.apply(c)
			before := b.only().LastHandshake
			a.do(func() error { return a.device.Restart(b.key.Public()) })
			took := await(t, "a handshake", func() bool { return !a.only().LastHandshake.IsZero() && b.only().LastHandshake.After(before) })
			t.Logf("a handshake %s after Restart", took.Round(time.Millisecond))
			got, err := a.device.engine.getState()
			if err != nil {
				t.Fatal(err)
			}
			if p := got.peers[b.key.Public()]; p.keepalive != keepalive || len(p.allowedIPs) != 2 || p.Endpoint.Addr() != b.outer[0] {
				t.Errorf("after Restart the peer is %+v", p)
			}
			if err := a.device.Restart(a.key.Public()); err == nil {
				t.Error("a peer that does not exist was restarted")
			}
		})
	}
}

func TestFirstEndpointHandshake(t *testing.T) {
	a, b := newTestPeers(t)
	a.open()
	b.open()
	a.apply(server(a, b))
	c := client(a, b)
	c.Peers[0].Endpoint = netip.AddrPort{}
	b.apply(c)
	b.apply(client(a, b))
	if b.only().Sent == 0 {
		t.Error("nothing was sent to the endpoint")
	}
	await(t, "a handshake", func() bool { return !a.only().LastHandshake.IsZero() && !b.only().LastHandshake.IsZero() })
}

// TestUnreachableEndpoint has nothing receive at the endpoint of a client for a while.
func TestUnreachableEndpoint(t *testing.T) {
	for i, family := range []string{"ipv4", "ipv6"} {
		t.Run(family, func(t *testing.T) {
			a, b := newTestPeers(t)
			a.do(func() error { // without a limit of such errors
				return errors.Join(os.WriteFile("/proc/sys/net/ipv4/icmp_ratelimit", []byte("0"), 0o644), os.WriteFile("/proc/sys/net/ipv6/icmp/ratelimit", []byte("0"), 0o644))
			})
			a.open()
			b.open()
			var reports atomic.Int64
			b.device.OnUnreachable(func() { reports.Add(1) })
			a.apply(server(a, b))
			c := client(a, b)
			c.Peers[0].Endpoint = netip.AddrPortFrom(a.outer[i], serverPort)
			b.apply(c)
			await(t, "a handshake", func() bool { return !b.only().LastHandshake.IsZero() })
			conn := b.dial(a.listen(a.inner[0].Addr()))
			echo(t, conn, 1<<16)
			if n := reports.Load(); n != 0 {
				t.Errorf("the endpoint answers, and is %d times unreachable", n)
			}
			elsewhere := server(a, b)
			elsewhere.ListenPort++
			a.apply(elsewhere)
			for n := range int64(20) { // the library would end at the first one
				b.do(func() error { return b.device.Restart(a.key.Public()) })
				await(t, "a report", func() bool { return reports.Load() > n })
			}
			a.apply(server(a, b))
			b.do(func() error { return b.device.Restart(a.key.Public()) })
			echo(t, conn, 1<<16)
		})
	}
}

func TestRebindPort(t *testing.T) {
	a, b := tunnelUp(t)
	conn := b.dial(a.listen(a.inner[0].Addr()))
	echo(t, conn, 1<<16)
	before, handshake := b.status().ListenPort, a.only().LastHandshake
	b.do(func() error { return b.device.Rebind() })
	after := b.status().ListenPort
	if after == before || after == 0 {
		t.Errorf("port %d, before %d", after, before)
	}
	echo(t, conn, 1<<16)
	p := a.only()
	if p.Endpoint != netip.AddrPortFrom(b.outer[0], after) || !p.LastHandshake.Equal(handshake) {
		t.Errorf("the server observes %+v, want port %d and handshake %s", p, after, handshake)
	}
	a.do(func() error { return a.device.Rebind() })
	if got := a.status().ListenPort; got != serverPort {
		t.Errorf("the server's port is %d", got)
	}
	echo(t, conn, 1<<16)
}

// optionsOf calls f for the sockets of an end, for IPv4 and for IPv6.
func optionsOf(t *testing.T, s *testPeer, f func(which, fd int)) {
	t.Helper()
	sockets, err := s.device.engine.(*userspaceEngine).device.Bind().(*countingBind).udpSockets()
	if err != nil || len(sockets) != 2 {
		t.Fatalf("%d sockets, %v", len(sockets), err)
	}
	for i, socket := range sockets {
		raw, err := socket.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		_ = raw.Control(func(fd uintptr) { f(i, int(fd)) })
	}
}

func TestOuterPacketMark(t *testing.T) {
	a, b := tunnelUp(t)
	const given = 27761
	marked := func(want int, when string) {
		t.Helper()
		optionsOf(t, b, func(which, fd int) {
			if got, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MARK); err != nil || got != want {
				t.Errorf("socket %d %s: the mark is %d, %v, want %d", which, when, got, err, want)
			}
		})
	}
	config := client(a, b)
	marked(0, "without one")
	config.Mark = given
	b.apply(config)
	marked(given, "with one")
	b.do(func() error { return b.device.Rebind() })
	marked(given, "of another port")
}

func TestOuterPacketsUnfragmented(t *testing.T) {
	a, b := tunnelUp(t)
	frames := a.capture()
	probing := func(s *testPeer) {
		t.Helper()
		options := [][3]int{
			{unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_PROBE}, {unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_PROBE},
		}
		optionsOf(t, s, func(which, fd int) {
			option := options[which]
			if got, err := unix.GetsockoptInt(fd, option[0], option[1]); err != nil || got != option[2] {
				t.Errorf("socket %d: option is %d, %v, want %d", which, got, err, option[2])
			}
			if gro, err := unix.GetsockoptInt(fd, unix.IPPROTO_UDP, unix.UDP_GRO); err != nil || gro == 0 {
				t.Errorf("socket %d: UDP GRO is %d, %v", which, gro, err)
			}
		})
	}
	probing(a)
	probing(b)
	b.do(func() error { return b.device.Rebind() })
	probing(b)
	echo(t, b.dial(a.listen(a.inner[0].Addr())), 1<<20)
	_ = unix.SetsockoptTimeval(frames, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 50_000})
	seen, merged := 0, 0
	for buf := make([]byte, 1<<16); ; {
		size, _, err := unix.Recvfrom(frames, buf, 0)
		if err != nil {
			break
		}
		if buf[0]>>4 != 4 || buf[9] != unix.IPPROTO_UDP {
			continue
		}
		seen++
		if size > 1500 {
			merged++
		}
		if flags := binary.BigEndian.Uint16(buf[6:]); flags != 0x4000 {
			t.Fatalf("packet %d of %d bytes has fragment field %#x, want DF alone", seen, size, flags)
		}
	}
	if seen < 16 || merged == 0 { // a packet has 64 KiB at most
		t.Errorf("%d packets were seen, %d of them segments together", seen, merged)
	}

	// What does not fit the link is lost, and not in two halves.
	b.do(func() error {
		link, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		return netlink.LinkSetMTU(link, 1280)
	})
	from, to := b.udp(b.inner[0].Addr()), a.udp(a.inner[0].Addr())
	big := make([]byte, 1300)
	for range 10 {
		if _, err := from.WriteTo(big, to.LocalAddr()); err != nil {
			t.Fatal(err)
		}
	}
	await(t, "a small datagram to pass", func() bool { return passes(t, from, to) })
	if n := drain(t, to, len("hello")); n != 0 { // a small one may be late
		t.Errorf("%d datagrams came through that do not fit the outer link", n)
	}
}

func TestPrivateKeyChange(t *testing.T) {
	a, b := tunnelUp(t)
	index, before := a.index(), a.only().LastHandshake
	conn := b.dial(a.listen(a.inner[0].Addr()))
	echo(t, conn, 1<<16)
	a.key = newKey(t)
	a.apply(server(a, b))
	b.apply(client(a, b))
	echo(t, conn, 1<<16)
	if p := a.only(); !p.LastHandshake.After(before) || a.index() != index {
		t.Errorf("handshake %s, before %s; index %d, before %d", p.LastHandshake, before, a.index(), index)
	}
	if peers := b.status().Peers; len(peers) != 1 || peers[0].PublicKey != a.key.Public() {
		t.Errorf("the client has %+v", peers)
	}
}

func TestPortInUse(t *testing.T) {
	a, _ := newTestPeers(t)
	a.open()
	occupied := a.udp(netip.IPv4Unspecified())
	c := Config{MTU: 1340, PrivateKey: a.key, ListenPort: uint16(occupied.LocalAddr().(*net.UDPAddr).Port)}
	a.do(func() error {
		if err := a.device.Apply(c); !errors.Is(err, unix.EADDRINUSE) {
			t.Errorf("a taken port: %v", err)
		}
		return nil
	})
	free := c
	free.ListenPort = 0
	a.apply(free)
	if a.status().ListenPort == 0 {
		t.Error("no socket is open")
	}
	a.do(func() error {
		if err := a.device.Apply(c); err == nil {
			t.Error("a taken port was accepted")
		}
		return nil
	})
	a.apply(free) // the Config of before the failure, which closed its socket
	if a.status().ListenPort == 0 {
		t.Error("no socket is open")
	}
	_ = occupied.Close()
	a.apply(c)
	if got := a.status().ListenPort; got != c.ListenPort {
		t.Errorf("port %d, want %d", got, c.ListenPort)
	}
}

func TestLinkNameConflict(t *testing.T) {
	a, _ := newTestPeers(t)
	for name, tc := range map[string]struct {
		link netlink.Link
		impl Implementation
		want string
	}{
		"veth":              {&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "x0"}, PeerName: "x1"}, Auto, "is a veth, not WireGuard's"},
		"TAP":               {&netlink.Tuntap{LinkAttrs: netlink.LinkAttrs{Name: "x0"}, Mode: netlink.TUNTAP_MODE_TAP}, Userspace, "is a TAP"},
		"TUN of another":    {&netlink.Tuntap{LinkAttrs: netlink.LinkAttrs{Name: "x0"}, Mode: netlink.TUNTAP_MODE_TUN, Flags: netlink.TUNTAP_MULTI_QUEUE_DEFAULTS, Queues: 2}, Auto, "of another kind"},
		"TUN and kernel":    {&netlink.Tuntap{LinkAttrs: netlink.LinkAttrs{Name: "x0"}, Mode: netlink.TUNTAP_MODE_TUN}, Kernel, `of implementation "userspace", not "kernel"`},
		"no implementation": {nil, "wasm", `unknown implementation "wasm"`},
	} {
		a.do(func() error {
			if tc.link != nil {
				if err := netlink.LinkAdd(tc.link); err != nil {
					return err
				}
				defer func() { _ = netlink.LinkDel(tc.link) }()
				if t, ok := tc.link.(*netlink.Tuntap); ok {
					for _, fd := range t.Fds {
						defer fd.Close()
					}
				}
			}
			if _, err := Open("x0", tc.impl, quiet()); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: error %v, want one with %q", name, err, tc.want)
			}
			return nil
		})
	}
	a.open()
	a.do(func() error {
		if _, err := Open(tunnelName, Auto, quiet()); !errors.Is(err, unix.EBUSY) {
			t.Errorf("a device that is open: %v", err)
		}
		return nil
	})
}

func TestAutoImplementation(t *testing.T) {
	a, _ := newTestPeers(t)
	a.do(func() error {
		first, err := Open("x0", Auto, quiet())
		if err != nil {
			return err
		}
		if first.Implementation() == Userspace {
			if _, err := Open("x1", Kernel, quiet()); !errors.Is(err, unix.EOPNOTSUPP) {
				t.Errorf("the kernel was not chosen, but asked for it says %v", err)
			}
		}
		if err := first.Close(); err != nil {
			return err
		}
		again, err := Open("x0", Auto, quiet())
		if err != nil {
			return err
		}
		if again.Implementation() != first.Implementation() {
			t.Errorf("%s after %s", again.Implementation(), first.Implementation())
		}
		return again.Remove()
	})
}

func TestDeletedLink(t *testing.T) {
	a, b := tunnelUp(t)
	gone := func() {
		t.Helper()
		a.do(func() error {
			link, err := netlink.LinkByName(tunnelName)
			if err != nil {
				return err
			}
			return netlink.LinkDel(link)
		})
		await(t, "an error", func() bool {
			_, err := a.device.Observe()
			return errors.Is(err, errGone)
		})
	}
	gone()
	var asking sync.WaitGroup
	asking.Go(func() {
		if got := a.device.Implementation(); got != Userspace { // while it is opened again
			t.Errorf("it is in %s", got)
		}
	})
	defer asking.Wait()
	if err := a.device.Keep(); err != nil {
		t.Errorf("a device that is gone has peers to remove: %v", err)
	}
	a.apply(server(a, b))
	a.do(func() error { return addAddresses(tunnelName, a.inner[0], a.inner[1]) })
	from, to := b.udp(b.inner[0].Addr()), a.udp(a.inner[0].Addr())
	await(t, "a datagram to pass", func() bool {
		b.do(func() error { return b.device.Restart(a.key.Public()) })
		return passes(t, from, to)
	})
	gone()
	if err := a.device.Close(); err != nil {
		t.Fatal(err)
	}
	a.do(func() error {
		if err := a.device.Apply(server(a, b)); !errors.Is(err, errGone) {
			t.Errorf("a Config was applied to a device that is closed: %v", err)
		}
		return nil
	})
}

func TestPeersReplaced(t *testing.T) {
	a, b := tunnelUp(t)
	c := server(a, b)
	other := newKey(t).Public()
	c.Peers = append(c.Peers, Peer{PublicKey: other})
	a.apply(c)
	session := a.status()
	if err := a.device.Keep(b.key.Public(), other); err != nil || len(a.status().Peers) != 2 {
		t.Errorf("all peers are kept: %+v, %v", a.status().Peers, err)
	}
	if err := a.device.Keep(b.key.Public()); err != nil {
		t.Fatal(err)
	}
	if kept := a.only(); kept.PublicKey != b.key.Public() || !slices.ContainsFunc(session.Peers, func(p PeerStatus) bool { return p.LastHandshake.Equal(kept.LastHandshake) }) {
		t.Errorf("kept %+v of %+v", kept, session.Peers)
	}
	if err := a.device.Keep(); err != nil || len(a.status().Peers) != 0 {
		t.Errorf("no peer is kept: %+v, %v", a.status().Peers, err)
	}
	a.apply(c)
	if n := len(a.status().Peers); n != 2 {
		t.Errorf("%d peers came back, want 2", n)
	}
}

func TestSegmentOffload(t *testing.T) {
	a, _ := tunnelUp(t)
	a.do(func() error {
		link, err := netlink.LinkByName(tunnelName)
		if err != nil {
			return err
		}
		tuntap, ok := link.(*netlink.Tuntap)
		if !ok || tuntap.NonPersist || tuntap.Flags&netlink.TUNTAP_VNET_HDR == 0 {
			t.Errorf("the link is %+v", link)
		}
		return nil
	})
	if n := a.device.engine.(*userspaceEngine).tun.BatchSize(); n < 64 {
		t.Errorf("the TUN reads %d packets at once: offloads are off", n)
	}
}

// A TUN whose reads fail as those of the library do.
type failingTUN struct {
	tun.Device
	errs []error
}

func (f *failingTUN) Read([][]byte, []int, int) (int, error) {
	err := f.errs[0]
	f.errs = f.errs[1:]
	return 0, err
}

func TestBadPacket(t *testing.T) {
	gone := &os.PathError{Op: "read", Path: cloneDevice, Err: unix.EIO}
	tn := &tunDevice{log: quiet(), out: windowGate{receiveWindow: newWindow(1)}, Device: &failingTUN{errs: []error{errors.New("tcp header len is invalid: 4"), tun.ErrTooManySegments, gone, os.ErrClosed}}}
	for _, want := range []error{nil, tun.ErrTooManySegments, gone, os.ErrClosed} {
		if _, err := tn.Read(nil, nil, 0); !errors.Is(err, want) {
			t.Errorf("error %v, want %v", err, want)
		}
	}
}

// A TUN that has so many packets of one byte, and then a bad one.
type waiting struct {
	tun.Device
	packets int
}

func (w *waiting) Read(bufs [][]byte, sizes []int, offset int) (int, error) {
	if w.packets--; w.packets < 0 {
		return 0, errors.New("tcp header len is invalid: 4")
	}
	bufs[0][offset], sizes[0] = byte(w.packets), 1
	return 1, nil
}

func TestBatchRead(t *testing.T) {
	for _, c := range []struct {
		what       string
		packets    int
		more       bool
		want, left int
	}{
		{"one, and no more", 1, false, 1, 0},
		{"no more than fit beside segments", 100, true, atOnce, 100 - atOnce},
		{"a bad one takes none with it", 3, true, 3, -1},
	} {
		device := &waiting{packets: c.packets}
		tn := &tunDevice{log: quiet(), Device: device, out: windowGate{receiveWindow: newWindow(packetsInside)}, waiting: func() bool { return c.more }}
		bufs, sizes := make([][]byte, 128), make([]int, 128)
		for i := range bufs {
			bufs[i] = make([]byte, 8)
		}
		n, err := tn.Read(bufs, sizes, 4)
		if n != c.want || err != nil || device.packets != c.left {
			t.Errorf("%s: %d were read, %v, %d are left, want %d and %d", c.what, n, err, device.packets, c.want, c.left)
		}
		for i := range n {
			if got, want := bufs[i][4], byte(c.packets-1-i); got != want || sizes[i] != 1 {
				t.Errorf("%s: packet %d is %d of %d bytes, want %d", c.what, i, got, sizes[i], want)
			}
		}
	}
}

func TestBatchReadTUN(t *testing.T) {
	a, _ := newTestPeers(t)
	var tn *tunDevice
	a.do(func() (err error) {
		tn, err = openTunnel(tunnelName, quiet(), nil)
		return errors.Join(err, addAddresses(tunnelName, a.inner[0]), up(tunnelName))
	})
	defer tn.Close()
	tn.out = windowGate{receiveWindow: newWindow(packetsInside)}
	const datagrams = 20
	from := a.udp(a.inner[0].Addr())
	for range datagrams {
		if _, err := from.WriteTo(make([]byte, 1000), &net.UDPAddr{IP: a.inner[0].Addr().Next().AsSlice(), Port: 9}); err != nil {
			t.Fatal(err)
		}
	}
	bufs, sizes := make([][]byte, tn.BatchSize()), make([]int, tn.BatchSize())
	for i := range bufs {
		bufs[i] = make([]byte, 1<<16)
	}
	reads := 0
	for seen := 0; seen < datagrams; reads++ {
		n, err := tn.Read(bufs, sizes, 16)
		if err != nil {
			t.Fatal(err)
		}
		for i := range n {
			if sizes[i] == 1028 && bufs[i][16+9] == unix.IPPROTO_UDP {
				seen++
			}
		}
	}
	if reads > 3 { // the kernel has packets of its own to send, too
		t.Errorf("%d datagrams took %d reads", datagrams, reads)
	}
}

func TestSmallPackets(t *testing.T) {
	a, b := newTestPeers(t)
	a.do(func() error {
		link, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		return netlink.LinkSetMTU(link, 1280)
	})
	to := b.udp(b.outer[0])
	out := newBind(newWindow(packetsInside), newWindow(packetsInside), &icmpErrors{})
	a.do(func() error {
		_, _, err := out.Open(0)
		return err
	})
	defer out.Close()
	end, err := out.ParseEndpoint(to.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	var packets [][]byte
	for _, size := range []int{300, 1400, 1400, 100, 100} {
		packets = append(packets, make([]byte, size, 1<<16))
	}
	if out.Send(packets, end) == nil {
		t.Error("what is too big for the link is sent")
	}
	_ = to.SetReadDeadline(time.Now().Add(time.Minute))
	for i := range 3 {
		if _, _, err := to.ReadFrom(make([]byte, 64)); err != nil {
			t.Fatalf("%d of three small packets arrived: %v", i, err)
		}
	}
	if n := drain(t, to, 0); n != 0 {
		t.Errorf("%d more than three small packets arrived", n)
	}
}

func TestLibraryLog(t *testing.T) {
	var out strings.Builder
	var mu sync.Mutex
	log := slog.New(slog.NewTextHandler(writer(func(p []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return out.Write(p)
	}), &slog.HandlerOptions{Level: slog.LevelDebug}))
	a, b := newTestPeers(t)
	a.do(func() (err error) {
		a.device, err = Open(tunnelName, Userspace, log)
		if err != nil {
			return err
		}
		return a.device.Apply(server(a, b))
	})
	c := server(a, b)
	c.MTU = 1280
	a.apply(c)
	await(t, "the library to know the MTU", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return strings.Contains(out.String(), "MTU updated: 1280")
	})
	lib := libraryLog(log, &atomic.Uint64{})
	for range 100 {
		lib.Errorf("Failed to send data packets: %v", unix.EMSGSIZE)
	}
	mu.Lock()
	defer mu.Unlock()
	text := out.String()
	if !strings.Contains(text, "UDP bind has been updated") || strings.Count(text, "Failed to send data packets") != 1 {
		t.Errorf("lines:\n%s", text)
	}
	for line := range strings.Lines(text) {
		// A server waits for its clients: that is no news.
		if strings.Contains(line, "no known endpoint") && !strings.Contains(line, "level=DEBUG") {
			t.Errorf("a loud line: %s", line)
		}
		if strings.Contains(line, PublicKey(a.key).String()[:8]) || strings.Contains(line, hex.EncodeToString(a.key[:4])) {
			t.Errorf("a line shows the key: %s", line)
		}
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

func TestTunnelOverhead(t *testing.T) {
	a, _ := newTestPeers(t)
	a.do(func() error {
		link, err := netlink.LinkByName("eth0")
		if err == nil {
			err = netlink.LinkSetMTU(link, 1450)
		}
		return err
	})
	for i, want := range []int{1450 - 60, 1450 - 80} {
		a.do(func() error {
			got, err := Room(a.outer[i])
			if got != want {
				t.Errorf("from %s: %d bytes, %v, want %d", a.outer[i], got, err, want)
			}
			return err
		})
	}
	a.do(func() error {
		if got, err := Room(netip.MustParseAddr("192.0.2.77")); err == nil || !strings.Contains(err.Error(), "no link has the address 192.0.2.77") {
			t.Errorf("from nowhere: %d bytes, %v", got, err)
		}
		return nil
	})
}
