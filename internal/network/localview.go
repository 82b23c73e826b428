// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
)

const localViewFieldManager = "liqo-configuration-local"

// proxyPatience is how long the publication of a new external CIDR to a peer with the address of the API server proxy is delayed, while the proxy has
// no address in the new CIDR.
const proxyPatience = time.Minute

// requestsForProxy returns requests for all Configurations when the IP of the API server proxy changes.
func (s *configurations) requestsForProxy(ctx context.Context, ip client.Object) []reconcile.Request {
	if ip.GetNamespace() != s.installation || ip.GetName() != names.APIServerProxyIP {
		return nil
	}
	return s.requestsFor(ctx, func(*networkingv1beta1.Configuration) bool { return true })
}

// showLocal sets the networks of this cluster if the user set none, and keeps its own values up to date.
func (s *configurations) showLocal(ctx context.Context, cfg *networkingv1beta1.Configuration) error {
	delete(s.held, cfg.UID)
	_, owned := cfg.Annotations[names.AppliedHash+"."+localViewFieldManager]
	if cfg.Spec.Local != nil && !owned {
		return nil
	}
	local, since, err := s.localConfig(ctx)
	if err != nil || local == nil {
		return err // a watch reports what is granted
	}
	if published := cfg.Spec.Local; published != nil && local.APIServerProxyIP == "" && isIn(published.APIServerProxyIP, local.CIDR.External) {
		local.APIServerProxyIP = published.APIServerProxyIP // no address now: the next one may be seen after the next network
	}
	now := time.Now()
	if delay := publicationDelay(cfg.Spec.Local, local, since, now); delay > 0 {
		setTime(s.held, cfg.UID, now.Add(delay))
		return nil
	}
	err = s.applyLocal(ctx, cfg, *local)
	if err != nil && local.APIServerProxyIP != "" && isUndeclared(err) {
		local.APIServerProxyIP = ""
		err = s.applyLocal(ctx, cfg, *local)
	}
	return err
}

func (s *configurations) applyLocal(ctx context.Context, cfg *networkingv1beta1.Configuration, local networkingv1beta1.ClusterConfig) error {
	want := &networkingv1beta1.Configuration{
		ObjectMeta: metav1.ObjectMeta{Namespace: cfg.Namespace, Name: cfg.Name},
		Spec:       networkingv1beta1.ConfigurationSpec{Local: &local},
	}
	_, err := kube.Ensure(ctx, s.client, want, kube.FieldManager(localViewFieldManager), kube.DecidedOf(cfg.UID))
	return err
}

// isUndeclared reports whether the API server rejected a field missing in the CustomResourceDefinition of an earlier version.
func isUndeclared(err error) bool {
	return strings.Contains(err.Error(), "field not declared in schema")
}

// publicationDelay returns how long the publication of another external CIDR of this cluster, allocated at since, is delayed: a user of the API
// server proxy through the tunnel has to read the next address of the proxy together with the next CIDR.
func publicationDelay(published, next *networkingv1beta1.ClusterConfig, since, now time.Time) time.Duration {
	if published == nil || published.APIServerProxyIP == "" || next.APIServerProxyIP != "" {
		return 0
	}
	return min(max(since.Add(proxyPatience).Sub(now), 0), proxyPatience)
}

// localConfig returns the allocated networks of this cluster as published to peers, and when the newest external one was created; nil while they are
// incomplete.
func (s *configurations) localConfig(ctx context.Context) (local *networkingv1beta1.ClusterConfig, since time.Time, err error) {
	var list ipamv1alpha1.NetworkList
	if err := s.client.List(ctx, &list, client.InNamespace(s.installation), client.HasLabels{names.NetworkType}); err != nil {
		return nil, since, fmt.Errorf("listing the Networks of this cluster: %w", err)
	}
	slices.SortFunc(list.Items, func(a, b ipamv1alpha1.Network) int { return strings.Compare(a.Name, b.Name) })
	out := &networkingv1beta1.ClusterConfig{}
	for i := range list.Items {
		n := &list.Items[i]
		switch kind := n.Labels[names.NetworkType]; {
		case n.Status.CIDR == "":
		case kind == names.NetworkTypePod:
			out.CIDR.Pod = append(out.CIDR.Pod, n.Status.CIDR)
		case kind == names.NetworkTypeExternal:
			out.CIDR.External = append(out.CIDR.External, n.Status.CIDR)
			if created := n.CreationTimestamp.Time; created.After(since) {
				since = created
			}
		}
	}
	if len(out.CIDR.Pod) == 0 || len(out.CIDR.External) == 0 {
		return nil, since, nil
	}
	proxy := &ipamv1alpha1.IP{}
	err = s.client.Get(ctx, client.ObjectKey{Namespace: s.installation, Name: names.APIServerProxyIP}, proxy)
	if client.IgnoreNotFound(err) != nil {
		return nil, since, fmt.Errorf("reading the IP of the API server proxy: %w", err)
	}
	if proxy.Labels[names.IPType] == names.IPTypeAPIServerProxy && isIn(proxy.Status.IP, out.CIDR.External) {
		out.APIServerProxyIP = proxy.Status.IP
	}
	return out, since, nil
}

// isIn reports whether one of the networks contains an address.
func isIn(ip networkingv1beta1.IP, cidrs []networkingv1beta1.CIDR) bool {
	addr, err := netip.ParseAddr(string(ip))
	return err == nil && slices.ContainsFunc(cidrs, func(c networkingv1beta1.CIDR) bool {
		p, err := netip.ParsePrefix(string(c))
		return err == nil && p.Contains(addr)
	})
}
