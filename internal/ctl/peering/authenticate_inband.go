// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/ctl/cluster"

	"liqo.io/liqo/internal/ctl/network"
	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/policy"
	"liqo.io/liqo/internal/prefix"
)

var errNotConnected = errors.New("the networks are not connected")

// apiServerURL returns the URL of the proxy through which the consumer reaches the API server, "" for none.
func (a *Authentication) apiServerURL(ctx context.Context) (string, error) {
	switch {
	case a.proxyURL != "":
		return a.proxyURL, nil
	case a.inBand:
		proxy, err := a.throughTunnel(ctx)
		if a.connects && errors.Is(err, errNotConnected) {
			return cluster.Assigned, nil
		}
		return proxy, err
	case !a.asBefore || a.have == nil || a.have.Spec.ProxyURL == nil:
		return "", nil
	}
	proxy, err := a.throughTunnel(ctx)
	switch _, none := errors.AsType[*ui.Failure](err); {
	case errors.Is(err, errNotConnected) && isTunnelProxy(*a.have.Spec.ProxyURL):
		a.inBand = true // the proxy works again when the networks are connected
		return *a.have.Spec.ProxyURL, nil
	case none, apierrors.IsForbidden(err):
		return "", nil // the existing proxy leads elsewhere
	case err != nil:
		return "", err
	case proxy != *a.have.Spec.ProxyURL:
		if recognized, err := a.recognizesProxy(ctx, *a.have.Spec.ProxyURL); err != nil || !recognized {
			return "", err
		}
	}
	a.inBand = true
	return proxy, nil
}

// isTunnelProxy reports whether a proxy URL has the form of a proxy in the tunnel.
func isTunnelProxy(proxy string) bool {
	_, ok := policy.ParseTunnelProxy(proxy)
	return ok
}

// recognizesProxy reports whether an Identity of the consumer has the proxy URL as the provider's proxy in the tunnel, also with an earlier address.
func (a *Authentication) recognizesProxy(ctx context.Context, proxy string) (bool, error) {
	var all authv1beta1.IdentityList
	if err := a.Consumer.Kube.List(ctx, &all, client.InNamespace(a.Consumer.Namespace), client.MatchingLabels{names.RemoteClusterID: a.Provider.ID}); err != nil {
		return false, a.Consumer.WrapWithCluster(fmt.Errorf("listing the Identities of the provider: %w", err))
	}
	return slices.ContainsFunc(all.Items, func(i authv1beta1.Identity) bool {
		return i.Status.TunnelProxy != nil && i.Status.TunnelProxy.ConfiguredURL == proxy
	}), nil
}

// throughTunnel returns the URL of the provider's proxy, with its local address in the consumer.
func (a *Authentication) throughTunnel(ctx context.Context) (string, error) {
	remote, err := apiServerProxy(ctx, a.Provider)
	if err != nil {
		return "", a.Provider.WrapWithCluster(err)
	}
	here, err := remappedAddress(ctx, a.Consumer, a.Provider.ID, remote)
	if err != nil {
		return "", a.Consumer.WrapWithCluster(err)
	}
	return policy.TunnelProxyURL(here), nil
}

// apiServerProxy returns the address of the API server proxy for peers.
func apiServerProxy(ctx context.Context, s *cluster.Cluster) (netip.Addr, error) {
	ip, key := &ipamv1alpha1.IP{}, client.ObjectKey{Namespace: s.LiqoNamespace, Name: names.APIServerProxyIP}
	err := s.Kube.Get(ctx, key, ip)
	switch {
	case apierrors.IsNotFound(err), apimeta.IsNoMatchError(err):
		return netip.Addr{}, ui.Fail("its API server has no proxy in the tunnel: IP %s not found", key).
			Hint("Check that proxy.enabled and networking.enabled of its installation are true, or set --proxy-url")
	case err != nil:
		return netip.Addr{}, fmt.Errorf("looking for the proxy of the API server: %w", err)
	case ip.Status.IP == "":
		return netip.Addr{}, ui.Fail("the IP %s has no address yet%s", key, network.ConditionSuffix(ip.Status.Conditions, ipamv1alpha1.ConditionAllocated))
	}
	addr, err := netip.ParseAddr(string(ip.Status.IP))
	if err != nil {
		return netip.Addr{}, fmt.Errorf("reading the address of the IP %s: %w", key, err)
	}
	return addr, nil
}

// remappedAddress returns the local (remapped) translation of a remote address.
func remappedAddress(ctx context.Context, s *cluster.Cluster, other string, remote netip.Addr) (netip.Addr, error) {
	found, err := network.FindOne(ctx, s, &networkingv1beta1.ConfigurationList{}, other)
	if err != nil {
		return remote, err
	}
	cfg, ok := found.(*networkingv1beta1.Configuration)
	if !ok {
		return remote, ui.Fail("%w: no Configuration of %s found", errNotConnected, other).Hint("Connect them first, by: liqoctl network connect").
			See("docs/troubleshooting.md#a-connection-is-not-connected")
	}
	networks, placed, err := prefix.Of(cfg)
	if err != nil {
		return remote, fmt.Errorf("reading the Configuration %s: %w", client.ObjectKeyFromObject(cfg), err)
	}
	if !placed {
		return remote, ui.Fail("%w: the Configuration %s has no prefixes yet", errNotConnected, client.ObjectKeyFromObject(cfg))
	}
	here, ok := networks.ToLocal(remote)
	if !ok {
		return remote, ui.Fail("%w: the Configuration %s has no network with %s", errNotConnected, client.ObjectKeyFromObject(cfg), remote).
			Hint("Exchange the networks again, by: liqoctl network init")
	}
	return here, nil
}
