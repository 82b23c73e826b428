// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package wg

import (
	"errors"
	"fmt"
	"net"
	"reflect"
	"slices"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
	"golang.zx2c4.com/wireguard/conn"
	"golang.zx2c4.com/wireguard/device"
)

// countingBind is the library's UDP bind with fragmentation forbidden (DF). The library's segmentation offloads (GSO, GRO) stay on.
type countingBind struct {
	*conn.StdNetBind
	// Sending removes packets from out, receiving adds packets to in.
	out, in *receiveWindow
	icmp    *icmpErrors
	sockets atomic.Pointer[[]*net.UDPConn]
}

func newBind(out, in *receiveWindow, icmp *icmpErrors) *countingBind {
	return &countingBind{StdNetBind: conn.NewStdNetBind().(*conn.StdNetBind), out: out, in: in, icmp: icmp}
}

// Open is called for every new port, so that no socket is ever used without DF.
func (b *countingBind) Open(port uint16) ([]conn.ReceiveFunc, uint16, error) {
	receive, actual, err := b.StdNetBind.Open(port)
	if err != nil {
		return nil, 0, fmt.Errorf("listening on UDP port %d: %w", port, err)
	}
	sockets, err := b.udpSockets()
	for _, s := range sockets {
		if err == nil {
			err = errors.Join(forbidFragments(s), b.icmp.enableReports(s))
		}
		// Without IPv6 the library reports port 0.
		actual = uint16(s.LocalAddr().(*net.UDPAddr).Port)
	}
	if err != nil {
		_ = b.Close()
		return nil, 0, err
	}
	b.sockets.Store(&sockets)
	for i, f := range receive {
		receive[i] = b.countReceived(b.hideErrors(f))
	}
	return receive, actual, nil
}

// hideErrors hides errors of reception from the library, which ends it at the first one. An error that stays is met once per millisecond.
func (b *countingBind) hideErrors(receive conn.ReceiveFunc) conn.ReceiveFunc {
	return func(packets [][]byte, sizes []int, eps []conn.Endpoint) (int, error) {
		n, err := receive(packets, sizes, eps)
		if err == nil || !b.icmp.isEnabled() || errors.Is(err, net.ErrClosed) {
			return n, err
		}
		if b.icmp.drainErrors(*b.sockets.Load()); !b.icmp.isCause(err) {
			time.Sleep(time.Millisecond)
		}
		return 0, nil
	}
}

// countReceived limits the packets between reception and the write to the TUN. Handshakes never reach the TUN and do not count.
func (b *countingBind) countReceived(receive conn.ReceiveFunc) conn.ReceiveFunc {
	in := windowGate{receiveWindow: b.in}
	return func(packets [][]byte, sizes []int, eps []conn.Endpoint) (int, error) {
		in.beforeRead(packets)
		n, err := receive(packets, sizes, eps)
		in.afterRead(packets, n, func(i int) bool { return sizes[i] > 0 && packets[i][0] == device.MessageTransportType })
		return n, err
	}
}

// Send passes packets of one size at a time. The library appends a smaller packet as the last segment of the preceding packets, and stops at the
// first error: where the path drops big packets, small packets would be lost with them.
func (b *countingBind) Send(packets [][]byte, to conn.Endpoint) (err error) {
	defer b.out.removeInFlight(len(packets))
	for len(packets) > 0 {
		n := equalSizes(packets)
		err = errors.Join(err, b.sendAgain(packets[:n], to))
		packets = packets[n:]
	}
	return err
}

// sendTries limits how often packets are sent whose sending fails by ICMP errors of earlier packets: an attacker may send any number.
const sendTries = 4

// sendAgain sends packets again if an ICMP error of earlier packets fails the call. A part may have been sent, which the peer drops as a replay.
func (b *countingBind) sendAgain(packets [][]byte, to conn.Endpoint) (err error) {
	for range sendTries {
		if err = b.StdNetBind.Send(packets, to); !b.icmp.isCause(err) {
			break
		}
		b.icmp.drainErrors(*b.sockets.Load())
	}
	if b.icmp.isEnabled() && errors.Is(err, unix.ENOBUFS) {
		return nil // a full queue drops packets without an error, where ICMP errors are not reported
	}
	return err
}

// equalSizes returns the number of leading packets of equal size.
func equalSizes(packets [][]byte) int {
	n := slices.IndexFunc(packets, func(p []byte) bool { return len(p) != len(packets[0]) })
	if n < 0 {
		return len(packets)
	}
	return n
}

// udpSockets reads unexported fields of the library, because the library has no hook before or after opening a socket. A bind of our own would
// repeat all batching and segmentation, and a search among the files of the process could hit foreign sockets. A test fails if a new version
// of the library moves the fields, and Open returns an error.
func (b *countingBind) udpSockets() ([]*net.UDPConn, error) {
	var open []*net.UDPConn
	for _, name := range []string{"ipv4", "ipv6"} {
		field := reflect.ValueOf(b.StdNetBind).Elem().FieldByName(name)
		if !field.IsValid() || field.Type() != reflect.TypeFor[*net.UDPConn]() {
			return nil, fmt.Errorf("the WireGuard library has no socket %q", name)
		}
		if s := *(**net.UDPConn)(unsafe.Pointer(field.UnsafeAddr())); s != nil {
			open = append(open, s)
		}
	}
	return open, nil
}

// forbidFragments sets DF with PMTUDISC_PROBE instead of PMTUDISC_DO. In both modes a packet larger than the MTU of the device's link is an
// error; but DO trusts any ICMP about smaller MTUs on the path, forged ones too, whereas our PMTU probes measure loss.
func forbidFragments(s *net.UDPConn) error {
	level, option, value := unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_PROBE
	if isIPv4(s) {
		level, option, value = unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_PROBE
	}
	if err := setOption(s, level, option, value); err != nil {
		return fmt.Errorf("forbidding fragments of outer packets: %w", err)
	}
	return nil
}
