// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"liqo.io/liqo/internal/datapath"
	"liqo.io/liqo/internal/network/plan"
)

// strangers are packets in the name of a peer, and who is to get them: in the names of pods, and of nodes that have the address of one.
var strangers = []struct{ name, sender, from, to, by, at string }{
	{"a pod", "world", "10.71.9.1", "10.200.2.7:7", "10.72.9.2", "a/two"},
	{"a node", "world", "10.71.9.1", "10.72.9.2:7", "10.72.9.2", "a/two"},
	{"a port of Services", "world", "10.71.9.1", "10.72.9.1:30080", "10.72.9.1", "a/one"},
	{"a Service", "a/pod", "10.71.1.5", service, "10.200.1.1", "a/one"},
}

// TestOuterPacketRouting has nodes of both clusters in the networks under which the pods of the cluster are seen by the other one, as where
// pods and nodes share a private network: the tunnel leads to them, and its own packets must not take it.
func TestOuterPacketRouting(t *testing.T) {
	for name, settings := range map[string]labSettings{
		"reverse paths are looked at":                        {covered: true},
		"gateways with state and loose reverse path filters": {covered: true, priority: 60, tracked: true, loose: true},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, settings)
			for _, node := range labNodes { // the gateway is on the first
				t.Run("the server is found at node "+node.name, func(t *testing.T) {
					l.dial(t, netip.MustParseAddrPort(fmt.Sprint(l.outer("a"), node.number, ":", tunnelPort)))
					for _, way := range []struct{ from, to, server string }{
						{"a/pod", "10.71.2.7:7", "10.72.1.5"}, {"a/two", "10.71.1.5:7", "10.68.0.12"}, {"b/far", "10.72.1.5:7", "10.71.2.7"},
					} {
						l.spaces[way.from].inside(t, func() error { return walk(netip.MustParseAddrPort(way.to), way.server) })
					}
				})
			}
			l.only(nil)
			for _, s := range strangers {
				t.Run("no stranger reaches "+s.name, func(t *testing.T) {
					for _, protocol := range []byte{datapath.UDP, datapath.TCP} {
						send := forged(protocol, addr(s.from), netip.MustParseAddrPort(s.to), addr(s.by))
						l.spaces[s.sender].inside(t, func() error { return l.refuses(s.at, plan.CounterStray, send) })
					}
				})
			}
			t.Run("gateway accepts only datagrams from outside", func(t *testing.T) {
				send := forged(datapath.TCP, addr("10.71.9.1"), netip.MustParseAddrPort("10.200.1.9:51840"), addr("10.72.9.1"))
				l.spaces["world"].inside(t, func() error { return l.refuses("a/one", plan.CounterStray, send) })
			})
			l.valid()
		})
	}
}

// dial has the tunnel begin anew, from another port and with the server somewhere.
func (l *lab) dial(t *testing.T, server netip.AddrPort) {
	t.Helper()
	client, start := l.client, time.Now()
	l.spaces["b/gateway"].inside(t, func() error {
		client.wanted.Peers[0].Endpoint = server
		return errors.Join(client.Apply(client.wanted), client.Rebind(), client.Restart(client.wanted.Peers[0].PublicKey))
	})
	fatal(t, soon("a handshake with "+server.String(), func() (bool, error) {
		status, err := client.Observe()
		return err == nil && len(status.Peers) == 1 && status.Peers[0].LastHandshake.After(start) && status.Peers[0].Endpoint == server, err
	}))
}
