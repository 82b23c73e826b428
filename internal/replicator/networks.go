// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package replicator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/multicluster"
	"liqo.io/liqo/internal/peer"
	"liqo.io/liqo/internal/policy"
)

// networkKinds report the networks of each cluster to the Configurations of the other, in both directions, as for endpoints: the report is
// the only field that the peer permits to write.
func (l *link) networkKinds() []multicluster.Kind {
	toLocal, toPeer := networkReporter{}, networkReporter{}
	return []multicluster.Kind{{
		Name: "configurations", Workers: 1,
		Local:  []multicluster.Source{gatewaysTo(l.ends.peer, &networkingv1beta1.Configuration{}, false)},
		Remote: []multicluster.Source{gatewaysTo(l.ends.local, &networkingv1beta1.Configuration{}, true)},
		Sync: func(ctx context.Context, it *multicluster.Item) error {
			return errors.Join(
				toLocal.reportNetworks(ctx, it.Remote, l.ends.local, it.Local),
				toPeer.reportNetworks(ctx, it.Local, l.ends.peer, it.Remote),
			)
		},
	}}
}

// networkReporter is the last report to each Configuration; see endpointReporter.
type networkReporter map[types.UID]*networkingv1beta1.ClusterConfig

// reportNetworks reports the own networks of one cluster, from its Configuration of the other, to the Configurations in the other.
func (r networkReporter) reportNetworks(ctx context.Context, from multicluster.Cluster, of liqov1beta1.ClusterID, to multicluster.Cluster) error {
	var owned, others networkingv1beta1.ConfigurationList
	if err := errors.Join(from.List(&owned), to.List(&others)); err != nil {
		return fmt.Errorf("listing Configurations: %w", err)
	}
	effective := peer.Configuration(owned.Items, of)
	if effective == nil {
		return nil
	}
	networks := policy.PeerNetworks(effective.Spec.Local)
	if networks == nil {
		return nil // the previous report stays
	}
	maps.DeleteFunc(r, func(uid types.UID, _ *networkingv1beta1.ClusterConfig) bool {
		return !slices.ContainsFunc(others.Items, func(c networkingv1beta1.Configuration) bool { return c.UID == uid })
	})
	var errs []error
	for i := range others.Items {
		c := &others.Items[i]
		if c.Status.ReportedRemote != nil && equality.Semantic.DeepEqual(r[c.UID], networks) {
			continue
		}
		if err := writeNetworks(ctx, to.Client(), c, networks); err != nil {
			errs = append(errs, err)
			continue
		}
		r[c.UID] = networks
	}
	return errors.Join(errs...)
}

// writeNetworks patches only that field: the peer would reject a patch of another field.
func writeNetworks(ctx context.Context, c client.Client, configuration *networkingv1beta1.Configuration, want *networkingv1beta1.ClusterConfig) error {
	if equality.Semantic.DeepEqual(configuration.Status.ReportedRemote, want) {
		return nil
	}
	before := configuration.DeepCopy()
	configuration.Status.ReportedRemote = want.DeepCopy()
	if err := client.IgnoreNotFound(c.Status().Patch(ctx, configuration, client.MergeFrom(before))); err != nil {
		err = fmt.Errorf("reporting the networks to Configuration %s: %w", before.Name, err)
		if apierrors.IsInvalid(err) {
			return kube.Invalid(reasonInvalidStatus, err)
		}
		return err
	}
	return nil
}
