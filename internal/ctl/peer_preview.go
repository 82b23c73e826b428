// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

// preview prints what both clusters would be given. What each makes of it is not known before.
func (r *peeringRun) preview(ctx context.Context) error {
	local, remote := &page{side: r.consumer}, &page{side: r.provider}
	if r.network != nil {
		pages, err := r.networkPages(ctx)
		if err != nil {
			return ensuring("networking", err)
		}
		for _, p := range pages {
			if p.id == local.id {
				local.take(p)
			} else {
				remote.take(p)
			}
		}
	}
	a := &authentication{cli: r.cli, consumer: r.consumer, provider: r.provider, inBand: r.options.inBand, proxyURL: r.proxyURL, connects: r.network != nil}
	there, here, err := a.pages(ctx)
	if err != nil {
		return ensuring("authentication", err)
	}
	local.take(here)
	remote.take(there)
	if r.options.createSlice {
		if err := local.rehearse(ctx, r.cli, r.slice); err != nil {
			return ensuring("offloading", err)
		}
		local.add(r.cli, r.slice, "")
	}
	return r.printPages(r.options.format(), toApply, local, remote)
}

func (r *peeringRun) networkPages(ctx context.Context) ([]*page, error) {
	if r.network.tunnel.opposite {
		return r.previewTold(ctx, r.network.both)
	}
	return r.connectPages(ctx, &r.options.connect, r.network.both, r.network.tunnel)
}

// take adds what is on another page, but for a namespace that is there.
func (p *page) take(from *page) {
	for _, e := range from.entries {
		_, isNamespace := e.obj.(*corev1.Namespace)
		if isNamespace && slices.ContainsFunc(p.entries, func(have pageEntry) bool {
			return have.obj.GetName() == e.obj.GetName() && have.obj.GetNamespace() == ""
		}) {
			continue
		}
		p.entries = append(p.entries, e)
	}
}

// preview prints the names of what would be deleted. What was made of it goes by itself.
func (u *unpeering) preview(ctx context.Context) error {
	local, remote := &page{side: u.consumer}, &page{side: u.provider}
	for _, list := range []client.ObjectList{&authv1beta1.ResourceSliceList{}, &offv1beta1.VirtualNodeList{}} {
		found, err := u.ours(ctx, list)
		if err != nil {
			return u.consumer.wrong(err)
		}
		if err := local.addNames(found...); err != nil {
			return err
		}
	}
	if err := u.known.findSecrets(ctx); err != nil {
		return err
	}
	if err := u.known.nameOn(local, remote); err != nil {
		return err
	}
	left, err := u.replicas(ctx)
	if err != nil {
		return err
	}
	for _, of := range left {
		if err := remote.addNames(of.found...); err != nil {
			return err
		}
	}
	if !u.reverse {
		for _, l := range append(gatewaysBetween(u.consumer, u.provider), configurationsBetween(u.consumer, u.provider)...) {
			if err := l.look(ctx); err != nil {
				return l.wrong(err)
			}
			on := local
			if l.id == remote.id {
				on = remote
			}
			if err := on.addNames(l.found...); err != nil {
				return err
			}
		}
	}
	for _, p := range []*page{local, remote} {
		if !u.options.deleteNamespaces {
			break
		}
		ns := &corev1.Namespace{}
		err := p.kube.Get(ctx, client.ObjectKey{Name: p.namespace}, ns)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err == nil {
			err = p.addNames(ns)
		}
		if err != nil {
			return p.wrong(err)
		}
	}
	return u.printPages(u.options.format(), toDelete, local, remote)
}

// addNames adds as much of objects as deleting them takes.
func (p *page) addNames(objs ...client.Object) error {
	for _, obj := range objs {
		bare, err := nameOnly(obj, p.kube.Scheme())
		if err != nil {
			return err
		}
		p.entries = append(p.entries, pageEntry{obj: bare})
	}
	return nil
}
