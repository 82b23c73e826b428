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

// A namespace of the test's own, on a machine that lets it have one.
func namespace(t *testing.T) string {
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

func TestApplyingTwiceChangesNothing(t *testing.T) {
	name := namespace(t)
	config := Config{
		Sysctl:   []string{"net/ipv4/ip_forward=1", "-net/no/such/thing=1"},
		Commands: []string{"ip link set lo up", "ip link add br0 type bridge", "ip addr replace 192.0.2.1/24 dev br0", "ip link set br0 up"},
		Nftables: "table inet x\ndelete table inet x\ntable inet x {\n\tchain c {\n\t\ttype filter hook input priority 0; policy accept;\n\t}\n}\n",
	}
	var seen [2]string
	for i := range seen {
		if err := Apply(name, config); err != nil {
			t.Fatal(err)
		}
		var err error
		if seen[i], err = Output(name, "ip -o -4 addr show dev br0"); err != nil {
			t.Fatal(err)
		}
	}
	if seen[0] != seen[1] || !strings.Contains(seen[0], "192.0.2.1/24") {
		t.Errorf("first %q, then %q", seen[0], seen[1])
	}
}

func TestAnErrorShowsTheCommand(t *testing.T) {
	name := namespace(t)
	err := Apply(name, Config{Commands: []string{"ip link set nothing up"}})
	if err == nil || !strings.Contains(err.Error(), "ip -n "+name+" link set nothing up") {
		t.Errorf("got %v", err)
	}
}

func TestABrokenNamespaceIsReplaced(t *testing.T) {
	name := namespace(t)
	if err := os.WriteFile(folder+name, nil, 0o644); err != nil { // a killed `ip netns add` leaves an empty file
		t.Fatal(err)
	}
	if err := Ensure(name); err != nil || !Exists(name) {
		t.Errorf("not replaced: %v", err)
	}
}

func TestInsideIsElsewhere(t *testing.T) {
	name := namespace(t)
	if err := Ensure(name); err != nil {
		t.Fatal(err)
	}
	err := Do(name, func() error {
		links, err := net.Interfaces()
		if err == nil && len(links) > 0 && !alone(links) {
			return errors.New("the machine's interfaces are visible")
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// alone: a new namespace has a loopback, and on some kernels unused tunnel devices, but no cable.
func alone(links []net.Interface) bool {
	for _, l := range links {
		if l.Flags&net.FlagUp != 0 && l.Flags&net.FlagLoopback == 0 {
			return false
		}
	}
	return true
}

func TestRemoveEndsWhatRunsInside(t *testing.T) {
	name := namespace(t)
	if err := Ensure(name); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	if err := Do(name, func() error { return sleeper(ended) }); err != nil {
		t.Fatal(err)
	}
	if err := Remove(name); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Error("the process still runs")
	}
	if Exists(name) {
		t.Error("the namespace still exists")
	}
}
