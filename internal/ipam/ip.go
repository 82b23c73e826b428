// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ipam

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
)

// ips reconciles IPs: each gets an address, and a Service if it has a template.
type ips struct {
	client    client.Client
	allocator *allocator
	services  *services
}

func setupIPs(mgr ctrl.Manager, l *allocator) error {
	services, slices, err := newServices(mgr)
	if err != nil {
		return err
	}
	i := &ips{client: mgr.GetClient(), allocator: l, services: services}
	c := kube.NewController[*ipamv1alpha1.IP](mgr, kube.Options{Name: "ip"}, i)
	owner := handler.TypedEnqueueRequestForOwner[*discoveryv1.EndpointSlice](mgr.GetScheme(), mgr.GetRESTMapper(), &ipamv1alpha1.IP{}, handler.OnlyControllerOwner())
	b := c.Builder().
		Owns(&corev1.Service{}).
		WatchesRawSource(source.Kind(slices, &discoveryv1.EndpointSlice{}, owner)).
		Watches(&ipamv1alpha1.IP{}, l.eventHandler(l.ipsBeside)).
		Watches(&ipamv1alpha1.Network{}, l.eventHandler(l.ipsOf))
	return c.Complete(b)
}

// ipsOf returns the IPs waiting for an address of a Network, and those whose address is of no Network any more.
func (l *allocator) ipsOf(obj client.Object) []client.ObjectKey {
	n, ok := obj.(*ipamv1alpha1.Network)
	if !ok {
		return nil
	}
	of := networkOf(n, l.installation)
	lost := l.lostAddresses()
	return l.aliasesThat(func(a aliasClaim) bool { return !a.addr.IsValid() && a.asksIn(of) || lost(a) })
}

// ipsBeside returns the IPs without an address that could get the address of a deleted IP.
func (l *allocator) ipsBeside(obj client.Object) []client.ObjectKey {
	ip, ok := obj.(*ipamv1alpha1.IP)
	if !ok {
		return nil
	}
	gone := aliasOf(ip)
	of := l.networksThat(func(n networkClaim) bool { return n.granted.IsValid() && n.granted.Contains(gone.addr) })
	return l.aliasesThat(func(a aliasClaim) bool { return !a.addr.IsValid() && slices.ContainsFunc(of, a.asksIn) })
}

// Sync allocates the address of an IP, sets its labels and maintains its Service.
func (i *ips) Sync(ctx context.Context, ip *ipamv1alpha1.IP) error {
	if i.allocator.lostAddresses()(aliasOf(ip)) {
		ip.Status.PreviousIPs = withPrevious(ip.Status.IP, ip.Status.PreviousIPs)
		ip.Status.IP, ip.Status.CIDR = "", ""
		return kube.Wait(0, "the Network of the address is gone: the IP gets another address")
	}
	if ip.Status.IP == "" {
		written, err := i.allocator.toIP(ctx, ip)
		if err != nil || written == nil {
			return err
		}
		ip.Status.IP, ip.Status.CIDR, ip.ResourceVersion = written.Status.IP, written.Status.CIDR, written.ResourceVersion
	}
	if err := i.labelIP(ctx, ip); err != nil {
		return err
	}
	return i.services.syncService(ctx, ip)
}

// withPrevious puts an address first among the previous addresses, and keeps the newest of them.
func withPrevious(first networkingv1beta1.IP, previous []networkingv1beta1.IP) []networkingv1beta1.IP {
	out := append([]networkingv1beta1.IP{first}, slices.DeleteFunc(slices.Clone(previous), func(ip networkingv1beta1.IP) bool { return ip == first })...)
	return out[:min(len(out), ipamv1alpha1.MaxPreviousIPs)]
}

// labelIP sets the labels with the IP's Network, if the Network exists and its name is a valid label value.
func (i *ips) labelIP(ctx context.Context, ip *ipamv1alpha1.IP) error {
	mine := aliasOf(ip)
	of := i.allocator.networksThat(func(n networkClaim) bool { return n.granted.IsValid() && n.granted == mine.within && mine.asksIn(n) })
	if len(of) != 1 || len(of[0].key.Name) > validation.LabelValueMaxLength {
		return nil
	}
	key := of[0].key
	if ip.Labels[names.NetworkNamespace] == key.Namespace && ip.Labels[names.NetworkName] == key.Name {
		return nil
	}
	labelled := ip.DeepCopy()
	if labelled.Labels == nil {
		labelled.Labels = map[string]string{}
	}
	labelled.Labels[names.NetworkNamespace], labelled.Labels[names.NetworkName] = key.Namespace, key.Name
	if err := i.client.Patch(ctx, labelled, client.MergeFrom(ip)); err != nil {
		return fmt.Errorf("labelling the IP: %w", err)
	}
	ip.ResourceVersion = labelled.ResourceVersion
	return nil
}

// Report sets the condition of the IP and returns its events. A problem of the Service does not concern the address.
func (i *ips) Report(ip *ipamv1alpha1.IP, err error) []kube.Event {
	if ip.Status.IP != "" {
		return append(reportCondition(&ip.Status.Conditions, ip.Generation, string(ip.Status.IP), nil), kube.Warnings(err)...)
	}
	return reportCondition(&ip.Status.Conditions, ip.Generation, string(ip.Status.IP), err)
}

// ReplayEvents returns the event of the present condition.
func (i *ips) ReplayEvents(ip *ipamv1alpha1.IP) []kube.Event {
	return replayEvents(ip.Status.Conditions)
}
