// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package peer maps objects and namespaces to their cluster.
package peer

import (
	"cmp"
	"context"
	"crypto"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/pki"
	"liqo.io/liqo/internal/policy"
)

// ReasonHealed is the reason of the event about the end of a ForeignCluster's failure.
const ReasonHealed = "Healed"

// Errors of look-ups; a missing object may still be created.
var (
	// ErrNotFound reports that no object matches.
	ErrNotFound = errors.New("not found")
	// ErrAmbiguous reports that several objects match where one is allowed.
	ErrAmbiguous = errors.New("ambiguous")
)

// Messages of the condition APIServerStatus of a peer that is Established, because its API server is reachable. The response follows all messages but
// the first.
const (
	Answers = "the API server answers"
	// RefusesCalls means that the API server rejects the requests of this cluster.
	RefusesCalls = Answers + " and refuses our calls: "
	RefusesSome  = Answers + ", and refuses one of our calls: "
	// TakesNotAll means that the peer rejects the content of an object, or has another object of the same name.
	TakesNotAll = Answers + ", and does not take all that is copied to it: "
)

// Trouble returns the reason why objects are not replicated to a peer, "" for none known.
func Trouble(fc *liqov1beta1.ForeignCluster) string {
	for _, c := range fc.Status.Conditions {
		if c.Type == liqov1beta1.APIServerStatus && (c.Status != liqov1beta1.ConditionEstablished || strings.HasPrefix(c.Message, Answers) && c.Message != Answers) {
			return cmp.Or(c.Message, c.Reason)
		}
	}
	return ""
}

// Misbehaviour returns the condition of a peer that exceeds a limit of the crd-replicator, nil for none. Observations of a virtual kubelet are a
// condition of the module offloading.
func Misbehaviour(fc *liqov1beta1.ForeignCluster) *liqov1beta1.Condition {
	for i := range fc.Status.Conditions {
		if c := &fc.Status.Conditions[i]; c.Type == liqov1beta1.PeerMisbehaves {
			return c
		}
	}
	return nil
}

// Namespaces returns the selector of the tenant namespaces of all peerings.
func Namespaces() labels.Selector {
	known, err := labels.NewRequirement(names.RemoteClusterID, selection.Exists, nil)
	if err != nil {
		panic(err) // the argument is a constant
	}
	return labels.SelectorFromSet(labels.Set{names.TenantNamespace: "true"}).Add(*known)
}

// TenantNamespace returns the tenant namespace of a cluster. Terminating namespaces are ignored.
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

// TenantNamespaces returns all tenant namespaces of a cluster, for callers that tolerate several.
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

// OfNamespace returns the cluster of a tenant namespace, and false for any other namespace.
func OfNamespace(ns *corev1.Namespace) (liqov1beta1.ClusterID, bool) {
	id := ns.Labels[names.RemoteClusterID]
	if ns.Labels[names.TenantNamespace] != "true" || len(validation.IsDNS1123Label(id)) > 0 {
		return "", false
	}
	return liqov1beta1.ClusterID(id), true
}

// Tenant returns the effective (oldest) Tenant of a cluster, nil if there is none.
func Tenant(all []authv1beta1.Tenant, id liqov1beta1.ClusterID) *authv1beta1.Tenant {
	return policy.Oldest(all, func(t *authv1beta1.Tenant) bool { return t.Spec.ClusterID == id })
}

// Configuration returns the effective Configuration of a cluster, nil if there is none. The oldest takes precedence, as for Tenants, unless its
// condition says that another is effective. The controller-manager decides the condition, since it knows the tenant namespaces.
func Configuration(all []networkingv1beta1.Configuration, id liqov1beta1.ClusterID) *networkingv1beta1.Configuration {
	of := func(c *networkingv1beta1.Configuration) bool { return c.Labels[names.RemoteClusterID] == string(id) }
	if first := policy.Oldest(all, func(c *networkingv1beta1.Configuration) bool { return of(c) && !isSecond(c) }); first != nil {
		return first
	}
	return policy.Oldest(all, of)
}

// IsReplica reports whether obj is the replica of an object of another cluster. Admission protects the label.
func IsReplica(obj client.Object) bool { return obj.GetLabels()[names.Replicated] == "true" }

// LocalClusterID returns the ID of this cluster, from the ConfigMap with the cluster ID label.
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

// NetworksChanged reports whether a change of a Configuration concerns its use or the networks of the peer. The reports of the peer do not: the peer
// may write them at any rate.
func NetworksChanged(before, after *networkingv1beta1.Configuration) bool {
	placed := func(c *networkingv1beta1.Configuration) (out metav1.Condition) {
		if found := apimeta.FindStatusCondition(c.Status.Conditions, networkingv1beta1.ConditionNetworkCIDRsConfigured); found != nil {
			out = metav1.Condition{Status: found.Status, Reason: found.Reason, ObservedGeneration: found.ObservedGeneration}
		}
		return out
	}
	return before.Generation != after.Generation || !maps.Equal(before.Labels, after.Labels) || (before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) ||
		!apiequality.Semantic.DeepEqual(before.Status.Remote, after.Status.Remote) ||
		!apiequality.Semantic.DeepEqual(before.Status.ObservedRemote, after.Status.ObservedRemote) || placed(before) != placed(after)
}

// NetworksPredicate passes only changes of Configurations by NetworksChanged.
var NetworksPredicate = predicate.Funcs{UpdateFunc: func(ev event.UpdateEvent) bool {
	return NetworksChanged(ev.ObjectOld.(*networkingv1beta1.Configuration), ev.ObjectNew.(*networkingv1beta1.Configuration))
}}

// Key returns the private key of this cluster for one provider, for all certificates and proofs. Key returns a Wait while there is none.
func Key(ctx context.Context, c client.Reader, liqoNamespace string, provider liqov1beta1.ClusterID) (crypto.Signer, error) {
	name := types.NamespacedName{Namespace: liqoNamespace, Name: names.PeerKeysSecret(string(provider))}
	var secret corev1.Secret
	if err := c.Get(ctx, name, &secret); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, kube.Wait(time.Second, "the key pair for this provider is being created")
		}
		return nil, fmt.Errorf("reading the key pair: %w", err)
	}
	key, err := pki.ParseKey(secret.Data[names.PrivateKeyKey])
	if err != nil {
		return nil, fmt.Errorf("reading the key pair in Secret %s: %w", name, err)
	}
	return key, nil
}

// VersionRefused returns the condition of a peer whose version is incompatible with this cluster's, nil if compatible. Existing offloading and
// connections continue, and no new ones are started.
func VersionRefused(fc *liqov1beta1.ForeignCluster) *liqov1beta1.Condition {
	all := fc.Status.Modules.Authentication.Conditions
	i := slices.IndexFunc(all, func(c liqov1beta1.Condition) bool {
		return c.Type == liqov1beta1.AuthVersionStatus && c.Status == liqov1beta1.ConditionError
	})
	if i < 0 {
		return nil
	}
	return &all[i]
}

// FindVersionRefused reads the ForeignCluster of a cluster and returns its condition as VersionRefused does.
func FindVersionRefused(ctx context.Context, c client.Reader, id liqov1beta1.ClusterID) (*liqov1beta1.Condition, error) {
	var fc liqov1beta1.ForeignCluster
	if err := c.Get(ctx, client.ObjectKey{Name: string(id)}, &fc); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return nil, nil
		}
		return nil, fmt.Errorf("reading ForeignCluster %s: %w", id, err)
	}
	return VersionRefused(&fc), nil
}

// Kind is a kind whose objects are replicated to the peer. The replicator adds a finalizer to the objects.
type Kind struct {
	schema.GroupVersionKind
	Plural string
	Object client.Object
	List   client.ObjectList
	// Disposable means that no resource in the peer depends on the replica: a peer that rejects the deletion of the replica does not block the
	// deletion of the local object.
	Disposable bool
}

// Replicated returns all replicated kinds, in the order of their start.
func Replicated() []Kind {
	return []Kind{
		{offv1beta1.GroupVersion.WithKind("NamespaceMap"), offv1beta1.NamespaceMapResource, &offv1beta1.NamespaceMap{}, &offv1beta1.NamespaceMapList{}, false},
		{authv1beta1.GroupVersion.WithKind("ResourceSlice"), authv1beta1.ResourceSliceResource, &authv1beta1.ResourceSlice{}, &authv1beta1.ResourceSliceList{}, false},
		{authv1beta1.GroupVersion.WithKind("Renew"), authv1beta1.RenewResource, &authv1beta1.Renew{}, &authv1beta1.RenewList{}, true},
	}
}

// Bindings returns all RoleBindings and ClusterRoleBindings.
func Bindings(ctx context.Context, c client.Reader) ([]policy.Binding, error) {
	var wide rbacv1.ClusterRoleBindingList
	if err := c.List(ctx, &wide); err != nil {
		return nil, fmt.Errorf("listing cluster role bindings: %w", err)
	}
	var narrow rbacv1.RoleBindingList
	if err := c.List(ctx, &narrow); err != nil {
		return nil, fmt.Errorf("listing role bindings: %w", err)
	}
	all := make([]policy.Binding, 0, len(wide.Items)+len(narrow.Items))
	for i := range wide.Items {
		all = append(all, policy.Binding{Kind: "ClusterRoleBinding", Object: &wide.Items[i], Subjects: wide.Items[i].Subjects})
	}
	for i := range narrow.Items {
		all = append(all, policy.Binding{Kind: "RoleBinding", Object: &narrow.Items[i], Subjects: narrow.Items[i].Subjects})
	}
	return all, nil
}

// Subjects returns the subjects of a RoleBinding or a ClusterRoleBinding.
func Subjects(binding client.Object) []rbacv1.Subject {
	switch b := binding.(type) {
	case *rbacv1.ClusterRoleBinding:
		return b.Subjects
	case *rbacv1.RoleBinding:
		return b.Subjects
	}
	return nil
}
