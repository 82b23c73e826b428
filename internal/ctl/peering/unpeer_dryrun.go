// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/network"
)

// printDryRun prints the names of the objects to delete. Dependent objects are deleted by controllers.
func (u *unpeering) printDryRun(ctx context.Context) error {
	local, remote := &cluster.ManifestPage{Cluster: u.consumer}, &cluster.ManifestPage{Cluster: u.provider}
	for _, list := range []client.ObjectList{&authv1beta1.ResourceSliceList{}, &offv1beta1.VirtualNodeList{}} {
		found, err := u.ownObjects(ctx, list)
		if err != nil {
			return u.consumer.WrapWithCluster(err)
		}
		if err := local.AddNames(found...); err != nil {
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
	if err := remote.AddNames(left...); err != nil {
		return err
	}
	if !u.reverse {
		for _, l := range append(network.GatewaysBetween(u.consumer, u.provider), network.ConfigurationsBetween(u.consumer, u.provider)...) {
			if err := l.ReadState(ctx); err != nil {
				return l.WrapWithCluster(err)
			}
			on := local
			if l.ID == remote.ID {
				on = remote
			}
			if err := on.AddNames(l.Found...); err != nil {
				return err
			}
		}
	}
	for _, p := range []*cluster.ManifestPage{local, remote} {
		if !u.options.deleteNamespaces {
			break
		}
		ns := &corev1.Namespace{}
		err := p.Kube.Get(ctx, client.ObjectKey{Name: p.Namespace}, ns)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err == nil {
			err = p.AddNames(ns)
		}
		if err != nil {
			return p.WrapWithCluster(err)
		}
	}
	return u.PrintPages(u.options.OutputFormat(), cluster.ToDelete, local, remote)
}
