// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package wg

import (
	"bytes"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var (
	keyA, keyB = PublicKey(bytes.Repeat([]byte{0xaa}, 32)), PublicKey(bytes.Repeat([]byte{0xbb}, 32))
	secret     = PrivateKey(append(append([]byte{0x48}, bytes.Repeat([]byte{2}, 30)...), 0x42))
	home       = netip.MustParseAddrPort("192.0.2.2:51840")
	away       = netip.MustParseAddrPort("198.51.100.9:1234")
)

func nets(texts ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, text := range texts {
		out = append(out, netip.MustParsePrefix(text))
	}
	return out
}

// running is a device with peer A as the Config below has it, but roamed away.
func running() (deviceState, Config) {
	want := Config{MTU: 1340, PrivateKey: secret, ListenPort: 51840, Peers: []Peer{
		{PublicKey: keyA, Endpoint: home, AllowedIPs: nets("10.71.0.0/16", "fd00::/64"), Keepalive: 20 * time.Second},
	}}
	got := deviceState{privateKey: secret, listenPort: 51840, peers: map[PublicKey]peerState{keyA: {
		PeerStatus: PeerStatus{PublicKey: keyA, Endpoint: away}, allowedIPs: nets("fd00::/64", "10.71.0.0/16"), keepalive: 20 * time.Second,
	}}}
	return got, want
}

func TestMinimalConfigChange(t *testing.T) {
	for name, tc := range map[string]struct {
		edit func(*deviceState, *Config) *applied // nil = the Config as it was before edit
		want string
	}{
		"nothing changed": {func(*deviceState, *Config) *applied { return nil }, ""},
		"order, duplicates and host bits of prefixes": {func(_ *deviceState, c *Config) *applied {
			c.Peers[0].AllowedIPs = nets("fd00::1/64", "10.71.2.3/16", "10.71.0.0/16")
			return nil
		}, ""},
		"a learned endpoint stays": {func(_ *deviceState, c *Config) *applied {
			c.Peers[0].Endpoint = netip.AddrPort{}
			return nil
		}, ""},
		"a new endpoint is set": {func(_ *deviceState, c *Config) *applied {
			c.Peers[0].Endpoint = netip.MustParseAddrPort("192.0.2.3:51840")
			return nil
		}, "peer A\n endpoint 192.0.2.3:51840\n"},
		"endpoint without applied state": {func(*deviceState, *Config) *applied {
			return &applied{listenPort: 51840}
		}, "peer A\n endpoint 192.0.2.2:51840\n"},
		"first endpoint recreates peer": {func(s *deviceState, c *Config) *applied {
			c.Peers[0].Endpoint = netip.AddrPort{}
			last := newApplied(*c)
			nowhere := s.peers[keyA]
			nowhere.Endpoint = netip.AddrPort{}
			s.peers[keyA], c.Peers[0].Endpoint = nowhere, home
			return last
		}, "peer A\n remove\npeer A\n endpoint 192.0.2.2:51840\n keepalive 20s\n add 10.71.0.0/16\n add fd00::/64\n"},
		"IPv4 inside IPv6 is IPv4": {func(s *deviceState, c *Config) *applied {
			c.Peers[0].Endpoint = netip.MustParseAddrPort("[::ffff:198.51.100.9]:1234")
			return nil
		}, ""},
		"prefixes come and go one by one": {func(_ *deviceState, c *Config) *applied {
			c.Peers[0].AllowedIPs = nets("10.71.0.0/16", "10.68.0.0/16")
			return nil
		}, "peer A\n drop fd00::/64\n add 10.68.0.0/16\n"},
		"keepalive": {func(_ *deviceState, c *Config) *applied {
			c.Peers[0].Keepalive = 0
			return nil
		}, "peer A\n keepalive 0s\n"},
		"peer is removed before its prefix moves": {func(_ *deviceState, c *Config) *applied {
			c.Peers = []Peer{{PublicKey: keyB, AllowedIPs: nets("10.71.0.0/16")}}
			return nil
		}, "peer A\n remove\npeer B\n add 10.71.0.0/16\n"},
		"a peer without anything is a peer": {func(_ *deviceState, c *Config) *applied {
			c.Peers = append(c.Peers, Peer{PublicKey: keyB})
			return nil
		}, "peer B\n"},
		"a private key": {func(_ *deviceState, c *Config) *applied {
			c.PrivateKey[5]++
			return nil
		}, "key\n"},
		"a port": {func(_ *deviceState, c *Config) *applied {
			c.ListenPort = 0
			return nil
		}, "port 0\n"},
		"a mark": {func(_ *deviceState, c *Config) *applied {
			c.Mark = 7
			return nil
		}, "mark 7\n"},
		"no mark": {func(s *deviceState, _ *Config) *applied {
			s.mark = 7
			return nil
		}, "mark 0\n"},
	} {
		t.Run(name, func(t *testing.T) {
			got, want := running()
			last := newApplied(want)
			if other := tc.edit(&got, &want); other != nil {
				last = other
			}
			if diff := cmp.Diff(tc.want, text(diffConfig(got, last, want))); diff != "" {
				t.Errorf("change (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPortLazily(t *testing.T) {
	for _, tc := range []struct {
		have uint16
		last *applied
		want uint16
		set  bool
	}{
		{have: 40000, last: &applied{}, want: 0, set: false},
		{have: 51840, last: &applied{listenPort: 51840}, want: 51840, set: false},
		{have: 51840, last: &applied{listenPort: 51840}, want: 0, set: true},
		{have: 40000, want: 0, set: false}, // a kernel device from before
		{have: 0, want: 0, set: true},
		{have: 40000, want: 51840, set: true},
		{have: 51840, want: 51840, set: false},
	} {
		if got := portDiffers(tc.have, tc.last, tc.want); got != tc.set {
			t.Errorf("port %d, last %v, wanted %d: set = %v", tc.have, tc.last, tc.want, got)
		}
	}
}

func TestRestartedPeer(t *testing.T) {
	p := peerState{PeerStatus: PeerStatus{PublicKey: keyA, Endpoint: away}, allowedIPs: nets("10.71.0.0/16"), keepalive: 20 * time.Second}
	if got, want := text(reapplyPeer(p)), "peer A\n remove\npeer A\n endpoint 198.51.100.9:1234\n keepalive 20s\n add 10.71.0.0/16\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	p.keepalive = 0
	if got, want := text(reapplyPeer(p)), "peer A\n remove\npeer A\n endpoint 198.51.100.9:1234\n keepalive 1s\n add 10.71.0.0/16\npeer A\n keepalive 0s\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestInvalidConfigs(t *testing.T) {
	for name, edit := range map[string]func(*Config){
		"no key":             func(c *Config) { c.PrivateKey = PrivateKey{}.clampScalar() },
		"no MTU":             func(c *Config) { c.MTU = 0 },
		"huge MTU":           func(c *Config) { c.MTU = 65535 },
		"twice":              func(c *Config) { c.Peers = append(c.Peers, c.Peers[0]) },
		"itself":             func(c *Config) { c.Peers[0].PublicKey = c.PrivateKey.Public() },
		"low order":          func(c *Config) { c.Peers[0].PublicKey = PublicKey{1} },
		"shared prefix":      func(c *Config) { c.Peers = append(c.Peers, Peer{PublicKey: keyB, AllowedIPs: nets("10.71.9.9/16")}) },
		"no prefix":          func(c *Config) { c.Peers[0].AllowedIPs = []netip.Prefix{{}} },
		"mapped prefix":      func(c *Config) { c.Peers[0].AllowedIPs = nets("::ffff:10.0.0.0/104") },
		"half a second":      func(c *Config) { c.Peers[0].Keepalive = 500 * time.Millisecond },
		"a day":              func(c *Config) { c.Peers[0].Keepalive = 24 * time.Hour },
		"endpoint, no port":  func(c *Config) { c.Peers[0].Endpoint = netip.MustParseAddrPort("192.0.2.2:0") },
		"negative keepalive": func(c *Config) { c.Peers[0].Keepalive = -time.Second },
	} {
		_, c := running()
		edit(&c)
		if err := validateConfig(c); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	if _, c := running(); validateConfig(c) != nil {
		t.Errorf("a good one was refused: %v", validateConfig(c))
	}
}

func TestUAPIRequests(t *testing.T) {
	have, want := running()
	want.Peers[0].AllowedIPs = nets("10.71.0.0/16", "10.68.0.0/16")
	want.Peers = append(want.Peers, Peer{PublicKey: keyB, Endpoint: netip.MustParseAddrPort("[2001:db8::1]:51840"), Keepalive: 25 * time.Second})
	want.ListenPort = 0
	want.Mark = 27761
	got := encodeUAPI(diffConfig(have, newApplied(Config{ListenPort: 51840, Peers: want.Peers[:1]}), want))
	wantText := "listen_port=0\nfwmark=27761\npublic_key=" + fmt.Sprintf("%x", keyA[:]) + "\nallowed_ip=-fd00::/64\nallowed_ip=10.68.0.0/16\npublic_key=" +
		fmt.Sprintf("%x", keyB[:]) + "\nendpoint=[2001:db8::1]:51840\npersistent_keepalive_interval=25\n"
	if diff := cmp.Diff(wantText, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestUAPIStatus(t *testing.T) {
	text := fmt.Sprintf(`private_key=%x
listen_port=51840
fwmark=27761
public_key=%x
preshared_key=%064d
protocol_version=1
endpoint=[::ffff:192.0.2.2]:51840
last_handshake_time_sec=1700000000
last_handshake_time_nsec=5
tx_bytes=11
rx_bytes=22
persistent_keepalive_interval=20
allowed_ip=10.71.0.0/16
allowed_ip=fd00:18::/126
public_key=%x
last_handshake_time_sec=0
last_handshake_time_nsec=0
`, secret[:], keyA[:], 0, keyB[:])
	got, err := parseUAPI(text)
	if err != nil {
		t.Fatal(err)
	}
	want := deviceState{privateKey: secret, listenPort: 51840, mark: 27761, peers: map[PublicKey]peerState{
		keyA: {
			PeerStatus: PeerStatus{PublicKey: keyA, Endpoint: home, LastHandshake: time.Unix(1700000000, 5), Received: 22, Sent: 11},
			allowedIPs: nets("10.71.0.0/16", "fd00:18::/126"), keepalive: 20 * time.Second,
		},
		keyB: {PeerStatus: PeerStatus{PublicKey: keyB}},
	}}
	if diff := cmp.Diff(want, got, exact...); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, bad := range []string{"listen_port=70000", "fwmark=4294967296", "endpoint=nowhere", "rx_bytes=x", "allowed_ip=1.2.3.4", "private_key=00", "public_key=" + strings.Repeat("g", 64)} {
		if _, err := parseUAPI("public_key=" + strings.Repeat("0", 64) + "\n" + bad + "\n"); err == nil {
			t.Errorf("%s was accepted", bad)
		}
	}
}

var exact = []cmp.Option{
	cmp.AllowUnexported(deviceState{}, peerState{}),
	cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }), cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b }),
	cmp.Comparer(func(a, b PrivateKey) bool { return a == b }),
}

// text is a change in words.
func text(c configChange) string {
	var b strings.Builder
	if c.privateKey != nil {
		b.WriteString("key\n")
	}
	if c.listenPort != nil {
		fmt.Fprintf(&b, "port %d\n", *c.listenPort)
	}
	if c.mark != nil {
		fmt.Fprintf(&b, "mark %d\n", *c.mark)
	}
	for _, p := range c.peers {
		fmt.Fprintf(&b, "peer %s\n", map[PublicKey]string{keyA: "A", keyB: "B"}[p.key])
		if p.remove {
			b.WriteString(" remove\n")
		}
		if p.endpoint.IsValid() {
			fmt.Fprintf(&b, " endpoint %s\n", p.endpoint)
		}
		if p.keepalive != nil {
			fmt.Fprintf(&b, " keepalive %s\n", *p.keepalive)
		}
		for _, prefix := range p.drop {
			fmt.Fprintf(&b, " drop %s\n", prefix)
		}
		for _, prefix := range p.add {
			fmt.Fprintf(&b, " add %s\n", prefix)
		}
	}
	return b.String()
}
