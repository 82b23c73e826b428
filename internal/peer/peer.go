// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package peer answers which cluster an object or a namespace belongs to.
package peer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/policy"
)

// Errors of look-ups; what is missing may still come.
var (
	// ErrNotFound says that there is none.
	ErrNotFound = errors.New("not found")
	// ErrAmbiguous says that there are several where one is allowed.
	ErrAmbiguous = errors.New("ambiguous")
)

// Messages of the condition APIServerStatus of a peer that is Established, because it answers. All but the first one are followed by what it answers.
const (
	Answers = "the API server answers"
	// RefusesCalls is of no use to us.
	RefusesCalls = Answers + " and refuses our calls: "
	RefusesSome  = Answers + ", and refuses one of our calls: "
	// TakesNotAll refuses the content of an object, or has another one of its name.
	TakesNotAll = Answers + ", and does not take all that is copied to it: "
)

// Trouble is what keeps objects from being copied to a peer, "" for nothing that is known.
func Trouble(fc *liqov1beta1.ForeignCluster) string {
	for _, c := range fc.Status.Conditions {
		if c.Type == liqov1beta1.APIServerStatus && (c.Status != liqov1beta1.ConditionEstablished || strings.HasPrefix(c.Message, Answers) && c.Message != Answers) {
			return cmp.Or(c.Message, c.Reason)
		}
	}
	return ""
}

// Namespaces selects the tenant namespaces of all peerings.
func Namespaces() labels.Selector {
	known, err := labels.NewRequirement(names.RemoteClusterID, selection.Exists, nil)
	if err != nil {
		panic(err) // the argument is a constant
	}
	return labels.SelectorFromSet(labels.Set{names.TenantNamespace: "true"}).Add(*known)
}

// TenantNamespace returns the namespace of the peering with a cluster. Namespaces that are going away do not count.
func TenantNamespace(ctx context.Context, c client.Reader, id liqov1beta1.ClusterID) (string, error) {
	found, err := TenantNamespaces(ctx, c, id)
	switch {
	case err != nil:
		return "", err
	case len(found) == 0:
		return "", fmt.Errorf("tenant namespace of %s: %w", id, ErrNotFound)
	case len(found) > 1:
		return "", fmt.Errorf("tenant namespace of %s: %w: %s", id, ErrAmbiguous, strings.Join(found, ", "))
	}
	return found[0], nil
}

// TenantNamespaces returns the namespaces of peerings with a cluster, of which there should be one, for whom several are no reason to stop.
func TenantNamespaces(ctx context.Context, c client.Reader, id liqov1beta1.ClusterID) ([]string, error) {
	var list corev1.NamespaceList
	if err := c.List(ctx, &list, client.MatchingLabels{
		names.RemoteClusterID: string(id),
		names.TenantNamespace: "true",
	}); err != nil {
		return nil, fmt.Errorf("looking for the tenant namespace of %s: %w", id, err)
	}
	var found []string
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp.IsZero() {
			found = append(found, list.Items[i].Name)
		}
	}
	slices.Sort(found)
	return found, nil
}

// OfNamespace returns the cluster that a tenant namespace is for; false for any other namespace.
func OfNamespace(ns *corev1.Namespace) (liqov1beta1.ClusterID, bool) {
	id := ns.Labels[names.RemoteClusterID]
	if ns.Labels[names.TenantNamespace] != "true" || len(validation.IsDNS1123Label(id)) > 0 {
		return "", false
	}
	return liqov1beta1.ClusterID(id), true
}

// Tenant returns the one that counts for a cluster, nil if there is none.
func Tenant(all []authv1beta1.Tenant, id liqov1beta1.ClusterID) *authv1beta1.Tenant {
	return policy.Oldest(all, func(t *authv1beta1.Tenant) bool { return t.Spec.ClusterID == id })
}

// Configuration returns the one that counts for a cluster, nil if there is none. Of several it is the first, as of Tenants,
// unless the controller-manager, which knows tenant namespaces, says of it that another one counts.
func Configuration(all []networkingv1beta1.Configuration, id liqov1beta1.ClusterID) *networkingv1beta1.Configuration {
	of := func(c *networkingv1beta1.Configuration) bool { return c.Labels[names.RemoteClusterID] == string(id) }
	if first := policy.Oldest(all, func(c *networkingv1beta1.Configuration) bool { return of(c) && !isSecond(c) }); first != nil {
		return first
	}
	return policy.Oldest(all, of)
}

// IsReplica tells whether obj is the copy of an object of another cluster. Admission makes the label trustworthy.
func IsReplica(obj client.Object) bool { return obj.GetLabels()[names.Replicated] == "true" }

// LocalClusterID returns the ID of this cluster, from the ConfigMap with the label of cluster identities.
func LocalClusterID(ctx context.Context, c client.Reader, liqoNamespace string) (liqov1beta1.ClusterID, error) {
	var list corev1.ConfigMapList
	if err := c.List(ctx, &list, client.InNamespace(liqoNamespace), client.MatchingLabels{names.AppName: names.ClusterIDApp}); err != nil {
		return "", fmt.Errorf("looking for the cluster ID: %w", err)
	}
	switch len(list.Items) {
	case 0:
		return "", fmt.Errorf("cluster ID in namespace %s: %w", liqoNamespace, ErrNotFound)
	case 1:
		id := list.Items[0].Data[names.ClusterIDKey]
		if id == "" {
			return "", fmt.Errorf("cluster ID in ConfigMap %s: %w", list.Items[0].Name, ErrNotFound)
		}
		return liqov1beta1.ClusterID(id), nil
	default:
		return "", fmt.Errorf("cluster ID in namespace %s: %w: %d ConfigMaps", liqoNamespace, ErrAmbiguous, len(list.Items))
	}
}

func isSecond(c *networkingv1beta1.Configuration) bool {
	placed := apimeta.FindStatusCondition(c.Status.Conditions, networkingv1beta1.ConditionNetworkCIDRsConfigured)
	return placed != nil && placed.Reason == networkingv1beta1.ReasonAnotherConfiguration
}
