// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package ipam grants prefixes to Networks and addresses to IPs. What was granted is in their statuses and nowhere else, so
// that a process which starts knows as much as the one before; no two ever get the same, whoever believes to lead.
package ipam

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "liqo.io/liqo/api/ipam/v1alpha1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/ipam/tree"
	"liqo.io/liqo/internal/kube"
)

// retryDelay is how long to leave the turnstile to another process.
const retryDelay = 200 * time.Millisecond

// Kinds of objects that are granted something, and reasons why one is not.
const (
	kindNetwork = "Network"
	kindIP      = "IP"

	reasonConflict   = "Conflict"
	reasonExhausted  = "Exhausted"
	reasonOutOfPools = "OutOfPools"
	reasonAmbiguous  = "Ambiguous"
)

// ledger grants, one grant after the other.
type ledger struct {
	*book
	direct client.Client // without cache
	pools  []netip.Prefix
	// others are addresses of the cluster that no Network has, such as its nodes'.
	others func(ctx context.Context) ([]tree.Claim, error)

	granting  sync.Mutex // guards turnstile
	turnstile turnstile
}

// toNetwork returns the prefix of a Network, granting it first if need be. The error is Invalid when there is none to be had.
func (l *ledger) toNetwork(ctx context.Context, n *ipamv1alpha1.Network) (netip.Prefix, error) {
	l.seeNetwork(n)
	err := l.grant(ctx, func() (*note, error) {
		known, ok := l.network(n.UID)
		if !ok || known.granted.IsValid() {
			return nil, nil
		}
		others, err := l.others(ctx)
		if err != nil {
			return nil, err
		}
		granted, err := tree.Grant(l.pools, append(l.claims(n.UID), others...), known.want)
		if err != nil {
			return nil, invalid(err)
		}
		return &note{Kind: kindNetwork, Namespace: n.Namespace, Name: n.Name, UID: n.UID, CIDR: granted.String()}, nil
	})
	if err != nil {
		return netip.Prefix{}, err
	}
	known, ok := l.network(n.UID)
	if !ok {
		return netip.Prefix{}, kube.Wait(0, "the Network is gone")
	}
	return known.granted, nil
}

func invalid(err error) error {
	reason := reasonExhausted
	if _, ok := errors.AsType[*tree.Conflict](err); ok {
		reason = reasonConflict
	}
	if _, ok := errors.AsType[*tree.OutOfPools](err); ok {
		reason = reasonOutOfPools
	}
	return kube.Invalid(reason, err)
}

// toIP returns the address of an IP, granting one of the Network that find returns first if need be. The error is Invalid when
// there is none to be had.
func (l *ledger) toIP(ctx context.Context, ip *ipamv1alpha1.IP, find func() (network, error)) (address, error) {
	l.seeIP(ip)
	err := l.grant(ctx, func() (*note, error) {
		if _, ok := l.address(ip.UID); ok {
			return nil, nil
		}
		of, err := find()
		if err != nil {
			return nil, err
		}
		addr, ok := l.free(of)
		if !ok {
			return nil, kube.Invalid(reasonExhausted, fmt.Errorf("no address is free in %s of Network %s", of.granted, of.key))
		}
		return &note{Kind: kindIP, Namespace: ip.Namespace, Name: ip.Name, UID: ip.UID, CIDR: of.granted.String(), IP: addr.String()}, nil
	})
	if err != nil {
		return address{}, err
	}
	a, ok := l.address(ip.UID)
	if !ok {
		return address{}, kube.Wait(0, "the IP is gone")
	}
	return a, nil
}

// grant has decide choose while nobody else does, and writes what it chose into the status. decide returns nil when there is
// nothing to be granted. What it refuses it refuses on what the API server says, not on what was heard of it.
func (l *ledger) grant(ctx context.Context, decide func() (*note, error)) error {
	l.granting.Lock()
	defer l.granting.Unlock()
	last, alone, err := l.turnstile.enter(ctx)
	if err != nil {
		return err
	}
	if !alone {
		if err := l.catchUp(ctx, last); err != nil {
			l.turnstile.leave()
			return err
		}
	}
	chosen, err := decide()
	if _, refused := kube.InvalidReason(err); refused && alone {
		if err := l.read(ctx); err != nil {
			return err
		}
		chosen, err = decide()
	}
	if err != nil || chosen == nil {
		return err
	}
	if err := l.turnstile.pass(ctx, *chosen); err != nil {
		l.turnstile.leave()
		return err
	}
	if err := l.write(ctx, *chosen); err != nil {
		l.turnstile.leave()
		return err
	}
	return nil
}

// catchUp makes the book complete after somebody else may have granted something.
func (l *ledger) catchUp(ctx context.Context, last *note) error {
	if last != nil {
		if err := l.write(ctx, *last); err != nil {
			return err
		}
	}
	return l.read(ctx)
}

// read makes the book say what the API server says.
func (l *ledger) read(ctx context.Context) error {
	var networks ipamv1alpha1.NetworkList
	if err := l.direct.List(ctx, &networks); err != nil {
		return fmt.Errorf("listing Networks: %w", err)
	}
	var ips ipamv1alpha1.IPList
	if err := l.direct.List(ctx, &ips); err != nil {
		return fmt.Errorf("listing IPs: %w", err)
	}
	l.replace(networks.Items, ips.Items)
	return nil
}

// usersOf counts the IPs that have addresses of a prefix, as the API server has them.
func (l *ledger) usersOf(ctx context.Context, p netip.Prefix) (int, error) {
	l.granting.Lock()
	defer l.granting.Unlock()
	if err := l.read(ctx); err != nil {
		return 0, err
	}
	return l.inUse(p), nil
}

// write makes a status say what was granted, unless it says something already or its object is gone, and enters into the book
// what it says then.
func (l *ledger) write(ctx context.Context, n note) error {
	key := client.ObjectKey{Namespace: n.Namespace, Name: n.Name}
	for {
		err := l.tryWrite(ctx, key, n)
		if apierrors.IsConflict(err) { // somebody changes something else of it
			continue
		}
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("writing what was granted to %s %s: %w", n.Kind, key, err)
		}
		return nil
	}
}

func (l *ledger) tryWrite(ctx context.Context, key client.ObjectKey, n note) error {
	switch n.Kind {
	case kindNetwork:
		now := &ipamv1alpha1.Network{}
		if err := l.direct.Get(ctx, key, now); err != nil || now.UID != n.UID {
			return err
		}
		if now.Status.CIDR == "" {
			before := now.DeepCopy()
			now.Status.CIDR = networkingv1beta1.CIDR(n.CIDR)
			if err := l.patchStatus(ctx, before, now); err != nil {
				return err
			}
		}
		l.grantNetwork(n.UID, prefix(string(now.Status.CIDR)))
	case kindIP:
		now := &ipamv1alpha1.IP{}
		if err := l.direct.Get(ctx, key, now); err != nil || now.UID != n.UID {
			return err
		}
		if now.Status.IP == "" {
			before := now.DeepCopy()
			now.Status.IP, now.Status.CIDR = networkingv1beta1.IP(n.IP), networkingv1beta1.CIDR(n.CIDR)
			if err := l.patchStatus(ctx, before, now); err != nil {
				return err
			}
		}
		if a, ok := addressOf(now); ok {
			l.grantIP(n.UID, a)
		}
	}
	return nil
}

func (l *ledger) patchStatus(ctx context.Context, before, now client.Object) error {
	return l.direct.Status().Patch(ctx, now, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}
