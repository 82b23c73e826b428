// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/names"
)

// FindOfPeer lists all objects of a kind about the other cluster, in all namespaces: objects made by hand may be anywhere. A user who may not list
// all namespaces gets the objects of the tenant namespace. A kind unknown to the cluster has no objects.
func FindOfPeer(ctx context.Context, s *cluster.Cluster, list client.ObjectList, other string) ([]client.Object, error) {
	found, err := ListLabelled(ctx, s, list, client.MatchingLabels{names.RemoteClusterID: other})
	if err != nil {
		return nil, fmt.Errorf("listing the objects about %s: %w", other, err)
	}
	return found, nil
}

// ListLabelled is FindOfPeer with other list options.
func ListLabelled(ctx context.Context, s *cluster.Cluster, list client.ObjectList, of ...client.ListOption) ([]client.Object, error) {
	err := s.Kube.List(ctx, list, of...)
	if apierrors.IsForbidden(err) {
		err = s.Kube.List(ctx, list, append(slices.Clone(of), client.InNamespace(s.Namespace))...)
	}
	if apimeta.IsNoMatchError(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return cluster.ItemsOf(list), nil
}

// ListSlices returns the local ResourceSlices for a provider. They need no labels: the tenant namespace identifies the provider.
func ListSlices(ctx context.Context, s *cluster.Cluster, list *authv1beta1.ResourceSliceList, provider string) ([]client.Object, error) {
	all, err := ListLabelled(ctx, s, list)
	return slices.DeleteFunc(all, func(obj client.Object) bool { return !cluster.IsRequest(obj, provider, s.Namespace) }), err
}

// FindOne returns the only object of FindOfPeer, nil for none, and fails for several. An object that is being deleted counts only if it is the only
// object.
func FindOne(ctx context.Context, s *cluster.Cluster, list client.ObjectList, other string) (client.Object, error) {
	found, err := FindOfPeer(ctx, s, list, other)
	found = slices.DeleteFunc(found, func(obj client.Object) bool { return obj.GetDeletionTimestamp() != nil })
	if err != nil || len(found) == 0 {
		return nil, err
	}
	if len(found) == 1 {
		return found[0], nil
	}
	kind, err := s.Kube.GroupVersionKindFor(list)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, obj := range found {
		all = append(all, client.ObjectKeyFromObject(obj).String())
	}
	return nil, ui.Fail("several %ss of %s exist: %s", strings.TrimSuffix(kind.Kind, "List"), other, strings.Join(all, ", ")).
		Hint("Delete all but one of them")
}

// gatewayKey returns the key of the existing or future gateway of a kind: in the namespace of the Configuration, because a gateway uses only
// Configurations of its namespace.
func (t *peerConfig) gatewayKey(ctx context.Context, kind, other string) (client.ObjectKey, error) {
	key := client.ObjectKey{Namespace: t.want.Namespace, Name: other}
	found, err := FindOne(ctx, t.Cluster, newGateway(kind, client.ObjectKey{}).newList(), other)
	if err != nil || found == nil {
		return key, err
	}
	if found.GetNamespace() != key.Namespace {
		return key, ui.Fail("the gateway %s %s would not use the Configuration of %s, whose namespace is %s: they have to be in one",
			kind, client.ObjectKeyFromObject(found), other, key.Namespace).
			Hint("Remove the gateway by: liqoctl network disconnect")
	}
	return client.ObjectKeyFromObject(found), nil
}
