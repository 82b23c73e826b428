// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package wg

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
	"golang.zx2c4.com/wireguard/tun"
)

const cloneDevice = "/dev/net/tun"

// atOnce limits the number of pending packets read together. The library wakes its goroutines once for a batch, and sends packets of one size by one
// system call, as segments. The remaining 112 of the library's 128 slots are for the segments of one packet of 64 KiB; segments of less than 585
// bytes need more. TCP uses segments below 585 bytes only for peers without an announced MSS.
const atOnce = 16

// tunDevice is the library's TUN without the monitoring of the link: the caller of Apply knows MTU and state of the link, and monitoring would
// start the device before its configuration.
type tunDevice struct {
	tun.Device
	log    *slog.Logger
	before writeHook
	mtu    atomic.Int64
	events chan tun.Event

	closing sync.Mutex // the library closes the device, too, when the link is deleted
	closed  bool

	out     windowGate     // for packets read from the TUN
	in      *receiveWindow // for packets written to the TUN
	waiting func() bool    // reports whether a read returns immediately
}

// openTunnel attaches to the persistent TUN of a name, or creates the TUN. Offloads are on: segments of up to 64 KiB cross the TUN.
func openTunnel(name string, log *slog.Logger, before writeHook) (*tunDevice, error) {
	fd, err := attachTUN(name, before)
	if err != nil {
		return nil, err
	}
	before.beforeWrite("turning offloads on")
	inner, _, err := tun.CreateUnmonitoredTUNFromFD(fd) // owns fd and sets non-blocking reads
	if err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("preparing the TUN: %w", err)
	}
	t := &tunDevice{Device: inner, log: log, before: before, events: make(chan tun.Event, 1)}
	if t.waiting, err = pollReadable(inner.File()); err != nil {
		_ = inner.Close()
		return nil, err
	}
	mtu, err := inner.MTU()
	if err == nil {
		t.mtu.Store(int64(mtu))
		err = t.setPersistent(true)
	}
	if err != nil {
		_ = inner.Close()
		return nil, err
	}
	return t, nil
}

func attachTUN(name string, before writeHook) (int, error) {
	ifr, err := unix.NewIfreq(name)
	if err != nil {
		return 0, fmt.Errorf("naming the TUN: %w", err)
	}
	fd, err := unix.Open(cloneDevice, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("opening %s: %w", cloneDevice, err)
	}
	ifr.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI | unix.IFF_VNET_HDR)
	before.beforeWrite("attaching to the TUN")
	err = unix.IoctlIfreq(fd, unix.TUNSETIFF, ifr)
	if err == nil {
		return fd, nil
	}
	_ = unix.Close(fd)
	switch {
	case errors.Is(err, unix.EBUSY):
		return 0, fmt.Errorf("attaching to the TUN: another process has it: %w", err)
	case errors.Is(err, unix.EINVAL):
		return 0, fmt.Errorf("attaching to the TUN: the link exists and is of another kind: %w", err)
	default:
		return 0, fmt.Errorf("attaching to the TUN: %w", err)
	}
}

// pollReadable returns a function that reports whether the file is readable.
func pollReadable(f *os.File) (func() bool, error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("reaching the TUN: %w", err)
	}
	ask := make([]unix.PollFd, 1)
	poll := func(fd uintptr) {
		ask[0] = unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}
		_, _ = unix.Poll(ask, 0) // an error of poll says nothing about the file
	}
	return func() bool {
		ask[0].Revents = 0
		return conn.Control(poll) == nil && ask[0].Revents&unix.POLLIN != 0
	}, nil
}

// setPersistent sets whether the link outlives this process.
func (t *tunDevice) setPersistent(on bool) error {
	flag := 0
	if on {
		flag = 1
	}
	conn, err := t.File().SyscallConn()
	if err != nil {
		return fmt.Errorf("reaching the TUN: %w", err)
	}
	t.before.beforeWrite("making the TUN persistent or not")
	if ctrl := conn.Control(func(fd uintptr) { err = unix.IoctlSetInt(int(fd), unix.TUNSETPERSIST, flag) }); ctrl != nil {
		err = ctrl
	}
	if err != nil {
		return fmt.Errorf("making the TUN persistent or not: %w", err)
	}
	return nil
}

// reportMTU notifies the library of a changed MTU.
func (t *tunDevice) reportMTU(mtu int) {
	t.closing.Lock()
	defer t.closing.Unlock()
	if t.mtu.Swap(int64(mtu)) != int64(mtu) && !t.closed {
		t.events <- tun.EventMTUUpdate
	}
}

func (t *tunDevice) MTU() (int, error)        { return int(t.mtu.Load()), nil }
func (t *tunDevice) Events() <-chan tun.Event { return t.events }

// Read reads all pending packets, up to atOnce: the TUN returns one at a time. Read hides errors of bad packets from the library: the library ends
// the device on every error except too many segments.
func (t *tunDevice) Read(bufs [][]byte, sizes []int, offset int) (int, error) {
	t.out.beforeRead(bufs)
	n, err := t.Device.Read(bufs, sizes, offset)
	for err == nil && n > 0 && n < atOnce && t.waiting() {
		var more int
		more, err = t.Device.Read(bufs[n:], sizes[n:], offset)
		n += more
	}
	t.out.afterRead(bufs, n, func(int) bool { return true })
	_, broken := errors.AsType[*fs.PathError](err)
	if err == nil || broken || errors.Is(err, os.ErrClosed) || errors.Is(err, tun.ErrTooManySegments) {
		return n, err
	}
	t.log.Debug("packet from the TUN dropped", "error", err)
	return n, nil
}

func (t *tunDevice) Write(bufs [][]byte, offset int) (int, error) {
	defer t.in.removeInFlight(len(bufs))
	return t.Device.Write(bufs, offset)
}

func (t *tunDevice) Close() error {
	t.closing.Lock()
	defer t.closing.Unlock()
	if t.closed {
		return nil
	}
	t.closed = true
	close(t.events)
	return t.Device.Close()
}
