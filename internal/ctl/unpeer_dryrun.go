// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

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
