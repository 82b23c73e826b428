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

// setMTU takes in which MTU the prober found, and tells users of another one. The device keeps that of the options, by which larger
// packets can be tried, and come in: what is sent is bound by routes.
func (g *gateway) setMTU(ctx context.Context, seen *agent.Seen) {
	g.prober.setFloor(floorOf(seen, g.options))
	if g.mtu == 0 && !g.options.Unwatched { // nobody sees there that probes are not answered, and then no larger one is found again
		g.prober.setKnownMTU(g.foundMTU(ctx))
	}
	was := g.mtu
	if g.mtu = g.prober.foundMTU(); was == 0 || was == g.mtu {
		return
	}
	log.FromContext(ctx).Info("the tunnel has another MTU", "was", was, "is", g.mtu)
	obj := seen.Objects[g.planInput(seen).Of]
	switch {
	case obj == nil || !g.prober.pathHealth().Pads: // nothing was found: it is the bound
	case g.mtu < was:
		g.reporter.Events.Eventf(obj, nil, corev1.EventTypeWarning, reasonMTULowered, "Probe",
			"larger packets than %d bytes do not pass to the peer and back: this is the MTU of the tunnel now, and was %d", g.mtu, was)
	default:
		g.reporter.Events.Eventf(obj, nil, corev1.EventTypeNormal, reasonMTURaised, "Probe", "packets of %d bytes pass: this is the MTU of the tunnel now, and was %d", g.mtu, was)
	}
}

// foundMTU is the MTU that an earlier process of this gateway found; 0 if nothing is known of one.
func (g *gateway) foundMTU(ctx context.Context) int {
	var conn networkingv1beta1.Connection
	if err := g.client.Get(ctx, client.ObjectKey{Namespace: g.options.Namespace, Name: names.Gateway(g.options.Name)}, &conn); err != nil {
		return 0 // it is made later
	}
	return conn.Status.MTU
}

// floorOf is how small the MTU may get for what the peer has.
func floorOf(seen *agent.Seen, o Options) int {
	for _, p := range seen.Peers {
		if p.Key == o.peerKey() && slices.ContainsFunc(slices.Concat(p.Pods, p.External), isIPv6) {
			return floorIPv6
		}
	}
	return floorIPv4
}

func isIPv6(p prefix.Pair) bool { return p.Here.Addr().Is6() }
