// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"net"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"
)

func TestMatchConntrackFlow(t *testing.T) {
	about := prefixes{netip.MustParsePrefix("10.70.0.0/16"), netip.MustParsePrefix("10.71.0.0/16")}
	for name, v := range map[string]struct {
		source, destination, replySource, replyDestination string
		want                                               bool
	}{
		"pod_to_peer":                       {"10.200.1.2", "10.71.1.2", "10.71.1.2", "10.200.1.2", true},
		"peer_to_pod":                       {"10.71.1.2", "10.200.1.2", "10.200.1.2", "10.71.1.2", true},
		"translated_IP":                     {"10.71.1.2", "10.70.0.9", "192.0.2.1", "10.71.1.2", true},
		"NodePort_of_remote_pod":            {"192.0.2.1", "172.16.0.1", "10.71.1.2", "172.16.0.1", true},
		"host_to_local_API_server":          {"172.16.0.1", "10.96.0.1", "172.16.0.1", "10.70.255.255", false},
		"pod_to_local_Service":              {"10.200.1.2", "10.96.0.1", "10.200.1.3", "10.200.1.2", false},
		"host_to_peer_masqueraded":          {"172.16.0.1", "10.71.1.2", "10.71.1.2", "10.70.255.255", true},
		"host_to_remote_pod_by_its_Service": {"172.16.0.1", "10.96.0.8", "10.71.1.2", "10.70.255.255", true},
	} {
		t.Run(name, func(t *testing.T) {
			f := &netlink.ConntrackFlow{}
			f.Forward.SrcIP, f.Forward.DstIP = net.ParseIP(v.source), net.ParseIP(v.destination)
			f.Reverse.SrcIP, f.Reverse.DstIP = net.ParseIP(v.replySource), net.ParseIP(v.replyDestination)
			if got := about.MatchConntrackFlow(f); got != v.want {
				t.Errorf("got %v, want %v", got, v.want)
			}
		})
	}
}
