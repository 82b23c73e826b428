// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/peer"
	"liqo.io/liqo/internal/policy"
	"liqo.io/liqo/internal/prefix"
)

// readTunnelProxy returns the API server proxy of the provider if the proxy URL of an Identity means this proxy, else nil. Each Identity of
// a provider knows the addresses recognized by the others: the Identity of a new ResourceSlice may have an earlier address.
func (i *identities) readTunnelProxy(ctx context.Context, identity *authv1beta1.Identity) (*authv1beta1.TunnelProxy, error) {
	proxyURL := identity.Spec.AuthParams.ProxyURL
	if proxyURL == nil {
		return nil, nil
	}
	var all authv1beta1.IdentityList
	if err := i.client.List(ctx, &all, client.InNamespace(identity.Namespace)); err != nil {
		return nil, fmt.Errorf("listing the Identities of the provider: %w", err)
	}
	previous := recognizedProxy(identity, all.Items)
	var local netip.Addr
	if i.options.Networking {
		var list networkingv1beta1.ConfigurationList
		if err := i.client.List(ctx, &list, client.MatchingLabels{names.RemoteClusterID: string(identity.Spec.ClusterID)}); err != nil {
			return nil, fmt.Errorf("listing the Configurations of the provider: %w", err)
		}
		if cfg := peer.Configuration(list.Items, identity.Spec.ClusterID); cfg != nil {
			networks, _, _ := prefix.Of(cfg) // the condition of the Configuration reports errors
			local, _ = networks.ToLocal(proxyIPOf(cfg))
		}
	}
	return i.moves.limitMoves(identity.Spec.ClusterID, previous, policy.RemapTunnelProxy(*proxyURL, previous, local), time.Now())
}

// recognizedProxy returns the last result for the proxy URL of an Identity: from this Identity, else the control plane's, else any Identity's.
func recognizedProxy(identity *authv1beta1.Identity, all []authv1beta1.Identity) (found *authv1beta1.TunnelProxy) {
	rank := 0
	for _, other := range append(all, *identity) {
		p, its := other.Status.TunnelProxy, 1
		switch {
		case p == nil || p.ConfiguredURL != *identity.Spec.AuthParams.ProxyURL || other.Spec.ClusterID != identity.Spec.ClusterID:
			continue
		case other.UID == identity.UID:
			its = 3
		case other.Spec.Type == authv1beta1.ControlPlaneIdentityType:
			its = 2
		}
		if its >= rank {
			found, rank = p, its
		}
	}
	return found
}

// proxyMoves limits how often providers move their proxies: upon each move every client of the provider connects again.
type proxyMoves struct {
	interval time.Duration
	mu       sync.Mutex
	last     map[liqov1beta1.ClusterID]proxyMove
}

type proxyMove struct {
	url string
	at  time.Time
}

// manyProviders bounds the memory of moves.
const manyProviders = 1000

// limitMoves returns next, or previous and a wait if the provider moved its proxy a moment ago. All Identities of a provider follow one move.
func (m *proxyMoves) limitMoves(provider liqov1beta1.ClusterID, previous, next *authv1beta1.TunnelProxy, now time.Time) (*authv1beta1.TunnelProxy, error) {
	if previous == nil || next == nil || previous.URL == next.URL {
		return next, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	last := m.last[provider]
	if last.url == next.URL {
		return next, nil
	}
	if left := last.at.Add(m.interval).Sub(now); left > 0 {
		return previous, kube.Wait(left, "the provider moved its API server proxy a moment ago")
	}
	if len(m.last) >= manyProviders {
		clear(m.last)
	}
	m.last[provider] = proxyMove{next.URL, now}
	return next, nil
}

// proxyIPOf returns the address of the API server proxy that a peer reports, the zero value for none.
func proxyIPOf(cfg *networkingv1beta1.Configuration) netip.Addr {
	reported := policy.PeerNetworks(cfg.Status.ReportedRemote)
	if reported == nil {
		return netip.Addr{}
	}
	addr, _ := netip.ParseAddr(string(reported.APIServerProxyIP))
	return addr
}

// proxyMoved passes the changes of a Configuration that may move the proxy.
var proxyMoved = builder.WithPredicates(predicate.Funcs{UpdateFunc: func(ev event.UpdateEvent) bool {
	before, after := ev.ObjectOld.(*networkingv1beta1.Configuration), ev.ObjectNew.(*networkingv1beta1.Configuration)
	return peer.NetworksChanged(before, after) || proxyIPOf(before) != proxyIPOf(after)
}})

// requestsForProvider returns requests for the Identities that reach the peer of a Configuration by a proxy.
func (i *identities) requestsForProvider(ctx context.Context, cfg client.Object) []reconcile.Request {
	id := liqov1beta1.ClusterID(cfg.GetLabels()[names.RemoteClusterID])
	return kube.Requests(ctx, i.client, &authv1beta1.IdentityList{}, func(identity *authv1beta1.Identity) bool {
		return identity.Spec.ClusterID == id && identity.Spec.AuthParams.ProxyURL != nil
	})
}
