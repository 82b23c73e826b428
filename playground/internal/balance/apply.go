// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package balance

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/playground/internal/netns"
	"liqo.io/liqo/playground/internal/spec"
)

// writeStatus writes the addresses to the status of Services where they differ.
func (b *balancer) writeStatus(ctx context.Context, s State, p Plan) error {
	var errs error
	for _, svc := range s.Services {
		want, planned := p.Addresses[serviceKey(svc)]
		if !planned || slices.Equal(want, publishedAddresses(s.Cluster, svc)) {
			continue
		}
		svc = svc.DeepCopy()
		svc.Status.LoadBalancer.Ingress = nil
		for _, a := range want {
			svc.Status.LoadBalancer.Ingress = append(svc.Status.LoadBalancer.Ingress,
				corev1.LoadBalancerIngress{IP: a.String(), IPMode: new(corev1.LoadBalancerIPModeVIP)})
		}
		_, err := b.api.CoreV1().Services(svc.Namespace).UpdateStatus(ctx, svc, metav1.UpdateOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			errs = errors.Join(errs, fmt.Errorf("writing the addresses of service %s: %w", serviceKey(svc), err))
			continue
		}
		log.Printf("service %s has %v", serviceKey(svc), want)
	}
	return errs
}

// assignAddresses adds every address to its owner node, and removes it from the other nodes.
func assignAddresses(c spec.Cluster, p Plan) error {
	var errs error
	for _, n := range c.Nodes() {
		ns := c.World.NodeNetns(n.Name)
		assigned, err := assignedAddresses(c, ns)
		if err != nil {
			errs = errors.Join(errs, err)
			continue
		}
		for _, a := range assigned {
			if p.Owners[a] != n.Name {
				errs = errors.Join(errs, netns.Run(ns, fmt.Sprintf("ip addr del %s/%d dev eth0", a, a.BitLen())))
			}
		}
		for a, owner := range p.Owners {
			if owner == n.Name && !slices.Contains(assigned, a) {
				errs = errors.Join(errs, addAddress(c, ns, a))
			}
		}
	}
	return errs
}

// addAddress adds an address to a node, and flushes it from the neighbour caches of the other nodes. The node does not use the address as the
// source of its own connections.
func addAddress(c spec.Cluster, ns string, a netip.Addr) error {
	line := fmt.Sprintf("ip addr replace %s/%d dev eth0", a, a.BitLen())
	if a.Is6() {
		line += " nodad preferred_lft 0"
	}
	if err := netns.Run(ns, line); err != nil {
		return err
	}
	for _, other := range netns.List(c.World.Name + "-") {
		link := "eth0"
		if other == c.World.Netns() {
			link = spec.Bridge
		}
		_ = netns.Run(other, fmt.Sprintf("ip neigh flush to %s dev %s", a, link)) // the namespace may be being removed
	}
	return nil
}

// assignedAddresses returns the addresses of the load balancer's range that a node has.
func assignedAddresses(c spec.Cluster, ns string) ([]netip.Addr, error) {
	if !netns.Exists(ns) {
		return nil, nil
	}
	out, err := netns.Output(ns, "ip -o addr show dev eth0")
	if err != nil {
		return nil, err
	}
	var addrs []netip.Addr
	for _, field := range strings.Fields(out) {
		if p, err := netip.ParsePrefix(field); err == nil && p.IsSingleIP() && inRange(c, p.Addr()) {
			addrs = append(addrs, p.Addr())
		}
	}
	return addrs, nil
}
