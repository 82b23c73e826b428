// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
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
	"liqo.io/liqo/internal/remap"
)

// leadHome has a pod find the API server of its consumer where that is in this cluster. Addresses outside the networks of the consumer
// stay as they are.
func (s *shadowPods) leadHome(ctx context.Context, sp *offv1beta1.ShadowPod, spec *corev1.PodSpec) error {
	if !slices.ContainsFunc(spec.HostAliases, leadsHome) {
		return nil
	}
	consumer := sp.Labels[names.OffloadingOrigin] // which check compared with the namespace
	var list networkingv1beta1.ConfigurationList
	if err := s.client.List(ctx, &list, client.MatchingLabels{names.RemoteClusterID: consumer}); err != nil {
		return fmt.Errorf("listing the network configurations: %w", err)
	}
	configuration := peer.Configuration(list.Items, liqov1beta1.ClusterID(consumer))
	if configuration == nil {
		return nil // one network, or none
	}
	networks, placed, err := remap.Of(configuration)
	if err != nil || !placed {
		return kube.Wait(namespaceDelay, "the networks of the consumer have no place here yet")
	}
	aliasesHere(spec.HostAliases, networks)
	return nil
}

// leadsHome tells whether an alias is that of the consumer's API server.
func leadsHome(a corev1.HostAlias) bool { return slices.Contains(a.Hostnames, names.APIServerHost) }

func aliasesHere(aliases []corev1.HostAlias, consumer remap.Map) {
	for i := range aliases {
		addr, err := netip.ParseAddr(aliases[i].IP)
		if err != nil || !leadsHome(aliases[i]) {
			continue
		}
		if here, ok := consumer.Here(addr); ok {
			aliases[i].IP = here.String()
		}
	}
}
