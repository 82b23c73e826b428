// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/ctl/out"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/prefix"
)

// addressRanges holds the pools for the prefixes of peers, and the used prefixes.
type addressRanges struct {
	pools []netip.Prefix
	taken []prefix.Claim
}

// readRanges reads the pools and the used prefixes. The controller knows more: addresses without a Network are missing.
func (t *peerConfig) readRanges(ctx context.Context) (*addressRanges, error) {
	manager, err := controllerManager(ctx, t.kube, t.liqoNamespace)
	if err != nil {
		return nil, err
	}
	container, err := managerContainer(manager)
	if err != nil {
		return nil, err
	}
	l := &addressRanges{}
	for text := range strings.SplitSeq(flagValue(slices.Concat(container.Command, container.Args), "pools"), ",") {
		pool, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, errors.New("the arguments of the controller-manager have no --pools that can be read")
		}
		l.pools = append(l.pools, pool)
	}
	var networks ipamv1alpha1.NetworkList
	if err := t.kube.List(ctx, &networks); err != nil {
		return nil, fmt.Errorf("reading networks: %w", err)
	}
	for i := range networks.Items {
		if t.have == nil || !metav1.IsControlledBy(&networks.Items[i], t.have) { // the Configuration releases this prefix
			l.addUsed(&networks.Items[i], t.liqoNamespace)
		}
	}
	var nodes corev1.NodeList
	if err := t.kube.List(ctx, &nodes); err != nil {
		return nil, fmt.Errorf("reading nodes: %w", err)
	}
	for i := range nodes.Items {
		for _, a := range nodes.Items[i].Status.Addresses {
			if addr, err := netip.ParseAddr(a.Address); err == nil {
				addr = addr.Unmap()
				l.taken = append(l.taken, prefix.Claim{Prefix: netip.PrefixFrom(addr, addr.BitLen()), Apart: true, Of: "Node " + nodes.Items[i].Name})
			}
		}
	}
	return l, nil
}

// addUsed marks the prefix of a Network as used, or the one reserved for it because the cluster itself uses it.
func (l *addressRanges) addUsed(n *ipamv1alpha1.Network, liqoNamespace string) {
	cidr := n.Status.CIDR
	if cidr == "" && n.Namespace == liqoNamespace && n.Labels[names.NetworkType] != "" {
		cidr = n.Spec.CIDR
	}
	if p, err := netip.ParsePrefix(string(cidr)); err == nil {
		l.taken = append(l.taken, prefix.Claim{Prefix: p.Masked(), Of: "Network " + n.Namespace + "/" + n.Name})
	}
}

// freeRange fails if some network of a peer cannot get a free prefix.
func (l *addressRanges) freeRange(of networkingv1beta1.ClusterConfigCIDR) error {
	taken := slices.Clone(l.taken)
	for _, cidr := range slices.Concat(of.Pod, of.External) {
		wanted, err := netip.ParsePrefix(string(cidr))
		if err != nil {
			continue // the controller reports the error
		}
		granted, err := prefix.Grant(l.pools, taken, prefix.Want{Prefix: wanted.Masked()})
		if err != nil {
			return out.Fail("the network %s of the other cluster cannot be remapped: %w", cidr, err)
		}
		taken = append(taken, prefix.Claim{Prefix: granted, Of: "the other cluster"})
	}
	return nil
}
