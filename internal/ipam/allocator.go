// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package ipam allocates prefixes to Networks and addresses to IPs. Allocations are stored in the objects' statuses only, so that a new leader has
// the same knowledge as its predecessor. No prefix or address is allocated twice, even with two processes acting as leader.
package ipam

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/prefix"
)

// Kinds of objects with allocations, and reasons of rejections.
const (
	kindNetwork = "Network"
	kindIP      = "IP"
	kindNode    = "InternalNode"

	reasonInvalidCIDR   = "InvalidCIDR"
	reasonInvalidStatus = "InvalidStatus"
	reasonConflict      = "Conflict"
	reasonExhausted     = "Exhausted"
	reasonOutOfPools    = "OutOfPools"
	reasonAmbiguous     = "Ambiguous"
	reasonNoNetwork     = "NoNetwork"
)

// allocator serialises allocations.
type allocator struct {
	*allocations
	direct client.Client // uncached
	pools  []netip.Prefix
	// nodes returns the addresses of the cluster's nodes.
	nodes func(ctx context.Context) ([]prefix.Claim, error)

	granting sync.Mutex // guards the fields below
	lock     allocationLock
	read     time.Time // time of the last full read of the API server
	started  time.Time // of this process
}

// toNetwork allocates a prefix to a Network without one. toNetwork returns the updated Network, nil without a write. The error is Invalid if no
// prefix is available.
func (l *allocator) toNetwork(ctx context.Context, n *ipamv1alpha1.Network) (*ipamv1alpha1.Network, error) {
	if known, ok := l.networkOf(n.UID); ok && known.granted.IsValid() {
		return nil, allocationNotCached()
	}
	written, err := l.grantAddress(ctx, n.UID, func() (*grantRecord, error) {
		known, ok := l.networkOf(n.UID)
		switch {
		case !ok:
			return nil, notYetCached()
		case known.granted.IsValid():
			return nil, allocationNotCached()
		case !known.want.Prefix.IsValid():
			return nil, kube.Invalid(reasonInvalidCIDR, fmt.Errorf("%q is not written as a prefix is: without leading zeros, and IPv4 not as IPv6", n.Spec.CIDR))
		}
		if err := l.awaitPredecessor(n); err != nil {
			return nil, err
		}
		nodes, err := l.nodes(ctx)
		if err != nil {
			return nil, err
		}
		granted, err := prefix.Grant(l.pools, append(l.claimsOf(n.UID), nodes...), known.want)
		if err != nil {
			return nil, invalidError(err)
		}
		return &grantRecord{Kind: kindNetwork, Namespace: n.Namespace, Name: n.Name, UID: n.UID, CIDR: granted.String()}, nil
	})
	now, _ := written.(*ipamv1alpha1.Network)
	return now, err
}

// predecessorTimeout limits the wait for a prefix that another Network still has, from the creation of the new Network and from the start of this
// process.
const predecessorTimeout = 30 * time.Second

// awaitPredecessor returns a Wait while another Network of the namespace has the prefix preferred by a new Network: the old Network is about to be
// deleted.
func (l *allocator) awaitPredecessor(n *ipamv1alpha1.Network) error {
	since := n.CreationTimestamp.Time
	if l.started.After(since) {
		since = l.started
	}
	preferred, remaining := parsePrefix(n.Annotations[names.PreferredCIDR]), predecessorTimeout-time.Since(since)
	if !preferred.IsValid() || remaining <= 0 {
		return nil
	}
	of := l.networksThat(func(o networkClaim) bool {
		return o.key.Namespace == n.Namespace && o.key.Name != n.Name && o.granted.IsValid() && o.granted.Overlaps(preferred)
	})
	if len(of) == 0 {
		return nil
	}
	return kube.Wait(remaining, fmt.Sprintf("the Network %s, whose prefix this one gets, is being deleted", of[0].key))
}

// allocationNotCached is the result for an object whose allocation is known, but not in the object as read. The allocation may just have been removed:
// then no event follows.
func allocationNotCached() error {
	return kube.Wait(time.Second, "the allocation is not in the cache yet")
}

// notYetCached is the result for an object without any event yet: the informer will deliver an event, or the object is deleted.
func notYetCached() error { return kube.Wait(time.Second, "the object is not in the cache yet") }

func invalidError(err error) error {
	reason := reasonExhausted
	if _, ok := errors.AsType[*prefix.Conflict](err); ok {
		reason = reasonConflict
	}
	if _, ok := errors.AsType[*prefix.OutOfPools](err); ok {
		reason = reasonOutOfPools
	}
	return kube.Invalid(reason, err)
}

// toIP is toNetwork for an IP without an address.
func (l *allocator) toIP(ctx context.Context, ip *ipamv1alpha1.IP) (*ipamv1alpha1.IP, error) {
	grant := grantRecord{Kind: kindIP, Namespace: ip.Namespace, Name: ip.Name, UID: ip.UID}
	written, err := l.grantFree(ctx, grant, ip.Status.CIDR != "", l.freeAddress)
	now, _ := written.(*ipamv1alpha1.IP)
	return now, err
}

// toNode is toNetwork for a node without an external address.
func (l *allocator) toNode(ctx context.Context, n *networkingv1beta1.InternalNode) error {
	_, err := l.grantFree(ctx, grantRecord{Kind: kindNode, Name: n.Name, UID: n.UID}, false, l.freeForNode)
	return err
}

// grantFree grants the address found by free in a Network. bound reports whether the status names a prefix without an address.
func (l *allocator) grantFree(ctx context.Context, grant grantRecord, bound bool, free func(networkClaim, aliasClaim) (netip.Addr, bool)) (client.Object, error) {
	if known, ok := l.aliasOf(grant.UID); ok && known.addr.IsValid() {
		return nil, allocationNotCached()
	}
	return l.grantAddress(ctx, grant.UID, func() (*grantRecord, error) {
		known, ok := l.aliasOf(grant.UID)
		switch {
		case !ok:
			return nil, notYetCached()
		case known.addr.IsValid():
			return nil, allocationNotCached()
		case bound: // no address of another prefix may be written beside it
			return nil, kube.Invalid(reasonInvalidStatus, errors.New("status.cidr is set and status.ip is not: recreate the IP"))
		}
		of, err := l.networkFor(known)
		if err != nil {
			return nil, err
		}
		addr, ok := free(of, known)
		if !ok {
			return nil, kube.Invalid(reasonExhausted, fmt.Errorf("no address is free in %s of Network %s", of.granted, of.key))
		}
		grant.CIDR, grant.IP = of.granted.String(), addr.String()
		return &grant, nil
	})
}

// networkFor returns the Network from which an IP gets an address: the Network named by the IP, or the external CIDR.
func (l *allocator) networkFor(a aliasClaim) (networkClaim, error) {
	what := "the external CIDR"
	if a.network != (client.ObjectKey{}) {
		what = "Network " + a.network.String()
	}
	found := l.networksThat(func(n networkClaim) bool { return a.asksIn(n) && !n.going })
	switch {
	case len(found) == 0:
		return networkClaim{}, kube.Invalid(reasonNoNetwork, errors.New(what+" is missing"))
	case len(found) > 1:
		var all []string
		for _, n := range found {
			all = append(all, n.key.String())
		}
		return networkClaim{}, kube.Invalid(reasonAmbiguous, fmt.Errorf("more than one Network is %s: %s; keep one", what, strings.Join(all, ", ")))
	case !found[0].granted.IsValid():
		return networkClaim{}, kube.Invalid(reasonNoNetwork, errors.New(what+" has no prefix yet"))
	}
	return found[0], nil
}

// maxReadAge is the maximum age of a full read of the API server for a rejection.
const maxReadAge = 5 * time.Second

// grantAddress calls decide under the lock and writes the chosen allocation. decide returns nil if no allocation is needed. A rejection is
// final only if the API server was read just before.
func (l *allocator) grantAddress(ctx context.Context, owner types.UID, decide func() (*grantRecord, error)) (client.Object, error) {
	l.granting.Lock()
	defer l.granting.Unlock()
	if err := l.acquireLock(ctx); err != nil {
		return nil, err
	}
	chosen, err := decide()
	if _, refused := kube.InvalidReason(err); (refused || !l.isKnown(owner)) && time.Since(l.read) > maxReadAge {
		if err := l.rereadAll(ctx); err != nil {
			return nil, err
		}
		chosen, err = decide()
	}
	if err != nil || chosen == nil {
		return nil, err
	}
	return l.recordGrant(ctx, *chosen)
}

func (l *allocator) isKnown(uid types.UID) bool {
	_, network := l.networkOf(uid)
	_, alias := l.aliasOf(uid)
	return network || alias
}

// acquireLock completes the allocations, unless this process made the last allocation.
func (l *allocator) acquireLock(ctx context.Context) error {
	last, sole, err := l.lock.acquireLease(ctx)
	if err != nil || sole {
		return err
	}
	if last != nil {
		_, err = l.writeGrant(ctx, *last)
	}
	if err == nil {
		err = l.rereadAll(ctx)
	}
	if err != nil {
		l.lock.releaseLease()
	}
	return err
}

// recordGrant records an allocation on the lease and writes it to the status.
func (l *allocator) recordGrant(ctx context.Context, n grantRecord) (client.Object, error) {
	err := l.lock.recordGrant(ctx, n)
	var written client.Object
	if err == nil {
		written, err = l.writeGrant(ctx, n)
	}
	if err != nil {
		l.lock.releaseLease()
	}
	return written, err
}

// rereadAll replaces all by the state of the API server.
func (l *allocator) rereadAll(ctx context.Context) error {
	start := time.Now()
	l.startRecording()
	var networks ipamv1alpha1.NetworkList
	if err := l.direct.List(ctx, &networks); err != nil {
		return fmt.Errorf("listing Networks: %w", err)
	}
	var ips ipamv1alpha1.IPList
	if err := l.direct.List(ctx, &ips); err != nil {
		return fmt.Errorf("listing IPs: %w", err)
	}
	var nodes networkingv1beta1.InternalNodeList
	if err := l.direct.List(ctx, &nodes); err != nil {
		return fmt.Errorf("listing InternalNodes: %w", err)
	}
	l.replaceAll(networks.Items, ips.Items, nodes.Items)
	l.read = start
	return nil
}

// releaseAll returns the number of IPs with addresses of a Network being deleted. After a result of 0 no IP can get an address of the Network.
func (l *allocator) releaseAll(ctx context.Context, n *ipamv1alpha1.Network) (used int, err error) {
	p := parseStored(string(n.Status.CIDR))
	key := client.ObjectKeyFromObject(n)
	users := func() int {
		others := l.networksThat(func(o networkClaim) bool { return o.granted == p && o.key != key })
		if !p.IsValid() || len(others) > 0 { // shared: other Networks keep the prefix
			return 0
		}
		return len(l.aliasesThat(func(a aliasClaim) bool { return !a.node && a.within == p })) // nodes get another address
	}
	if used = users(); used > 0 {
		return used, nil
	}
	l.granting.Lock()
	defer l.granting.Unlock()
	l.lock.releaseLease()
	if err := l.acquireLock(ctx); err != nil {
		return 0, err
	}
	if used = users(); used > 0 {
		return used, nil
	}
	// Other processes must read the deletion of this Network before their next allocation.
	_, err = l.recordGrant(ctx, grantRecord{})
	return 0, err
}

// attempts limits the retries of a status update after conflicts.
const attempts = 10

// writeGrant writes an allocation to the status, unless the status has an allocation already or the object is deleted, and updates the allocations
// with the result. writeGrant returns the written object, nil without a write.
func (l *allocator) writeGrant(ctx context.Context, n grantRecord) (client.Object, error) {
	var err error
	for range attempts {
		var written client.Object
		written, err = l.tryWrite(ctx, n)
		if err == nil {
			return written, nil
		}
		if !apierrors.IsConflict(err) {
			break
		}
	}
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return nil, fmt.Errorf("writing the allocation of %s %s/%s: %w", n.Kind, n.Namespace, n.Name, err)
}

func (l *allocator) tryWrite(ctx context.Context, n grantRecord) (client.Object, error) {
	var now client.Object
	switch n.Kind {
	case kindNetwork:
		now = &ipamv1alpha1.Network{}
	case kindIP:
		now = &ipamv1alpha1.IP{}
	case kindNode:
		now = &networkingv1beta1.InternalNode{}
	default:
		return nil, nil // only a turn of the lock, without an allocation
	}
	if err := l.direct.Get(ctx, client.ObjectKey{Namespace: n.Namespace, Name: n.Name}, now); err != nil || now.GetUID() != n.UID {
		return nil, err
	}
	before := now.DeepCopyObject().(client.Object)
	if !setStatus(now, n) {
		l.recordObject(now)
		return nil, nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	var err error
	if n.Kind == kindNode {
		err = l.direct.Patch(ctx, now, patch)
	} else {
		err = l.direct.Status().Patch(ctx, now, patch)
	}
	if err != nil {
		return nil, err
	}
	l.recordObject(now)
	return now, nil
}

// setStatus sets the allocation in an empty status, for an InternalNode in the spec.
func setStatus(obj client.Object, n grantRecord) bool {
	switch obj := obj.(type) {
	case *ipamv1alpha1.Network:
		if obj.Status.CIDR != "" {
			return false
		}
		obj.Status.CIDR = networkingv1beta1.CIDR(n.CIDR)
	case *ipamv1alpha1.IP:
		if obj.Status.IP != "" {
			return false
		}
		obj.Status.IP, obj.Status.CIDR = networkingv1beta1.IP(n.IP), networkingv1beta1.CIDR(n.CIDR)
	case *networkingv1beta1.InternalNode:
		if obj.Spec.Interface.Node.IP != "" {
			return false
		}
		obj.Spec.Interface.Node.IP, obj.Spec.Interface.Gateway.Name = networkingv1beta1.IP(n.IP), names.FabricDevice
	}
	return true
}

func newAllocator(direct client.Client, o Options, nodes func(context.Context) ([]prefix.Claim, error)) *allocator {
	return &allocator{
		allocations: newBook(o.LiqoNamespace),
		direct:      direct,
		pools:       o.Pools,
		nodes:       nodes,
		started:     time.Now(),
		lock: allocationLock{
			client: direct,
			key:    client.ObjectKey{Namespace: o.LiqoNamespace, Name: names.IPAMLease},
		},
	}
}
