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

// printDryRun prints the manifests for both clusters. Objects that controllers derive from them are unknown in advance.
func (r *peeringRun) printDryRun(ctx context.Context) error {
	local, remote := &manifestPage{Cluster: r.consumer}, &manifestPage{Cluster: r.provider}
	if r.network != nil {
		pages, err := r.networkPages(ctx)
		if err != nil {
			return wrapEnsuring("networking", err)
		}
		for _, p := range pages {
			if p.id == local.id {
				local.appendManifests(p)
			} else {
				remote.appendManifests(p)
			}
		}
	}
	a := &authentication{cli: r.cli, consumer: r.consumer, provider: r.provider, inBand: r.options.inBand, proxyURL: r.proxyURL, connects: r.network != nil}
	there, here, err := a.buildManifests(ctx)
	if err != nil {
		return wrapEnsuring("authentication", err)
	}
	local.appendManifests(here)
	remote.appendManifests(there)
	if r.options.createSlice {
		if err := local.dryRunCreate(ctx, r.cli, r.slice); err != nil {
			return wrapEnsuring("offloading", err)
		}
		local.addManifest(r.cli, r.slice, "")
	}
	return r.printPages(r.options.outputFormat(), toApply, local, remote)
}

func (r *peeringRun) networkPages(ctx context.Context) ([]*manifestPage, error) {
	if r.network.tunnel.opposite {
		return r.previewTold(ctx, r.network.both)
	}
	return r.connectPages(ctx, &r.options.connect, r.network.both, r.network.tunnel)
}

// appendManifests adds the manifests of another page, without a namespace that is on this page already.
func (p *manifestPage) appendManifests(from *manifestPage) {
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

// printDryRun prints the names of the objects to delete. Dependent objects are deleted by controllers.
func (u *unpeering) printDryRun(ctx context.Context) error {
	local, remote := &manifestPage{Cluster: u.consumer}, &manifestPage{Cluster: u.provider}
	for _, list := range []client.ObjectList{&authv1beta1.ResourceSliceList{}, &offv1beta1.VirtualNodeList{}} {
		found, err := u.ownObjects(ctx, list)
		if err != nil {
			return u.consumer.wrapWithCluster(err)
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
	left, err := u.replicasOf(ctx)
	if err != nil {
		return err
	}
	if err := remote.addNames(left...); err != nil {
		return err
	}
	if !u.reverse {
		for _, l := range append(gatewaysBetween(u.consumer, u.provider), configurationsBetween(u.consumer, u.provider)...) {
			if err := l.readState(ctx); err != nil {
				return l.wrapWithCluster(err)
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
	for _, p := range []*manifestPage{local, remote} {
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
			return p.wrapWithCluster(err)
		}
	}
	return u.printPages(u.options.outputFormat(), toDelete, local, remote)
}

// addNames adds the kinds and names of objects to delete.
func (p *manifestPage) addNames(objs ...client.Object) error {
	for _, obj := range objs {
		bare, err := nameOnly(obj, p.kube.Scheme())
		if err != nil {
			return err
		}
		p.entries = append(p.entries, pageEntry{obj: bare})
	}
	return nil
}
