// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package wg

import (
	"errors"
	"fmt"
	"net"
	"reflect"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
	"golang.zx2c4.com/wireguard/conn"
	"golang.zx2c4.com/wireguard/device"
)

// countingBind is the library's UDP sockets with fragmentation forbidden. Segmentation offloads stay as the library has them.
type countingBind struct {
	*conn.StdNetBind
	// out is left by what is sent here, in counts what is received here.
	out, in *receiveWindow
}

func newBind(out, in *receiveWindow) *countingBind {
	return &countingBind{StdNetBind: conn.NewStdNetBind().(*conn.StdNetBind), out: out, in: in}
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
			err = forbidFragments(s)
		}
		// Where there is no IPv6 the library reports port 0.
		actual = uint16(s.LocalAddr().(*net.UDPAddr).Port)
	}
	if err != nil {
		_ = b.Close()
		return nil, 0, err
	}
	for i, f := range receive {
		receive[i] = b.countReceived(f)
	}
	return receive, actual, nil
}

// countReceived bounds what is received and not yet written to the TUN. Handshakes never get there.
func (b *countingBind) countReceived(receive conn.ReceiveFunc) conn.ReceiveFunc {
	in := windowGate{receiveWindow: b.in}
	return func(packets [][]byte, sizes []int, eps []conn.Endpoint) (int, error) {
		in.beforeRead(packets)
		n, err := receive(packets, sizes, eps)
		in.afterRead(packets, n, func(i int) bool { return sizes[i] > 0 && packets[i][0] == device.MessageTransportType })
		return n, err
	}
}

// Send hands on packets of one size at a time. The library makes a smaller one the last segment of those before it, and ends at the first
// error: where big packets do not pass, here or further on, small ones would be lost with them.
func (b *countingBind) Send(packets [][]byte, to conn.Endpoint) (err error) {
	defer b.out.removeInFlight(len(packets))
	for len(packets) > 0 {
		n := equalSizes(packets)
		err = errors.Join(err, b.StdNetBind.Send(packets[:n], to))
		packets = packets[n:]
	}
	return err
}

// equalSizes is how many packets have the size of the first.
func equalSizes(packets [][]byte) int {
	n := slices.IndexFunc(packets, func(p []byte) bool { return len(p) != len(packets[0]) })
	if n < 0 {
		return len(packets)
	}
	return n
}

// udpSockets digs out what the library hides. It offers no hook before or after it opens a socket; a bind of our own would
// repeat all of its batching and segmentation, and looking for the sockets among the files of the process could hit others.
// The test fails if a version of the library has them elsewhere, and Open says so.
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

// forbidFragments sets DF. PROBE and not DO: what is too big for the device's link is an error in both; of what is too big
// further on DO believes any ICMP, forged ones too, whereas we see the loss of our own probes.
func forbidFragments(s *net.UDPConn) error {
	level, option, value := unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_PROBE
	if s.LocalAddr().(*net.UDPAddr).IP.To4() != nil {
		level, option, value = unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_PROBE
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return fmt.Errorf("reaching a UDP socket: %w", err)
	}
	if ctrl := raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), level, option, value) }); ctrl != nil {
		err = ctrl
	}
	if err != nil {
		return fmt.Errorf("forbidding fragments of outer packets: %w", err)
	}
	return nil
}
