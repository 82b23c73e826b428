// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package wg

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// What a process does that is killed.
const (
	starts  = "start"
	removes = "remove"
)

// victim tells a process of this test which one it is: its network namespace, what it does, and before which write it is killed.
const victim = "LIQO_WG_VICTIM"

// TestProcessKilled kills a process between any two of its writes to the kernel. The next one does not mind.
func TestProcessKilled(t *testing.T) {
	if spec := os.Getenv(victim); spec != "" {
		live(t, spec)
		return
	}
	s := newTestPeer(t, "a", "192.0.2.1", "2001:db8::1", "169.254.18.1/30", "fd00:18::1/126")
	want := Config{MTU: 1340, PrivateKey: s.key, ListenPort: serverPort, Peers: []Peer{{PublicKey: newKey(t).Public()}}}
	for _, tc := range []struct {
		name, does string
		before     int // MTU of what an earlier process left; 0: nothing
		writes     int
	}{
		{"the first start", starts, 0, 7},
		{"a start on what is there", starts, 1300, 6}, // it is up
		{"the end", removes, 1300, 5},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for n := 1; ; n++ {
				index := 0
				if tc.before > 0 {
					earlier := want
					earlier.MTU = tc.before
					s.open()
					s.apply(earlier)
					index = s.index()
					s.close(t)
				}
				before := s.dies(t, tc.does, n)
				s.open()
				s.apply(want)
				if diff := cmp.Diff("up true, mtu 1340, persistent true, port 51840, 1 peers", s.is(t)); diff != "" {
					t.Errorf("after a kill before %q: %s", before, diff)
				}
				if is := s.index(); tc.does == starts && index > 0 && is != index {
					t.Errorf("after a kill before %q it is another link: %d, not %d", before, is, index)
				}
				s.do(func() error { return s.device.Remove() })
				s.do(func() error {
					if _, err := netlink.LinkByName(tunnelName); err == nil {
						t.Errorf("after a kill before %q and another end the link is there", before)
					}
					return nil
				})
				if before != "" {
					continue
				}
				if n != tc.writes+1 {
					t.Errorf("%d writes, want %d", n-1, tc.writes)
				}
				return
			}
		})
	}
}

// dies starts a process, and tells before which write it was killed; "" if it came to its end, which is sudden, too.
func (s *testPeer) dies(t *testing.T, does string, n int) (before string) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "-test.run=^TestProcessKilled$")
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %d", victim, s.name, does, n))
	var output strings.Builder
	cmd.Stderr = &output
	err = cmd.Run()
	if err == nil {
		return ""
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("a process that is to be killed: %v: %s", err, output.String())
	}
	return output.String()
}

// live is the life of such a process.
func live(t *testing.T, spec string) {
	var name, does string
	var n int
	if _, err := fmt.Sscan(spec, &name, &does, &n); err != nil {
		t.Fatal(err)
	}
	runtime.LockOSThread()
	ns, err := netns.GetFromPath(filepath.Join("/run/netns", name))
	if err == nil {
		err = netns.Set(ns)
	}
	if err != nil {
		t.Fatal(err)
	}
	d := &Device{name: tunnelName, impl: Userspace, log: quiet(), before: func(what string) {
		if n--; n == 0 {
			fmt.Fprint(os.Stderr, what)
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // the signal may take a moment
		}
	}}
	err = d.openEngine()
	if err == nil && does == starts {
		err = d.Apply(Config{MTU: 1340, PrivateKey: newKey(t), ListenPort: serverPort})
	}
	if err == nil && does == removes {
		err = d.Remove()
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (s *testPeer) close(t *testing.T) {
	t.Helper()
	if err := s.device.Close(); err != nil {
		t.Fatal(err)
	}
}

// is what there is of the device.
func (s *testPeer) is(t *testing.T) (out string) {
	t.Helper()
	s.do(func() error {
		link, err := netlink.LinkByName(tunnelName)
		if err != nil {
			return err
		}
		tun, ok := link.(*netlink.Tuntap)
		if !ok {
			return fmt.Errorf("it is a %s", link.Type())
		}
		status := s.status()
		out = fmt.Sprintf("up %t, mtu %d, persistent %t, port %d, %d peers", tun.LinkAttrs.Flags&net.FlagUp != 0, tun.MTU, !tun.NonPersist, status.ListenPort, len(status.Peers))
		return nil
	})
	return out
}
