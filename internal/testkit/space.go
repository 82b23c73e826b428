// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// spaces numbers the network namespaces of this test binary.
var spaces atomic.Int32

// Space is a network namespace without an uplink. It takes root to make one.
type Space struct {
	// Path is what others open it by.
	Path string
	*netlink.Handle

	handle netns.NsHandle
}

// NewSpace makes a network namespace whose name begins with prefix. It goes when the test ends.
func NewSpace(t testing.TB, prefix string) *Space {
	t.Helper()
	name := fmt.Sprintf("%s-%d-%d", prefix, os.Getpid(), spaces.Add(1))
	s := &Space{Path: filepath.Join("/run/netns", name)}
	err := threaded(func() (err error) {
		s.handle, err = netns.NewNamed(name) // which moves this thread there
		return err
	})
	if err != nil {
		t.Fatalf("making network namespace %s: %v", name, err)
	}
	t.Cleanup(func() {
		if err := errors.Join(s.handle.Close(), netns.DeleteNamed(name)); err != nil {
			t.Errorf("removing network namespace %s: %v", name, err)
		}
	})
	if s.Handle, err = netlink.NewHandleAt(s.handle); err != nil {
		t.Fatalf("opening a netlink socket: %v", err)
	}
	t.Cleanup(s.Handle.Close)
	s.Up(t, "lo", true)
	return s
}

// threaded runs f on a thread that ends with it, like whatever f changed of the thread.
func threaded(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		done <- f()
	}()
	return <-done
}

// Inside runs f in the namespace.
func (s *Space) Inside(f func() error) error {
	return threaded(func() error {
		if err := netns.Set(s.handle); err != nil {
			return fmt.Errorf("entering a network namespace: %w", err)
		}
		return f()
	})
}

// Cable joins two namespaces by a device eth0 in each, with these addresses.
func Cable(t testing.TB, a *Space, addressA string, b *Space, addressB string) {
	t.Helper()
	veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "eth0"}, PeerName: "eth0", PeerNamespace: netlink.NsFd(int(b.handle))}
	if err := a.LinkAdd(veth); err != nil {
		t.Fatalf("making a cable: %v", err)
	}
	for s, address := range map[*Space]string{a: addressA, b: addressB} {
		addr, err := netlink.ParseAddr(address)
		if err != nil {
			t.Fatalf("reading %s: %v", address, err)
		}
		if err := s.AddrAdd(s.Link(t, "eth0"), addr); err != nil {
			t.Fatalf("adding %s: %v", address, err)
		}
		s.Up(t, "eth0", true)
	}
}

// Link is a device.
func (s *Space) Link(t testing.TB, name string) netlink.Link {
	t.Helper()
	l, err := s.LinkByName(name)
	if err != nil {
		t.Fatalf("finding %s: %v", name, err)
	}
	return l
}

// Up brings a device up, or down.
func (s *Space) Up(t testing.TB, name string, up bool) {
	t.Helper()
	set := s.LinkSetDown
	if up {
		set = s.LinkSetUp
	}
	if err := set(s.Link(t, name)); err != nil {
		t.Fatalf("bringing %s up (%t): %v", name, up, err)
	}
}

// Route adds a route to the main table, as somebody else.
func (s *Space) Route(t testing.TB, to, device string) {
	t.Helper()
	p := netip.MustParsePrefix(to)
	dst := &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
	if err := s.RouteAdd(&netlink.Route{Dst: dst, LinkIndex: s.Link(t, device).Attrs().Index}); err != nil {
		t.Fatalf("adding a route to %s: %v", to, err)
	}
}

// Lose drops packets of more than so many bytes that come in by a device, until it is mended. It does so as somebody else, before
// anything of ours.
func (s *Space) Lose(t testing.TB, device string, above uint16) (restore func()) {
	t.Helper()
	return s.lose(t, nftables.ChainHookPrerouting, expr.MetaKeyIIFNAME, device, above)
}

// LoseForwarded is Lose for packets that are passed on to a device, and not for those of the namespace itself.
func (s *Space) LoseForwarded(t testing.TB, device string, above uint16) (restore func()) {
	t.Helper()
	return s.lose(t, nftables.ChainHookForward, expr.MetaKeyOIFNAME, device, above)
}

func (s *Space) lose(t testing.TB, hook *nftables.ChainHook, by expr.MetaKey, device string, above uint16) (restore func()) {
	t.Helper()
	space, err := os.Open(s.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer space.Close()
	c, err := nftables.New(nftables.WithNetNSFd(int(space.Fd())), nftables.AsLasting())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.CloseLasting() })
	table := c.AddTable(&nftables.Table{Family: nftables.TableFamilyIPv4, Name: "loss"})
	chain := c.AddChain(&nftables.Chain{
		Table: table, Name: "loss", Type: nftables.ChainTypeFilter, Hooknum: hook, Priority: nftables.ChainPriorityRef(-500),
	})
	c.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: []expr.Any{
		&expr.Meta{Key: by, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: append([]byte(device), make([]byte, unix.IFNAMSIZ-len(device))...)},
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: 2, Len: 2}, // the length of all of it
		&expr.Cmp{Op: expr.CmpOpGt, Register: 1, Data: binary.BigEndian.AppendUint16(nil, above)},
		&expr.Verdict{Kind: expr.VerdictDrop},
	}})
	if err := c.Flush(); err != nil {
		t.Fatalf("having packets get lost: %v", err)
	}
	return func() {
		t.Helper()
		c.DelTable(table)
		if err := c.Flush(); err != nil {
			t.Fatalf("having no more packets get lost: %v", err)
		}
	}
}
