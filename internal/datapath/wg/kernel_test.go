// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package wg

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

const (
	named = "100002006c69716f2d74756e6e656c00"
	peerA = "24000100aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	// keyed and joined are a new private key and port, and a new peer.
	keyed  = named + "2400030048020202020202020202020202020202020202020202020202020202020202" + "420600060080ca0000"
	joined = named + "900008808c000080" + peerA + "140004000200ca80c0000202000000000000000006000500140000004800098" +
		"01c0000800600010002000000080002000a470000050003001000000028000180060001000a00000014000200fd000018000000000000000000000000050003007e000000"
	left = named + "3400088030000080" + peerA + "0800030001000000"
)

// The requests are what wgctrl, the reference client, sends for the same changes: recorded, not run here. The attributes of
// WireGuard's netlink family are little-endian on the machines this was recorded for.
func TestNetlinkReference(t *testing.T) {
	port, mark, keepalive := uint16(51840), uint32(27761), 20*time.Second
	for name, tc := range map[string]struct {
		change configChange
		want   string
	}{
		"device": {
			configChange{privateKey: &secret, listenPort: &port},
			keyed,
		},
		"mark": {
			configChange{mark: &mark},
			named + "08000700716c0000",
		},
		"new peer": {
			configChange{peers: []peerChange{{key: keyA, endpoint: home, keepalive: &keepalive, add: nets("10.71.0.0/16", "fd00:18::/126")}}},
			joined,
		},
		"IPv6 endpoint": {
			configChange{peers: []peerChange{{key: keyA, endpoint: netip.MustParseAddrPort("[2001:db8::2]:51840")}}},
			named + "4c00088048000080" + peerA + "200004000a00ca800000000020010db800000000000000000000000200000000",
		},
		"prefixes replaced": {
			configChange{peers: []peerChange{{key: keyA, allowedIPs: nets("10.71.0.0/16"), drop: nets("10.68.0.0/16")}}},
			named + "5400088050000080" + peerA + "0800030002000000200009801c0000800600010002000000080002000a4700000500030010000000",
		},
		"removed": {
			configChange{peers: []peerChange{{key: keyA, remove: true}}},
			left,
		},
	} {
		var got []string
		for _, m := range splitMessages(tunnelName, tc.change) {
			got = append(got, serialized(m))
		}
		if diff := cmp.Diff([]string{tc.want}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// The whole of a Config reaches a kernel that has nothing yet as those same requests, the smallest change reaches one that has some of it,
// and nothing one that has it all. The kernel is played by one that says what it was told: requests and answers have the same attributes.
func TestNetlinkRequests(t *testing.T) {
	s := newTestPeer(t, "k", "192.0.2.1", "2001:db8::1", "169.254.18.1/30", "fd00:18::1/126")
	requests, told := []string{named}, []string(nil)
	engine := &kernelEngine{name: tunnelName, call: func(command uint8, flags int, attrs []*nl.RtAttr) ([][]byte, error) {
		if command == unix.WG_CMD_SET_DEVICE && flags == unix.NLM_F_ACK {
			told = append(told, serialized(attrs))
			return nil, nil
		}
		var response [][]byte
		for _, text := range requests {
			data, err := hex.DecodeString("00010000" + text)
			if err != nil {
				return nil, err
			}
			response = append(response, data)
		}
		return response, nil
	}}
	s.device = &Device{name: tunnelName, impl: Kernel, log: quiet(), engine: engine}
	s.do(func() error {
		return netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: tunnelName}, PeerName: "x1"})
	})
	_, want := running()
	want.Peers[0].AllowedIPs = nets("fd00:18::/126", "10.71.0.0/16")
	none := want
	none.Peers = nil
	for _, step := range []struct {
		what string
		said []string
		want Config
		told []string
	}{
		{"nothing yet", []string{named}, want, []string{keyed, joined}},
		{"all of it", []string{keyed, joined}, want, nil},
		{"no peer", []string{keyed}, want, []string{joined}},
		{"one that is not wanted", []string{keyed, joined}, none, []string{left}},
	} {
		requests, told = step.said, nil
		s.apply(step.want)
		if diff := cmp.Diff(step.told, told); diff != "" {
			t.Errorf("a kernel that has %s is told (-want +got):\n%s", step.what, diff)
		}
	}
	s.do(func() error {
		link, err := netlink.LinkByName(tunnelName)
		if err == nil && (link.Attrs().MTU != want.MTU || link.Attrs().Flags&net.FlagUp == 0) {
			err = fmt.Errorf("the link has MTU %d and flags %s", link.Attrs().MTU, link.Attrs().Flags)
		}
		return err
	})
}

func serialized(attrs []*nl.RtAttr) string {
	var out []byte
	for _, a := range attrs {
		out = append(out, a.Serialize()...)
	}
	return hex.EncodeToString(out)
}

func TestNetlinkManyPrefixes(t *testing.T) {
	var many []netip.Prefix
	for i := range 2500 {
		many = append(many, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 0}), 24))
	}
	sent := splitMessages(tunnelName, configChange{peers: []peerChange{{key: keyA, allowedIPs: many, drop: nets("10.0.0.0/8")}}})
	var got []netip.Prefix
	for i, m := range sent {
		data, err := hex.DecodeString(serialized(m))
		if err != nil {
			t.Fatal(err)
		}
		if len(data) > 1<<16 {
			t.Errorf("message %d has %d bytes", i, len(data))
		}
		s, err := parseDump([][]byte{append([]byte{0, 1, 0, 0}, data...)})
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, s.peers[keyA].allowedIPs...)
		if replaces := strings.Contains(hex.EncodeToString(data[:80]), "0800030002000000"); replaces != (i == 0) {
			t.Errorf("message %d replaces = %v: only the first may", i, replaces)
		}
	}
	if diff := cmp.Diff(many, got, exact...); diff != "" {
		t.Errorf("prefixes (-want +got):\n%s", diff)
	}
}

// dump is two messages of one answer, attributes in the order in which the kernel writes them; peer A does not fit into the
// first. The reference client reads the same from them.
var dump = []string{
	"00010000" + "0600060080ca0000" + "08000700716c0000" + "0800010007000000" + "100002006c69716f2d74756e6e656c00" +
		"2400030048" + strings.Repeat("02", 30) + "42" + "24000400" + strings.Repeat("09", 32) +
		"c0000880bc000080" + "24000100" + strings.Repeat("aa", 32) + "24000200" + strings.Repeat("00", 32) +
		"1400060000f15365000000000500000000000000" + "0600050014000000" + "0c0008000b00000000000000" + "0c0007001600000000000000" + "08000a0001000000" +
		"140004000200ca80c00002020000000000000000" + "200009801c00008005000300100000000600010002000000080002000a470000",
	"00010000" + "a801088070000080" + "24000100" + strings.Repeat("aa", 32) +
		"480009801c00008005000300100000000600010002000000080002000a440000" + "28000080050003007e000000060001000a00000014000200fd000018000000000000000000000000" +
		"a8000080" + "24000100" + strings.Repeat("bb", 32) + "24000200" + strings.Repeat("00", 32) +
		"1400060000000000000000000000000000000000" + "0600050000000000" + "0c0008000000000000000000" + "0c0007000000000000000000" + "08000a0001000000" +
		"200004000a00ca800000000020010db800000000000000000000000200000000" +
		"8c000080" + "24000100" + strings.Repeat("cc", 32) + "24000200" + strings.Repeat("00", 32) +
		"1400060000000000000000000000000000000000" + "0600050000000000" + "0c0008000000000000000000" + "0c0007000000000000000000" + "08000a0001000000" + "04000980",
}

func answer(t testing.TB) [][]byte {
	t.Helper()
	var out [][]byte
	for _, text := range dump {
		data, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, data)
	}
	return out
}

func TestNetlinkStatus(t *testing.T) {
	got, err := parseDump(answer(t))
	if err != nil {
		t.Fatal(err)
	}
	keyC := PublicKey([]byte(strings.Repeat("\xcc", 32)))
	want := deviceState{privateKey: secret, listenPort: 51840, mark: 27761, peers: map[PublicKey]peerState{
		keyA: {
			PeerStatus: PeerStatus{PublicKey: keyA, Endpoint: home, LastHandshake: time.Unix(1700000000, 5), Received: 22, Sent: 11},
			allowedIPs: nets("10.71.0.0/16", "10.68.0.0/16", "fd00:18::/126"), keepalive: 20 * time.Second,
		},
		keyB: {PeerStatus: PeerStatus{PublicKey: keyB, Endpoint: netip.MustParseAddrPort("[2001:db8::2]:51840")}},
		keyC: {PeerStatus: PeerStatus{PublicKey: keyC}},
	}}
	if diff := cmp.Diff(want, got, exact...); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The kernel is played by one that answers with the dump and writes down what it is told.
func TestKernelDevice(t *testing.T) {
	var requests []string
	engine := &kernelEngine{name: tunnelName, call: func(command uint8, flags int, attrs []*nl.RtAttr) ([][]byte, error) {
		if command == unix.WG_CMD_GET_DEVICE && flags == unix.NLM_F_DUMP {
			return answer(t), nil
		}
		requests = append(requests, fmt.Sprintf("%d %x %s", command, flags, serialized(attrs)[:40]))
		return nil, nil
	}}
	d := &Device{name: tunnelName, impl: Kernel, log: quiet(), engine: engine}
	status, err := d.Observe()
	if err != nil || len(status.Peers) != 3 || status.Peers[0].PublicKey != keyA {
		t.Fatalf("status %+v, %v", status, err)
	}
	if err := d.Restart(keyA); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"1 4 100002006c69716f2d74756e6e656c0034000880", // removed
		"1 4 100002006c69716f2d74756e6e656c00ac000880", // made again
	}
	if diff := cmp.Diff(want, requests); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
	if err := d.Restart(PublicKey{7}); err == nil {
		t.Error("a peer that does not exist was restarted")
	}
	requests = nil
	if err := d.Keep(keyA); err != nil || len(requests) != 2 {
		t.Errorf("to remove two of three peers the kernel was told %v, %v", requests, err)
	}
	engine.call = func(uint8, int, []*nl.RtAttr) ([][]byte, error) { return nil, unix.ENODEV }
	if _, err := d.Observe(); !errors.Is(err, errGone) {
		t.Errorf("a link that was deleted: %v", err)
	}
}

func FuzzParseDump(f *testing.F) {
	for _, message := range answer(f) {
		f.Add(message)
	}
	f.Fuzz(func(t *testing.T, message []byte) {
		if _, err := parseDump([][]byte{message}); err != nil && !strings.HasPrefix(err.Error(), "reading the state") {
			t.Errorf("an error without context: %v", err)
		}
	})
}
