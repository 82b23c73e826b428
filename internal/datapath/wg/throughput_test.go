// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package wg

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.zx2c4.com/wireguard/conn"
	"golang.zx2c4.com/wireguard/device"
	"golang.zx2c4.com/wireguard/tun"
)

// BenchmarkThroughput compares this package with the bare library. Both ends run in this process: memory is that of two
// gateways.
func BenchmarkThroughput(b *testing.B) {
	for _, streams := range []int{1, 4} {
		b.Run(fmt.Sprintf("device/streams=%d", streams), func(b *testing.B) {
			x, y := tunnelUp(b)
			throughput(b, x, y, streams)
		})
		b.Run(fmt.Sprintf("library/streams=%d", streams), func(b *testing.B) {
			x, y := newTestPeers(b)
			bare(b, x, server(x, y))
			bare(b, y, client(x, y))
			throughput(b, x, y, streams)
		})
	}
}

// bare is a device of the library alone. It does not watch the link: that would move it to the namespace of another thread.
func bare(b *testing.B, s *testPeer, c Config) {
	b.Helper()
	s.do(func() error {
		fd, err := attachTUN(tunnelName, nil)
		if err != nil {
			return err
		}
		t, _, err := tun.CreateUnmonitoredTUNFromFD(fd)
		if err != nil {
			return err
		}
		d := device.NewDevice(t, conn.NewStdNetBind(), device.NewLogger(device.LogLevelSilent, ""))
		b.Cleanup(d.Close)
		return errors.Join(setMTU(tunnelName, c.MTU, nil), d.IpcSet(encodeUAPI(diffConfig(deviceState{}, nil, c))), d.Up(),
			addAddresses(tunnelName, s.inner[0]), setUp(tunnelName, nil))
	})
}

func throughput(b *testing.B, from, to *testPeer, streams int) {
	const block = 1 << 20
	var l net.Listener
	to.do(func() (err error) {
		l, err = net.Listen("tcp", netip.AddrPortFrom(to.inner[0].Addr(), 0).String())
		return err
	})
	defer l.Close()
	var got sync.WaitGroup
	got.Go(func() {
		for range streams {
			c, err := l.Accept()
			if err != nil {
				b.Error(err)
				return
			}
			got.Go(func() { _, _ = io.Copy(io.Discard, c) })
		}
	})
	conns := make([]net.Conn, streams)
	for i := range conns {
		conns[i] = from.dial(l.Addr().(*net.TCPAddr).AddrPort())
	}
	stop := make(chan struct{})
	var peak uint64
	var watch sync.WaitGroup
	watch.Go(func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			peak = max(peak, resident(b))
			select {
			case <-stop:
				return
			case <-tick.C:
			}
		}
	})
	blocks := make(chan struct{}, b.N)
	for range b.N {
		blocks <- struct{}{}
	}
	close(blocks)
	b.SetBytes(block)
	b.ResetTimer()
	var sent sync.WaitGroup
	for _, c := range conns {
		sent.Go(func() {
			data := make([]byte, block)
			for range blocks {
				if _, err := c.Write(data); err != nil {
					b.Error(err)
					return
				}
			}
			_ = c.Close()
		})
	}
	sent.Wait()
	got.Wait()
	b.StopTimer()
	close(stop)
	watch.Wait()
	b.ReportMetric(float64(b.N)*block*8/1e9/b.Elapsed().Seconds(), "Gb/s")
	b.ReportMetric(float64(peak)/(1<<20), "peak-MiB")
}

// resident is the memory of this process, in bytes.
func resident(b *testing.B) uint64 {
	data, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		b.Error(err)
		return 0
	}
	pages, err := strconv.ParseUint(strings.Fields(string(data))[1], 10, 64)
	if err != nil {
		b.Error(err)
	}
	return pages * uint64(os.Getpagesize())
}
