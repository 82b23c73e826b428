// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ipam

import (
	"context"
	"fmt"
	"strings"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
)

// ips gives each IP its address.
type ips struct {
	client client.Client
	ledger *ledger
}

func setupIPs(mgr ctrl.Manager, l *ledger) error {
	i := &ips{client: mgr.GetClient(), ledger: l}
	c := kube.NewController[*ipamv1alpha1.IP](mgr, kube.Options{Name: "ip"}, i)
	b := c.Builder().
		Watches(&ipamv1alpha1.IP{}, heard(l.seeIP, l.drop, nil, l.ipsWithout)).
		Watches(&ipamv1alpha1.Network{}, heard(l.seeNetwork, l.drop, l.ipsWithout, nil))
	return c.Complete(b)
}

// Sync grants.
func (i *ips) Sync(ctx context.Context, ip *ipamv1alpha1.IP) error {
	of, err := i.ledger.networkFor(ip)
	if err != nil && ip.Status.IP == "" {
		return err
	}
	if err == nil {
		if err := i.label(ctx, ip, of); err != nil {
			return err
		}
	}
	a, err := i.ledger.toIP(ctx, ip, func() (network, error) { return i.ledger.networkFor(ip) })
	if err != nil {
		return err
	}
	ip.Status.IP, ip.Status.CIDR = networkingv1beta1.IP(a.addr.String()), networkingv1beta1.CIDR(a.within.String())
	return nil
}

// label says on an IP which Network its address is of.
func (i *ips) label(ctx context.Context, ip *ipamv1alpha1.IP, of network) error {
	if ip.Labels[names.NetworkNamespace] == of.key.Namespace && ip.Labels[names.NetworkName] == of.key.Name {
		return nil
	}
	labelled := ip.DeepCopy()
	if labelled.Labels == nil {
		labelled.Labels = map[string]string{}
	}
	labelled.Labels[names.NetworkNamespace], labelled.Labels[names.NetworkName] = of.key.Namespace, of.key.Name
	if err := i.client.Patch(ctx, labelled, client.MergeFrom(ip)); err != nil {
		return fmt.Errorf("labelling the IP: %w", err)
	}
	return nil
}

// networkFor returns the Network that an IP's address is of: the one that it names, or the external CIDR.
func (l *ledger) networkFor(ip *ipamv1alpha1.IP) (network, error) {
	match, what := func(n network) bool { return n.kind == names.NetworkTypeExternal }, "the external CIDR"
	if ref := ip.Spec.NetworkRef; ref != nil {
		key := client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}
		match, what = func(n network) bool { return n.key == key }, "Network "+key.String()
	}
	found := l.networksThat(func(n network) bool { return match(n) && !n.going })
	switch {
	case len(found) == 0:
		return network{}, kube.Wait(0, what+" is missing")
	case len(found) > 1:
		var all []string
		for _, n := range found {
			all = append(all, n.key.String())
		}
		return network{}, kube.Invalid(reasonAmbiguous, fmt.Errorf("more than one Network is %s: %s; keep one", what, strings.Join(all, ", ")))
	case !found[0].granted.IsValid():
		return network{}, kube.Wait(0, what+" has no prefix yet")
	}
	return found[0], nil
}

// Report says whether the IP has its address, or why not.
func (i *ips) Report(ip *ipamv1alpha1.IP, err error) []kube.Event {
	return report(&ip.Status.Conditions, ip.Generation, string(ip.Status.IP), err)
}

// Recall tells what the condition says.
func (i *ips) Recall(ip *ipamv1alpha1.IP) []kube.Event { return recall(ip.Status.Conditions) }
