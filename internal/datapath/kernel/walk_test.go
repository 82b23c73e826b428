// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"liqo.io/liqo/internal/datapath"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/network/plan"
)

// ways are all that is to be reached: by UDP in all sizes, by TCP, and where nobody listens with an error. Server is who asks,
// as the server sees it.
var ways = []struct{ name, from, to, server string }{
	{"a pod and one of the very same address", "a/pod", "10.71.1.5:7", "10.71.1.5"},
	{"a pod beside the gateway and one on another node", "a/pod", "10.71.2.7:7", "10.71.1.5"},
	{"a pod on another node", "a/far", "10.71.1.5:7", "10.71.2.7"},
	{"both on other nodes than gateways", "a/far", "10.71.2.7:7", "10.71.2.7"},
	{"the other way", "b/pod", "10.71.1.5:7", "10.71.1.5"},
	{"the other way to another node", "b/pod", "10.71.2.7:7", "10.71.1.5"},
	{"the other way from another node", "b/far", "10.71.1.5:7", "10.71.2.7"},
	{"to a pod with the address of the own gateway", "a/pod", "10.71.1.9:7", "10.71.1.5"},
	{"from a pod with the address of the peer's gateway", "b/twin", "10.71.1.5:7", "10.71.1.9"},
	{"to a pod with the address of the own gateway, of b", "b/far", "10.71.1.8:7", "10.71.2.7"},
	{"from a pod with the address of the peer's gateway, of a", "a/twin", "10.71.2.7:7", "10.71.1.8"},

	{"a process of the gateway's node", "a/one", "10.71.1.5:7", "10.68.0.11"},
	{"a process of another node", "a/two", "10.71.1.5:7", "10.68.0.12"},
	{"a process of b's other node", "b/two", "10.71.2.7:7", "10.68.0.12"},

	{"a pod by a Service", "a/pod", service, "10.71.1.5"},
	{"a pod of another node by a Service", "a/far", service, "10.71.2.7"},
	{"a node by a Service", "a/two", service, "10.68.0.12"},
	{"the world by a node", "world", "172.29.1.2:30080", "10.68.0.12"},
	{"the world by the gateway's node", "world", "172.29.1.1:30080", "10.68.0.11"},
	{"a pod by another node", "a/pod", "172.29.1.2:30080", "10.68.0.12"},
	{"a pod by its own node", "a/pod", "172.29.1.1:30080", "10.68.0.11"},
	{"a node by itself", "a/two", "172.29.1.2:30080", "10.68.0.12"},
	{"a node by itself, as localhost", "a/two", "127.0.0.1:30080", "10.68.0.12"},

	{"an alias of a host, masqueraded", "b/pod", "10.68.0.21:7", "172.29.1.1"},
	{"an alias of a host, from a node", "b/two", "10.68.0.21:7", "172.29.1.1"},
	{"an alias of a host, not masqueraded", "b/pod", "10.68.0.24:7", "10.71.1.5"},
	{"an alias of a host, not masqueraded, from another node", "b/far", "10.68.0.24:7", "10.71.2.7"},
	{"an alias of a node", "b/pod", "10.68.0.22:7", "10.71.1.5"},
	{"an alias of a node, from a node", "b/one", "10.68.0.22:7", "10.68.0.11"},
	{"an alias of a node, for this cluster too", "b/far", "10.68.0.23:7", "10.71.2.7"},
	{"an own alias of the own node", "a/pod", "10.70.0.23:7", "10.200.1.5"},
	{"an own alias of another node", "a/far", "10.70.0.23:7", "172.29.1.2"},
	{"an own alias, from a pod", "a/far", "10.70.0.21:7", "172.29.1.2"},
	{"an own alias, from a node", "a/one", "10.70.0.21:7", "172.29.1.1"},

	{"what is not a peer's is the CNI's", "a/pod", world + ":7", "172.29.1.1"},
}

// dead are ends of ways: where what is sent there is counted, and as what. A frame is a packet of the fabric with that inner source,
// a loose packet, which the gateway of b puts into the tunnel as it is, an echo, or "A by B": a packet in the name of A, given to B.
var dead = []struct{ name, from, to, frame, at, counter string }{
	{name: "a node by its address in front of peers", from: "b/pod", to: "10.68.0.11:7", at: "a/one", counter: plan.CounterFreshLocal},
	{name: "the other node", from: "b/far", to: "10.68.0.12:7", at: "a/two", counter: plan.CounterFreshLocal},
	{name: "a node by its bridge", from: "b/pod", to: "10.71.1.1:7", at: "a/one", counter: plan.CounterFreshLocal},
	{name: "a port of Services by a node", from: "b/pod", to: "10.68.0.11:30080", at: "a/one", counter: plan.CounterFreshLocal},
	{name: "the gateway as a pod", from: "b/pod", to: "10.71.1.9:7", at: "a/gateway", counter: plan.CounterInput},
	{name: "the gateway as a pod, with an echo", from: "b/pod", to: "10.71.1.9:0", frame: "echo", at: "a/gateway", counter: plan.CounterInput},
	{name: "the gateway as a pod, with an echo from a node", from: "b/one", to: "10.71.1.9:0", frame: "echo", at: "a/gateway", counter: plan.CounterInput},
	{name: "the gateway by its address in front of peers", from: "b/pod", to: "10.68.0.0:7", at: "a/gateway", counter: plan.CounterInput},
	{name: "an alias that nobody has", from: "b/pod", to: "10.68.0.99:7", at: "a/gateway", counter: plan.CounterPeerDestination},

	{name: "another peer", from: "b/gateway", to: "10.69.1.5:7", frame: "loose", at: "a/gateway", counter: plan.CounterPeerDestination},
	{name: "a host of the world", from: "b/gateway", to: world + ":7", frame: "loose", at: "a/gateway", counter: plan.CounterPeerDestination},
	{name: "a Service", from: "b/gateway", to: service, frame: "loose", at: "a/gateway", counter: plan.CounterPeerDestination},

	{name: "a frame of the world to a node", from: "world", to: "172.29.1.2:6091", frame: "10.71.1.5", at: "a/two", counter: plan.CounterOuter},
	{name: "a frame of a pod to its node", from: "a/pod", to: "10.200.1.1:6091", frame: "10.71.1.5", at: "a/one", counter: plan.CounterOuter},
	{name: "a frame of a pod to the gateway", from: "a/pod", to: "10.200.1.9:6091", frame: "10.200.1.5", at: "a/gateway", counter: plan.CounterOuter},
	{name: "gateway frame with source of other peer", from: "a/gateway", to: "172.29.1.2:6091", frame: "10.69.1.5", at: "a/two", counter: plan.CounterOuter},
	{name: "a frame of a gateway in the name of a pod", from: "a/gateway", to: "10.200.1.1:6091", frame: "10.200.2.7", at: "a/one", counter: plan.CounterOuter},

	{name: "outside source, address of peer pod", from: "world", to: "10.200.2.7:7", frame: "10.71.1.5 by 172.29.1.2", at: "a/two", counter: plan.CounterStray},
	{name: "pod on gateway node, address of peer node", from: "world", to: "10.200.1.5:7", frame: "10.68.0.11 by 172.29.1.1", at: "a/one", counter: plan.CounterStray},
	{name: "pod, address of peer pod", from: "a/pod", to: "10.200.2.7:7", frame: "10.71.1.5 by 10.200.1.1", at: "a/one", counter: plan.CounterStray},
	{name: "pod, address of peer without gateway", from: "a/far", to: "10.200.1.5:7", frame: "10.69.1.5 by 10.200.2.1", at: "a/two", counter: plan.CounterStray},
	{name: "a node in the name of a pod of the peer", from: "world", to: "172.29.1.2:7", frame: "10.71.1.5 by 172.29.1.2", at: "a/two", counter: plan.CounterStray},
	{name: "NodePort, address of peer pod", from: "world", to: "172.29.1.1:30080", frame: "10.71.2.7 by 172.29.1.1", at: "a/one", counter: plan.CounterStray},
	{name: "a Service in the name of a pod of the peer", from: "a/pod", to: service, frame: "10.71.1.5 by 10.200.1.1", at: "a/one", counter: plan.CounterStray},
	{name: "the gateway in the name of the peer's", from: "a/pod", to: "169.254.18.1:12345", frame: "169.254.18.2 by 10.200.1.9", at: "a/gateway", counter: plan.CounterInput},
	{name: "the gateway's end of the tunnel", from: "a/twin", to: "169.254.18.1:12345", frame: "10.200.1.8 by 10.200.1.9", at: "a/gateway", counter: plan.CounterInput},
}

// traces are who says on the way that time is over: "*" for whom nobody hears.
var traces = []struct{ name, from, to, hops string }{
	{"from the gateway's node", "a/pod", "10.71.1.5", "10.200.1.1 10.200.1.9 10.68.0.0 10.68.0.11 10.71.1.5"},
	{"to another node", "b/pod", "10.71.2.7", "10.200.1.1 10.200.1.8 10.68.0.0 10.68.0.12 10.71.2.7"},
	{"from the gateway's node itself", "a/one", "10.71.1.5", "10.200.1.9 10.68.0.0 10.68.0.11 10.71.1.5"},
}

// star is a trace from a pod on another node than its gateway's. What a gateway says as itself does not get there: the gateway's
// node never saw the flow. That is why the first node says what is too big.
var star = struct{ from, to, hops, lost string }{"a/far", "10.71.1.5", "10.200.2.1 * 10.68.0.0 10.68.0.11 10.71.1.5", "a/one"}

func TestPacketPaths(t *testing.T) {
	for name, settings := range map[string]labSettings{
		"gateways without state":                             {},
		"gateways with state and loose reverse path filters": {priority: 60, tracked: true, loose: true},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, settings)
			for _, way := range ways {
				t.Run(way.name, func(t *testing.T) {
					l.spaces[way.from].inside(t, func() error { return walk(netip.MustParseAddrPort(way.to), way.server) })
				})
			}
			for _, trace := range traces {
				t.Run("time is over "+trace.name, func(t *testing.T) {
					l.spaces[trace.from].inside(t, func() error { return traceRoute(addr(trace.to), strings.Fields(trace.hops)) })
				})
			}
			t.Run("nodes ask gateways", func(t *testing.T) {
				l.spaces["b/one"].inside(t, func() error { return waitForEcho(addr("10.68.0.0")) })
			})
			t.Run("packets stay large", l.large)
			l.only(nil)
			l.valid()
			refused := map[string]bool{}
			for _, end := range dead {
				refused[end.at+" "+end.counter] = true
				t.Run("nobody reaches "+end.name, func(t *testing.T) {
					for _, send := range attempts(netip.MustParseAddrPort(end.to), end.frame) {
						l.spaces[end.from].inside(t, func() error { return l.refuses(end.at, end.counter, send) })
					}
				})
			}
			for _, s := range shrinkings {
				t.Run("packets have to be smaller "+s.name, func(t *testing.T) { l.shrink(t, s) })
			}
			l.only(refused)
			l.valid("a/one", "b/one") // where a gateway's word of what is too big may have got lost
			t.Run("nothing tracks the fabric", l.untracked)
			t.Run("time is over from another node", func(t *testing.T) {
				before := l.invalid(star.lost)
				l.spaces[star.from].inside(t, func() error { return traceRoute(addr(star.to), strings.Fields(star.hops)) })
				fatal(t, soon(star.lost+" dropping one packet as invalid", func() (bool, error) { return l.invalid(star.lost) == before+1, nil }))
			})
			l.disconnect("a")
			for to, all := range nowhere {
				t.Run("nobody gets lost on the way to "+to, func(t *testing.T) { l.isUnreachable(t, all) })
			}
		})
	}
}

// only checks that nothing else was refused.
func (l *lab) only(refused map[string]bool) {
	l.Helper()
	for at := range l.kernels {
		counters, err := l.refusals(at)
		fatal(l, err)
		for counter, n := range counters {
			if !refused[at+" "+counter] {
				l.Errorf("%s: %s has %d packets", at, counter, n)
			}
		}
	}
}

// valid checks that nothing was invalid, but for some nodes.
func (l *lab) valid(but ...string) {
	l.Helper()
	for at := range l.kernels {
		if n := l.invalid(at); n > 0 && !slices.Contains(but, at) {
			l.Errorf("%s: %d packets are invalid", at, n)
		}
	}
}

// untracked checks that no node and no gateway has a flow of the fabric: there is nothing to remember of it, and nobody may translate it.
func (l *lab) untracked(t *testing.T) {
	for at := range l.kernels {
		flows, err := l.spaces[at].ConntrackTableList(netlink.ConntrackTable, unix.AF_INET)
		fatal(t, err)
		some := 0
		for _, f := range flows {
			if f.Forward.Protocol == datapath.UDP && f.Forward.DstPort == names.FabricPort {
				some++
			}
		}
		if some > 0 || len(flows) == 0 && strings.HasSuffix(at, "/one") {
			t.Errorf("%s: %d of %d flows are of the fabric", at, some, len(flows))
		}
	}
}

// walk asks in all ways.
func walk(to netip.AddrPort, server string) error {
	var errs []error
	for _, size := range []int{1, 500, 1312, 1472, 4000, 9000} { // the larger ones in fragments
		if who, err := askAt(to, size); who != server {
			errs = append(errs, fmt.Errorf("%d bytes by UDP: seen as %q, not %s: %w", size, who, server, err))
		}
	}
	if who, err := streamTo(to, 6<<15); who != server {
		errs = append(errs, fmt.Errorf("a stream: seen as %q, not %s: %w", who, server, err))
	}
	if to.Port() == 7 && to.String() != service {
		errs = append(errs, waitForPortUnreachable(netip.Addr{}, to.Addr()))
	}
	return errors.Join(errs...)
}

// attempts are what is sent to a dead end.
func attempts(to netip.AddrPort, frame string) []func(context.Context) error {
	source, by, inTheName := strings.Cut(frame, " by ")
	switch {
	case frame == "":
		return []func(context.Context) error{datagram(to), connection(to)}
	case frame == "echo":
		return []func(context.Context) error{func(context.Context) error {
			c, err := ping(to.Addr())
			if err != nil {
				return err
			}
			return c.Close()
		}}
	case frame == "loose":
		return []func(context.Context) error{loose(to)}
	case inTheName:
		return []func(context.Context) error{forged(datapath.UDP, netip.MustParseAddr(source), to, netip.MustParseAddr(by))}
	default:
		return []func(context.Context) error{datagram(to, vxlan(addr(frame))...)}
	}
}

// datagram sends one packet.
func datagram(to netip.AddrPort, payload ...byte) func(context.Context) error {
	return func(context.Context) error {
		c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(to))
		if err != nil {
			return err
		}
		defer c.Close()
		_, err = c.Write(append(payload, 0))
		return err
	}
}

// ping asks for an echo, and has where the answer comes.
func ping(to netip.Addr) (*net.IPConn, error) {
	c, err := net.DialIP("ip4:icmp", nil, &net.IPAddr{IP: to.AsSlice()})
	if err != nil {
		return nil, err
	}
	if _, err := c.Write([]byte{8, 0, 0xf7, 0xff, 0, 0, 0, 0}); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// waitForEcho waits for the answer to an echo.
func waitForEcho(to netip.Addr) error {
	c, err := ping(to)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	response := make([]byte, 100)
	if _, _, err := c.ReadFrom(response); err != nil || response[0] != 0 { // without the header of IP
		return fmt.Errorf("an echo from %s: type %d, error %v", to, response[0], err)
	}
	return nil
}

// connection tries to connect until there is no time any more.
func connection(to netip.AddrPort) func(context.Context) error {
	return func(ctx context.Context) error {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", to.String())
		if err == nil {
			return errors.Join(fmt.Errorf("%s answers", to), c.Close())
		}
		if ctx.Err() == nil {
			return err
		}
		return nil
	}
}

// loose puts a packet into the tunnel, past all that would stop it.
func loose(to netip.AddrPort) func(context.Context) error {
	return func(context.Context) error {
		link, err := net.InterfaceByName(names.TunnelDevice)
		if err != nil {
			return err
		}
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.Sendto(fd, packetOf(datapath.UDP, addr("10.200.1.5"), to), 0, &unix.SockaddrLinklayer{Protocol: 8 /* IPv4, in network order */, Ifindex: link.Index})
	}
}

// forged gives a packet to a neighbour, whatever its source is.
func forged(protocol byte, from netip.Addr, to netip.AddrPort, by netip.Addr) func(context.Context) error {
	return func(context.Context) error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_RAW)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.Sendto(fd, packetOf(protocol, from, to), 0, &unix.SockaddrInet4{Addr: by.As4()})
	}
}

// packetOf is a packet without any content; its head is as short as that of UDP.
func packetOf(protocol byte, from netip.Addr, to netip.AddrPort) []byte {
	packet := []byte{0: 0x45, 3: 28, 8: 64, 9: protocol, 27: 0}
	copy(packet[12:], from.AsSlice())
	copy(packet[16:], to.Addr().AsSlice())
	var sum uint32
	for i := 0; i < 20; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(packet[i:]))
	}
	binary.BigEndian.PutUint16(packet[10:], ^uint16(sum+sum>>16))
	binary.BigEndian.PutUint16(packet[22:], to.Port())
	binary.BigEndian.PutUint16(packet[24:], 8)
	return packet
}

// refuses sends, and waits until that is counted.
func (l *lab) refuses(at, counter string, send func(context.Context) error) error {
	before, err := l.refusals(at)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	counted := make(chan error, 1)
	go func() {
		defer cancel()
		counted <- soon(counter+" of "+at, func() (bool, error) {
			now, err := l.refusals(at)
			return now[counter] > before[counter], err
		})
	}()
	return errors.Join(send(ctx), <-counted)
}

// traceRoute has the time of packets be over at each hop, until one arrives where nobody listens.
func traceRoute(to netip.Addr, want []string) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_RECVERR, 1); err != nil {
		return err
	}
	const firstPort = 33434
	for i := range want {
		err := unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_TTL, i+1)
		for sent := false; err == nil && !sent; {
			err = unix.Sendto(fd, []byte("who is there?"), 0, &unix.SockaddrInet4{Addr: to.As4(), Port: firstPort + i})
			sent = err == nil
			if errors.Is(err, unix.EHOSTUNREACH) || errors.Is(err, unix.ECONNREFUSED) { // tells of those before
				err = nil
			}
		}
		if err != nil {
			return fmt.Errorf("sending to hop %d: %w", i+1, err)
		}
	}
	got := slices.Repeat([]string{"*"}, len(want))
	err = soon("hops", func() (bool, error) {
		buffer, control := make([]byte, 100), make([]byte, 200)
		_, n, _, about, err := unix.Recvmsg(fd, buffer, control, unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT)
		if err == nil {
			got[about.(*unix.SockaddrInet4).Port-firstPort] = offender(control[:n])
		} else if !errors.Is(err, unix.EAGAIN) {
			return false, err
		}
		return slices.Equal(got, want), nil
	})
	if err != nil {
		return fmt.Errorf("%w: %s", err, cmp.Diff(want, got))
	}
	return nil
}

// offender is who sent the error of which a control message tells.
func offender(control []byte) string {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return err.Error()
	}
	const about, address = 16, 4 // bytes of what the error is about, and where the address is in what follows
	for _, m := range messages {
		if m.Header.Level == unix.IPPROTO_IP && m.Header.Type == unix.IP_RECVERR && len(m.Data) >= about+address+4 {
			return netip.AddrFrom4([4]byte(m.Data[about+address:])).String()
		}
	}
	return "?"
}

// whole are devices by which packets go out, or come in, in one piece. What goes over a bridge to a gateway is cut up before, and
// put together again by the gateway.
var whole = []string{"a/two out liqo.fabric", "a/two out eth0", "a/gateway out liqo-tunnel", "b/gateway out liqo.fabric", "b/one in liqo.fabric"}

// large has streams pass, and looks at how large their packets are, of each device in the best of some: a machine that is busy sends small ones, too.
// Where packets are cut up none is large.
func (l *lab) large(t *testing.T) {
	type traffic struct{ packets, size uint64 }
	look := func(device string) traffic {
		words := strings.Fields(device)
		s := l.spaces[words[0]].link(t, words[2]).Attrs().Statistics
		if words[1] == "in" {
			return traffic{s.RxPackets, s.RxBytes}
		}
		return traffic{s.TxPackets, s.TxBytes}
	}
	const streams = 10
	cut := slices.Clone(whole)
	last := map[string]string{}
	for n := 0; n < streams && len(cut) > 0; n++ {
		before := map[string]traffic{}
		for _, device := range cut {
			before[device] = look(device)
		}
		l.spaces["a/far"].inside(t, func() error {
			_, err := stream(addr("10.71.1.5"), 6<<21)
			return err
		})
		cut = slices.DeleteFunc(cut, func(device string) bool {
			now := look(device)
			packets, size := now.packets-before[device].packets, now.size-before[device].size
			last[device] = fmt.Sprintf("%d packets have %d bytes together", packets, size)
			return size >= packets*2*names.DefaultMTU
		})
	}
	for _, device := range cut {
		t.Errorf("%s: %s: they are cut up", device, last[device])
	}
}

// shrinking is that packets suddenly have to be smaller: those of who asks, or the answers to him.
type shrinking struct {
	name, from, to string
	answers        bool
	mtu            int
	by             func(l *lab, mtu int)
}

// shrinkings come one after another, each to less.
var shrinkings = []shrinking{
	{"in the gateway", "a/pod", "10.71.1.5", false, 1200, func(l *lab, mtu int) {
		l.passing = mtu
		l.apply()
	}},
	{"on their first node", "a/far", "10.71.2.7", false, 1100, func(l *lab, mtu int) {
		l.mtu, l.passing = mtu, mtu
		l.apply()
	}},
	{"on their last node", "b/twin", "10.71.2.7", false, 1000, func(l *lab, mtu int) { l.narrow("a/two", mtu) }},
	{"on the way from an alias of a node", "b/far", "10.68.0.22", true, 900, func(l *lab, mtu int) { l.narrow("b/two", mtu) }},
	{"on the way from an alias of a host", "b/far", "10.68.0.21", true, 800, func(l *lab, mtu int) { l.narrow("b/two", mtu) }},
}

// narrow lets only smaller packets to the pods of a node.
func (l *lab) narrow(node string, mtu int) {
	s := l.spaces[node]
	fatal(l, s.LinkSetMTU(s.link(l, "cni0"), mtu))
}

// shrink has a stream go on, and, if its sender is to be told, packets that may not be fragmented.
func (l *lab) shrink(t *testing.T, s shrinking) {
	stream, packets := l.flows(t, s.from, netip.AddrPortFrom(addr(s.to), 7))
	const headers = 20 + 8
	goesOn(t, stream)
	if s.answers { // who answers packets has no connection to be told by
		s.by(l, s.mtu)
		goesOn(t, stream)
		return
	}
	passes(t, packets, s.mtu+1-headers)
	s.by(l, s.mtu)
	goesOn(t, stream)
	fatal(t, packets.SetDeadline(time.Time{}))
	fatal(t, soon("the sender being told", func() (bool, error) {
		_, err := packets.Write(make([]byte, s.mtu+1-headers))
		if errors.Is(err, syscall.EMSGSIZE) {
			return true, nil
		}
		return false, err
	}))
	fatal(t, option(packets, func(fd int) error {
		count, err := unix.GetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MTU)
		if count != s.mtu {
			t.Errorf("the sender is told %d bytes, and not %d", count, s.mtu)
		}
		return err
	}))
	passes(t, packets, s.mtu-headers)
}

// flows are a stream, and packets that may not be fragmented.
func (l *lab) flows(t *testing.T, from string, to netip.AddrPort) (stream *net.TCPConn, packets *net.UDPConn) {
	l.spaces[from].inside(t, func() (err error) {
		if stream, err = net.DialTCP("tcp", nil, net.TCPAddrFromAddrPort(to)); err != nil {
			return err
		}
		t.Cleanup(func() { stream.Close() })
		if packets, err = net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(to)); err != nil {
			return err
		}
		t.Cleanup(func() { packets.Close() })
		return option(packets, func(fd int) error {
			return unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO)
		})
	})
	return stream, packets
}

// goesOn has some more of a stream pass both ways.
func goesOn(t *testing.T, stream *net.TCPConn) {
	t.Helper()
	fatal(t, stream.SetDeadline(time.Now().Add(patience)))
	sent := make([]byte, 1<<18)
	go stream.Write(sent)
	_, err := io.ReadFull(stream, make([]byte, len(sent)))
	fatal(t, err)
}

// passes has a packet come back. Before it may come answers to others.
func passes(t *testing.T, packets *net.UDPConn, size int) {
	t.Helper()
	sent, got := make([]byte, size), make([]byte, 1<<16)
	for range 10 {
		n, err := exchange(packets, sent, got)
		fatal(t, err)
		if bytes.Count(got[:n], []byte{0}) == size {
			return
		}
	}
	t.Errorf("no packet of %d bytes comes back", size)
}

func option(c syscall.Conn, do func(fd int) error) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var of error
	err = raw.Control(func(fd uintptr) { of = do(int(fd)) })
	return errors.Join(err, of)
}
