// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package wg

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// icmpErrors reports ICMP errors about sent packets: nothing receives at the endpoint of a peer, or no route leads there. Anyone can forge such errors:
// they must not disturb the device.
type icmpErrors struct {
	report atomic.Pointer[func()] // nil: the sockets report no errors
}

// enableReports has the kernel queue the ICMP errors of a socket (IP_RECVERR, see ip(7)). Each queued error also fails one call on the socket.
func (e *icmpErrors) enableReports(s *net.UDPConn) error {
	if !e.isEnabled() {
		return nil
	}
	level, option := unix.IPPROTO_IPV6, unix.IPV6_RECVERR
	if isIPv4(s) {
		level, option = unix.IPPROTO_IP, unix.IP_RECVERR
	}
	if err := setOption(s, level, option, 1); err != nil {
		return fmt.Errorf("having ICMP errors reported: %w", err)
	}
	return nil
}

func (e *icmpErrors) isEnabled() bool { return e.report.Load() != nil }

// errnosOfICMP lists the errors to which the kernel converts ICMP errors.
var errnosOfICMP = []error{
	unix.ECONNREFUSED, unix.EHOSTUNREACH, unix.ENETUNREACH, unix.EHOSTDOWN, unix.ENONET, unix.ENOPROTOOPT, unix.EOPNOTSUPP, unix.EACCES, unix.EPROTO, unix.EMSGSIZE,
}

// isCause reports whether a call on one of the sockets may have failed because of an ICMP error, and not by itself.
func (e *icmpErrors) isCause(err error) bool {
	return err != nil && e.isEnabled() && slices.ContainsFunc(errnosOfICMP, func(errno error) bool { return errors.Is(err, errno) })
}

// maxErrors limits the errors read at a time: an attacker may send any number.
const maxErrors = 64

// drainErrors removes the queued errors of the sockets, which take room in the receive buffers, and reports that an endpoint is unreachable if one of
// the errors says so.
func (e *icmpErrors) drainErrors(sockets []*net.UDPConn) {
	unreachable := false
	for _, s := range sockets {
		raw, err := s.SyscallConn()
		if err != nil {
			continue // closed
		}
		_ = raw.Control(func(fd uintptr) {
			control := make([]byte, 512)
			for range maxErrors {
				_, n, _, _, err := unix.Recvmsg(int(fd), nil, control, unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT)
				if err != nil {
					return
				}
				unreachable = unreachable || saysUnreachable(control[:n])
			}
		})
	}
	if report := e.report.Load(); unreachable && report != nil {
		(*report)()
	}
}

// saysUnreachable reports whether the control message of a queued error has an ICMP error other than "too big". It begins with struct
// sock_extended_err of linux/errqueue.h: errno in 32 bits, then the origin in 8.
func saysUnreachable(control []byte) bool {
	messages, err := unix.ParseSocketControlMessage(control)
	return err == nil && slices.ContainsFunc(messages, func(m unix.SocketControlMessage) bool {
		v4 := m.Header.Level == unix.IPPROTO_IP && m.Header.Type == unix.IP_RECVERR
		v6 := m.Header.Level == unix.IPPROTO_IPV6 && m.Header.Type == unix.IPV6_RECVERR
		if !v4 && !v6 || len(m.Data) < 5 || unix.Errno(binary.NativeEndian.Uint32(m.Data)) == unix.EMSGSIZE {
			return false
		}
		return m.Data[4] == unix.SO_EE_ORIGIN_ICMP || m.Data[4] == unix.SO_EE_ORIGIN_ICMP6
	})
}

func isIPv4(s *net.UDPConn) bool { return s.LocalAddr().(*net.UDPAddr).IP.To4() != nil }

func setOption(s *net.UDPConn, level, option, value int) error {
	raw, err := s.SyscallConn()
	if err != nil {
		return fmt.Errorf("reaching a UDP socket: %w", err)
	}
	if ctrl := raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), level, option, value) }); ctrl != nil {
		return ctrl
	}
	return err
}
