// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
)

// remappedCIDR is the translation of a peer's networks of one kind.
type remappedCIDR struct {
	kind   string
	remote []networkingv1beta1.CIDR
	into   func(*networkingv1beta1.ClusterConfig) *[]networkingv1beta1.CIDR
}

func remappedCIDRs(cfg *networkingv1beta1.Configuration) []remappedCIDR {
	return []remappedCIDR{
		{names.CIDRTypePod, cfg.Spec.Remote.CIDR.Pod, func(c *networkingv1beta1.ClusterConfig) *[]networkingv1beta1.CIDR { return &c.CIDR.Pod }},
		{names.CIDRTypeExternal, cfg.Spec.Remote.CIDR.External, func(c *networkingv1beta1.ClusterConfig) *[]networkingv1beta1.CIDR { return &c.CIDR.External }},
	}
}

// prefixesByNetwork are the local prefixes of networks of the peer.
type prefixesByNetwork map[networkingv1beta1.CIDR]networkingv1beta1.CIDR

// placement has the networks of a peer that have local prefixes, and these, index by index.
type placement struct {
	remote, local networkingv1beta1.ClusterConfig
}

func (p *placement) isEmpty() bool { return len(p.local.CIDR.Pod)+len(p.local.CIDR.External) == 0 }

// addNetworks adds the networks of one kind with local prefixes, in order and once.
func (p *placement) addNetworks(v remappedCIDR, prefixes prefixesByNetwork) {
	remote, local := v.into(&p.remote), v.into(&p.local)
	for _, cidr := range v.remote {
		if to, placed := prefixes[cidr]; placed && !slices.Contains(*remote, cidr) {
			*remote, *local = append(*remote, cidr), append(*local, to)
		}
	}
}

// placedBefore returns the networks of an unusable spec with local prefixes from an earlier spec.
func placedBefore(cfg *networkingv1beta1.Configuration, current []ipamv1alpha1.Network) (out placement) {
	for _, v := range remappedCIDRs(cfg) {
		prefixes := prefixesByNetwork{}
		for i := range current {
			if n := &current[i]; n.Labels[names.CIDRType] == v.kind && n.DeletionTimestamp.IsZero() && n.Status.CIDR != "" {
				prefixes[n.Spec.CIDR] = n.Status.CIDR
			}
		}
		out.addNetworks(v, prefixes)
	}
	return out
}

// remapCIDR returns the local prefixes of the networks of one kind, and the error of the first network without one. Obsolete Networks are deleted
// first: obsolete Networks may block new Networks, and the new Networks wait.
func (s *configurations) remapCIDR(ctx context.Context, cfg *networkingv1beta1.Configuration, v remappedCIDR, current []ipamv1alpha1.Network) (prefixesByNetwork, error) {
	used, obsolete := splitNetworks(cfg, v, current)
	if err := s.replaceNetworks(ctx, cfg, v, current, obsolete); err != nil {
		return nil, err
	}
	out := prefixesByNetwork{}
	var unplaced error
	for _, cidr := range v.remote {
		if len(obsolete) > 0 && !used[cidr] {
			unplaced = cmp.Or(unplaced, kube.Wait(0, fmt.Sprintf("the Network %s, which is wanted no more, is being deleted", obsolete[0].Name)))
			continue
		}
		local, err := s.ensureNetwork(ctx, cfg, v.kind, cidr, "")
		switch {
		case err == nil:
			out[cidr] = local
		case !isReported(err):
			return nil, err
		}
		unplaced = cmp.Or(unplaced, err)
	}
	return out, unplaced
}

// splitNetworks returns the networks of one kind with Networks, and the obsolete Networks of the kind.
func splitNetworks(cfg *networkingv1beta1.Configuration, v remappedCIDR, current []ipamv1alpha1.Network) (used map[networkingv1beta1.CIDR]bool, obsolete []*ipamv1alpha1.Network) {
	wanted := map[string]networkingv1beta1.CIDR{}
	for _, cidr := range v.remote {
		wanted[names.ConfigurationNetwork(cfg.Name, v.kind, string(cidr))] = cidr
	}
	used = map[networkingv1beta1.CIDR]bool{}
	for i := range current {
		n := &current[i]
		if n.Labels[names.CIDRType] != v.kind {
			continue
		}
		if cidr, ok := wanted[n.Name]; ok && n.Spec.CIDR == cidr && n.DeletionTimestamp.IsZero() {
			used[cidr] = true
			continue
		}
		obsolete = append(obsolete, n)
	}
	return used, obsolete
}

// replaceNetworks deletes obsolete Networks. A successor first asks for the local prefix of the obsolete Network, so that local addresses in the
// prefix stay the same.
func (s *configurations) replaceNetworks(ctx context.Context, cfg *networkingv1beta1.Configuration, v remappedCIDR, current []ipamv1alpha1.Network, obsolete []*ipamv1alpha1.Network) error {
	for remote, local := range inheritPrefixes(v.remote, current, obsolete) {
		if _, err := s.ensureNetwork(ctx, cfg, v.kind, remote, local); err != nil && !isReported(err) {
			return err
		}
	}
	for _, n := range obsolete {
		if err := s.deleteNetworks(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

// ensureNetwork returns the local prefix of a network of the peer. A new Network prefers a local prefix, unless that is empty.
func (s *configurations) ensureNetwork(ctx context.Context, cfg *networkingv1beta1.Configuration, kind string, remote, preferred networkingv1beta1.CIDR) (networkingv1beta1.CIDR, error) {
	want := &ipamv1alpha1.Network{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: cfg.Namespace,
			Name:      names.ConfigurationNetwork(cfg.Name, kind, string(remote)),
			Labels:    map[string]string{names.RemoteClusterID: cfg.Labels[names.RemoteClusterID], names.CIDRType: kind},
		},
		Spec: ipamv1alpha1.NetworkSpec{CIDR: remote},
	}
	n := &ipamv1alpha1.Network{}
	err := s.client.Get(ctx, client.ObjectKeyFromObject(want), n)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return "", fmt.Errorf("reading the Network %s: %w", want.Name, err)
	case err == nil && !metav1.IsControlledBy(n, cfg):
		return "", kube.Invalid(ReasonNameTaken, fmt.Errorf("the Network %s already exists and was not created for this Configuration: delete it, or rename the Configuration", want.Name))
	}
	if had := n.Annotations[names.PreferredCIDR]; had != "" {
		preferred = networkingv1beta1.CIDR(had)
	}
	if preferred != "" {
		want.Annotations = map[string]string{names.PreferredCIDR: string(preferred)}
	}
	if _, err := kube.Ensure(ctx, s.client, want, kube.OwnedBy(cfg, s.client.Scheme())); err != nil {
		return "", err
	}
	if n.Status.CIDR != "" {
		return n.Status.CIDR, nil
	}
	if c := apimeta.FindStatusCondition(n.Status.Conditions, ipamv1alpha1.ConditionAllocated); c != nil && c.Status == metav1.ConditionFalse {
		return "", kube.Wait(0, fmt.Sprintf("no prefix is allocated for the %s network %s: %s", kind, remote, c.Message))
	}
	return "", kube.Wait(0, fmt.Sprintf("no prefix is allocated yet for the %s network %s", kind, remote))
}
