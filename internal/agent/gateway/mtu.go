// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/agent"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/prefix"
)

// Reasons of the events about the MTU.
const (
	reasonMTULowered = "MTULowered"
	reasonMTURaised  = "MTURaised"
)

// setMTU applies the MTU found by the prober, and reports a change to users. The device keeps the MTU of the options, so that larger packets can be
// probed and received: routes limit sent packets.
func (g *gateway) setMTU(ctx context.Context, snapshot *agent.Snapshot) {
	g.prober.setFloor(floorOf(snapshot, g.options))
	if g.mtu == 0 && !g.options.Unwatched { // without probes a black hole goes unnoticed, and no larger MTU would be found later
		g.prober.setKnownMTU(g.foundMTU(ctx))
	}
	was := g.mtu
	if g.mtu = g.prober.foundMTU(); was == 0 || was == g.mtu {
		return
	}
	log.FromContext(ctx).Info("the tunnel has another MTU", "was", was, "is", g.mtu)
	obj := snapshot.Objects[g.planInput(snapshot).Of]
	switch {
	case obj == nil || !g.prober.pathHealth().Pads: // no search took place: use the upper bound
	case g.mtu < was:
		g.reporter.Events.Eventf(obj, nil, corev1.EventTypeWarning, reasonMTULowered, "Probe",
			"larger packets than %d bytes do not pass to the peer and back: this is the MTU of the tunnel now, and was %d", g.mtu, was)
	default:
		g.reporter.Events.Eventf(obj, nil, corev1.EventTypeNormal, reasonMTURaised, "Probe", "packets of %d bytes pass: this is the MTU of the tunnel now, and was %d", g.mtu, was)
	}
}

// foundMTU returns the MTU that an earlier process of this gateway found, or 0 if unknown.
func (g *gateway) foundMTU(ctx context.Context) int {
	var conn networkingv1beta1.Connection
	if err := g.client.Get(ctx, client.ObjectKey{Namespace: g.options.Namespace, Name: names.Gateway(g.options.Name)}, &conn); err != nil {
		return 0 // created later
	}
	return conn.Status.MTU
}

// floorOf returns the minimum MTU for the address families of the peer.
func floorOf(snapshot *agent.Snapshot, o Options) int {
	for _, p := range snapshot.Peers {
		if p.Key == o.peerKey() && slices.ContainsFunc(slices.Concat(p.Pods, p.External), isIPv6) {
			return floorIPv6
		}
	}
	return floorIPv4
}

func isIPv6(p prefix.Pair) bool { return p.Local.Addr().Is6() }
