// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/peer"
	"liqo.io/liqo/internal/prefix"
	"liqo.io/liqo/internal/virtualkubelet/translate"
)

// translateHostAliases translates the host alias of the consumer's API server in a pod to the address in this cluster. Host aliases are
// immutable: a pod with a token waits until the address is known, and any other pod is created without the alias. Addresses outside the
// networks of the consumer stay unchanged.
func (s *shadowPods) translateHostAliases(ctx context.Context, sp *offv1beta1.ShadowPod, spec *corev1.PodSpec) error {
	apiServer := translate.RouteOf(sp) // set by consumers with our virtual kubelet only
	owned := func(a corev1.HostAlias) bool {
		return isAPIServerAlias(a) && (apiServer == nil || a.IP == apiServer.Addr.String())
	}
	if !slices.ContainsFunc(spec.HostAliases, owned) {
		return nil
	}
	consumer := sp.Labels[names.OffloadingOrigin] // checkPod compared it with the namespace
	var list networkingv1beta1.ConfigurationList
	if err := s.client.List(ctx, &list, client.MatchingLabels{names.RemoteClusterID: consumer}); err != nil {
		return fmt.Errorf("listing the network configurations: %w", err)
	}
	configuration := peer.Configuration(list.Items, liqov1beta1.ClusterID(consumer))
	if configuration == nil && apiServer == nil {
		return nil // a flat network, no network, or an alias that a user wrote
	}
	networks, missing := networksOf(configuration)
	if missing == nil {
		missing = replaceAliases(spec.HostAliases, owned, networks)
	}
	switch {
	case missing == nil:
	case hasToken(sp):
		return &podRejection{reason: offv1beta1.ReasonNetworkNotReady, why: missing, next: kube.Wait(namespaceDelay, missing.Error())}
	case apiServer != nil:
		spec.HostAliases = slices.DeleteFunc(spec.HostAliases, owned)
	}
	return nil
}

// networksOf returns the mapping of a consumer's networks to this cluster, or an error if the mapping is not known. A consumer with
// API server aliases has a network to this cluster: a missing Configuration is only late.
func networksOf(c *networkingv1beta1.Configuration) (prefix.Map, error) {
	if c == nil {
		return prefix.Map{}, errors.New("the consumer's networks are not known yet")
	}
	networks, placed, err := prefix.Of(c)
	switch {
	case err != nil:
		return prefix.Map{}, fmt.Errorf("reading the network configuration %q of the consumer: %w", c.Name, err)
	case !placed:
		return prefix.Map{}, fmt.Errorf("the consumer's networks in Configuration %q are not remapped yet", c.Name)
	}
	return networks, nil
}

// hasToken reports whether a pod gets a token from its consumer.
func hasToken(sp *offv1beta1.ShadowPod) bool {
	return slices.ContainsFunc(sp.Spec.Pod.Volumes, func(v corev1.Volume) bool {
		return v.Projected != nil && slices.ContainsFunc(v.Projected.Sources, func(s corev1.VolumeProjection) bool {
			return s.Secret != nil && s.Secret.Name == names.TokenSecret(sp.Name)
		})
	})
}

// isAPIServerAlias reports whether an alias is that of the consumer's API server.
func isAPIServerAlias(a corev1.HostAlias) bool {
	return slices.Contains(a.Hostnames, names.APIServerHost)
}

func replaceAliases(aliases []corev1.HostAlias, which func(corev1.HostAlias) bool, consumer prefix.Map) error {
	for i := range aliases {
		addr, err := netip.ParseAddr(aliases[i].IP)
		if err != nil || !which(aliases[i]) {
			continue
		}
		local, ok := consumer.ToLocal(addr)
		switch {
		case ok:
			aliases[i].IP = local.String()
		case consumer.IsAwaited(addr):
			return fmt.Errorf("the consumer's network with %s is not remapped yet", addr)
		}
	}
	return nil
}
