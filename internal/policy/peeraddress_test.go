// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"net/netip"
	"strings"
	"testing"
)

func TestCheckPeerAddress(t *testing.T) {
	for address, want := range map[string]string{
		"127.0.0.1": "loopback", "127.255.0.9": "loopback", "::1": "loopback", "::ffff:127.0.0.1": "loopback", "64:ff9b::7f00:1": "loopback",
		"169.254.169.254": "link-local", "::ffff:169.254.169.254": "link-local", "fe80::1": "link-local", "fe80::1%eth0": "link-local", "64:ff9b::a9fe:a9fe": "link-local",
		"0.0.0.0": "unspecified", "::": "unspecified", "0.1.2.3": "unspecified",
		"224.0.0.1": "link-local", "239.1.1.1": "multicast", "ff0e::1": "multicast", "255.255.255.255": "multicast",
		"fd00:ec2::254": "metadata", "100.100.100.200": "metadata", "168.63.129.16": "metadata",
		"10.0.0.1": "", "192.168.1.1": "", "172.18.0.2": "", "8.8.8.8": "", "2001:db8::1": "", "fd00::1": "", "100.64.0.1": "", "64:ff9b::808:808": "",
	} {
		err := CheckPeerAddress(netip.MustParseAddr(address), false)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), " "+want+" ") {
			t.Errorf("%s: %v, want %q", address, err, want)
		}
		err = CheckPeerAddress(netip.MustParseAddr(address), true)
		if want == "loopback" && err != nil || want != "loopback" && (err == nil) != (want == "") {
			t.Errorf("%s, with loopback: %v", address, err)
		}
	}
	if CheckPeerAddress(netip.Addr{}, true) == nil {
		t.Error("no address at all is taken")
	}
}

func TestCheckPeerURL(t *testing.T) {
	for of, ok := range map[string]bool{
		"https://169.254.169.254:443": false, "http://127.0.0.1:8082": false, "https://[::1]:6443": false, "https://localhost:6443": false,
		"https://LocalHost.:6443": false, "https://x.localhost": false, "https://[::ffff:7f00:1]": false, "https://\x00": false,
		"https://10.0.0.1:6443": true, "https://api.example.com": true, "https://localhost.example.com": true,
	} {
		if err := CheckPeerURL(of, false); (err == nil) != ok {
			t.Errorf("%s: %v", of, err)
		}
	}
	if err := CheckPeerURL("https://127.0.0.1:6443", true); err != nil {
		t.Error(err)
	}
}
