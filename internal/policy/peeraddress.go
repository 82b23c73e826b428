// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"net/netip"
	"net/url"
	"strings"
)

// metadataAddresses are the addresses of metadata services in some clouds, which serve credentials of the machine to every
// client and are not link-local.
var metadataAddresses = []netip.Addr{
	netip.MustParseAddr("fd00:ec2::254"),   // AWS
	netip.MustParseAddr("100.100.100.200"), // Alibaba Cloud
	netip.MustParseAddr("168.63.129.16"),   // Azure
}

// translatedPrefix is the NAT64 prefix, with IPv4 addresses in the last 32 bits.
var translatedPrefix = netip.MustParsePrefix("64:ff9b::/96")

// thisNetwork is the prefix of which every address is taken for this host.
var thisNetwork = netip.MustParsePrefix("0.0.0.0/8")

// CheckPeerAddress returns why this cluster does not connect to an address from a peer, or nil: no other cluster is at an
// address of this machine or of the services of its cloud. Loopback is for clusters on one machine, as in tests.
func CheckPeerAddress(addr netip.Addr, allowLoopback bool) error {
	kind := ""
	addr = addr.Unmap().WithZone("")
	if translatedPrefix.Contains(addr) {
		b := addr.As16()
		addr = netip.AddrFrom4([4]byte(b[12:]))
	}
	switch {
	case !addr.IsValid(), addr.IsUnspecified(), thisNetwork.Contains(addr):
		kind = "an unspecified"
	case addr.IsLoopback():
		if !allowLoopback {
			kind = "a loopback"
		}
	case addr.IsLinkLocalUnicast(), addr.IsLinkLocalMulticast():
		kind = "a link-local"
	case addr.IsMulticast(), addr == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		kind = "a multicast"
	}
	for _, a := range metadataAddresses {
		if a == addr {
			kind = "a metadata"
		}
	}
	if kind != "" {
		return fmt.Errorf("%s is %s address, which no peer can have", addr, kind)
	}
	return nil
}

// CheckPeerURL returns why this cluster does not connect to a URL from a peer, or nil. The check covers the URL itself:
// the resolved address of a name is checked on each connection.
func CheckPeerURL(of string, allowLoopback bool) error {
	u, err := url.Parse(of)
	if err != nil {
		return fmt.Errorf("%q is not a URL", of)
	}
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	if addr, err := netip.ParseAddr(host); err == nil {
		return CheckPeerAddress(addr, allowLoopback)
	}
	if (host == "localhost" || strings.HasSuffix(host, ".localhost")) && !allowLoopback {
		return fmt.Errorf("%s is a loopback name, which no peer can have", host)
	}
	return nil
}
