// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"fmt"
	"syscall"
	"testing"
)

// Port is a port of the loopback address for a server that a test starts, maybe again and again. Until the test ends, no
// connection is made from it.
func Port(t testing.TB) int {
	t.Helper()
	p, err := holdPort()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.release)
	return p.number
}

// heldPort is a socket that is bound and does not listen. The kernel gives its port to nobody who lets the kernel choose, to
// listen or to connect from; a server that names the port gets it, because Go sets SO_REUSEADDR, as is done here.
type heldPort struct{ number, socket int }

func holdPort() (heldPort, error) {
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return heldPort{}, fmt.Errorf("making a socket to hold a port: %w", err)
	}
	number, err := bindAnyPort(socket)
	if err != nil {
		_ = syscall.Close(socket)
		return heldPort{}, fmt.Errorf("holding a port: %w", err)
	}
	return heldPort{number, socket}, nil
}

func bindAnyPort(socket int) (int, error) {
	if err := syscall.SetsockoptInt(socket, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		return 0, err
	}
	if err := syscall.Bind(socket, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return 0, err
	}
	address, err := syscall.Getsockname(socket)
	if err != nil {
		return 0, err
	}
	return address.(*syscall.SockaddrInet4).Port, nil
}

func (p heldPort) release() { _ = syscall.Close(p.socket) }
