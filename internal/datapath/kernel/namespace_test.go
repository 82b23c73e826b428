// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"liqo.io/liqo/internal/datapath"
)

// namespaces are numbered through this test binary.
var namespaces atomic.Int32

// testNamespace is a network namespace without an uplink.
type testNamespace struct {
	name   string
	handle netns.NsHandle
	*netlink.Handle
}

func newTestNamespace(tb testing.TB) *testNamespace {
	tb.Helper()
	s := &testNamespace{name: fmt.Sprintf("lqk-%d-%d", os.Getpid(), namespaces.Add(1))}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	home, err := netns.Get()
	fatal(tb, err)
	defer home.Close()
	s.handle, err = netns.NewNamed(s.name)
	fatal(tb, err)
	tb.Cleanup(func() {
		s.handle.Close()
		if err := netns.DeleteNamed(s.name); err != nil {
			tb.Error(err)
		}
	})
	// What a namespace forwards and takes is its own.
	for _, set := range []string{"net/ipv4/ip_forward=1", "net/ipv6/conf/all/forwarding=1", "net/ipv6/conf/default/accept_dad=0", "net/netfilter/nf_conntrack_log_invalid=0"} {
		path, value, _ := strings.Cut(set, "=")
		if err := os.WriteFile(filepath.Join("/proc/sys", path), []byte(value), 0o644); err != nil && !os.IsNotExist(err) {
			tb.Fatal(err)
		}
	}
	fatal(tb, netns.Set(home))
	s.Handle, err = netlink.NewHandleAt(s.handle)
	fatal(tb, err)
	tb.Cleanup(s.Handle.Close)
	s.up(tb, "lo")
	return s
}

func (s *testNamespace) path() string { return filepath.Join("/run/netns", s.name) }

// inside runs f on a thread of the namespace, which ends with it.
func (s *testNamespace) inside(tb testing.TB, f func() error) {
	tb.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: nobody else gets this thread
		err := netns.Set(s.handle)
		if err == nil {
			err = f()
		}
		done <- err
	}()
	fatal(tb, <-done)
}

func (s *testNamespace) link(tb testing.TB, name string) netlink.Link {
	tb.Helper()
	l, err := s.LinkByName(name)
	fatal(tb, err)
	return l
}

func (s *testNamespace) up(tb testing.TB, name string) {
	tb.Helper()
	fatal(tb, s.LinkSetUp(s.link(tb, name)))
}

// device is one that is there and up. Its other end is there, too.
func (s *testNamespace) device(tb testing.TB, name string, addresses ...string) netlink.Link {
	tb.Helper()
	fatal(tb, s.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: name + "-end"}))
	for _, end := range []string{name, name + "-end"} { // the kernel gives them no address when it likes
		fatal(tb, s.LinkSetIP6AddrGenMode(s.link(tb, end), 1))
	}
	s.address(tb, name, addresses...)
	s.up(tb, name)
	s.up(tb, name+"-end")
	return s.link(tb, name)
}

func (s *testNamespace) address(tb testing.TB, device string, addresses ...string) {
	tb.Helper()
	for _, a := range addresses {
		fatal(tb, s.AddrAdd(s.link(tb, device), &netlink.Addr{IPNet: ipNet(a), Flags: 2 /* no duplicate address detection */}))
	}
}

func (s *testNamespace) route(tb testing.TB, to, via, device string) {
	tb.Helper()
	r := &netlink.Route{Dst: ipNet(to), Table: 254}
	if via != "" {
		r.Gw = net.IP(netip.MustParseAddr(via).AsSlice())
	}
	r.LinkIndex = s.link(tb, device).Attrs().Index
	fatal(tb, s.RouteAdd(r))
}

// connect makes a cable between two namespaces.
func connect(tb testing.TB, a *testNamespace, nameA string, b *testNamespace, nameB string) {
	tb.Helper()
	fatal(tb, a.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: nameA}, PeerName: nameB, PeerNamespace: netlink.NsFd(int(b.handle))}))
	a.up(tb, nameA)
	b.up(tb, nameB)
}

func (s *testNamespace) open(tb testing.TB) *Kernel {
	tb.Helper()
	return s.openWith(tb, Options{})
}

func (s *testNamespace) openWith(tb testing.TB, o Options) *Kernel {
	tb.Helper()
	o.Namespace = s.path()
	k, err := Open(o)
	fatal(tb, err)
	tb.Cleanup(func() { k.Close() })
	return k
}

func (k *Kernel) mustApply(tb testing.TB, want datapath.State) Changes {
	tb.Helper()
	c, err := k.Apply(context.Background(), want)
	fatal(tb, err)
	return c
}

func (k *Kernel) mustObserve(tb testing.TB) string {
	tb.Helper()
	s, err := k.Observe()
	fatal(tb, err)
	return s.String()
}

func ipNet(s string) *net.IPNet {
	p := netip.MustParsePrefix(s)
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

func fatal(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
