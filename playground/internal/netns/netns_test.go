// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package netns

import (
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

// newNamespace returns the name of a namespace that does not exist, and removes the namespace after the test.
func newNamespace(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("network namespaces need root: run the tests as root")
	}
	const name = "pgnetns-t1"
	if err := Remove(name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = Remove(name) })
	return name
}

func TestApplyIsIdempotent(t *testing.T) {
	name := newNamespace(t)
	config := Config{
		Sysctl:   []string{"net/ipv4/ip_forward=1", "-net/no/such/thing=1"},
		Commands: []string{"ip link set lo up", "ip link add br0 type bridge", "ip addr replace 192.0.2.1/24 dev br0", "ip link set br0 up"},
		Nftables: "table inet x\ndelete table inet x\ntable inet x {\n\tchain c {\n\t\ttype filter hook input priority 0; policy accept;\n\t}\n}\n",
	}
	var addresses [2]string
	for i := range addresses {
		if err := Apply(name, config); err != nil {
			t.Fatal(err)
		}
		var err error
		if addresses[i], err = Output(name, "ip -o -4 addr show dev br0"); err != nil {
			t.Fatal(err)
		}
	}
	if addresses[0] != addresses[1] || !strings.Contains(addresses[0], "192.0.2.1/24") {
		t.Errorf("first %q, then %q", addresses[0], addresses[1])
	}
}

func TestErrorNamesCommand(t *testing.T) {
	name := newNamespace(t)
	err := Apply(name, Config{Commands: []string{"ip link set nothing up"}})
	if err == nil || !strings.Contains(err.Error(), "ip -n "+name+" link set nothing up") {
		t.Errorf("got %v", err)
	}
}

func TestEnsureReplacesPartialNamespace(t *testing.T) {
	name := newNamespace(t)
	if err := os.WriteFile(folder+name, nil, 0o644); err != nil { // a killed `ip netns add` leaves an empty file
		t.Fatal(err)
	}
	if err := Ensure(name); err != nil || !Exists(name) {
		t.Errorf("not replaced: %v", err)
	}
}

func TestDoRunsInNamespace(t *testing.T) {
	name := newNamespace(t)
	if err := Ensure(name); err != nil {
		t.Fatal(err)
	}
	err := Do(name, func() error {
		links, err := net.Interfaces()
		if err == nil && len(links) > 0 && !onlyLoopbackIsUp(links) {
			return errors.New("the machine's interfaces are visible")
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// onlyLoopbackIsUp reports whether no interface but the loopback is up. Some kernels create unused tunnel devices in new namespaces.
func onlyLoopbackIsUp(links []net.Interface) bool {
	for _, l := range links {
		if l.Flags&net.FlagUp != 0 && l.Flags&net.FlagLoopback == 0 {
			return false
		}
	}
	return true
}

func TestRemoveKillsProcesses(t *testing.T) {
	name := newNamespace(t)
	if err := Ensure(name); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	if err := Do(name, func() error { return startSleeper(ended) }); err != nil {
		t.Fatal(err)
	}
	if err := Remove(name); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("the process is still running")
	}
	if Exists(name) {
		t.Error("the namespace still exists")
	}
}
