// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/peer"
)

// Reasons of the events on tenant namespaces: several namespaces claim one peer; the ID of the peer is
// invalid.
const (
	reasonDuplicateNamespace = "DuplicateTenantNamespace"
	reasonInvalidID          = "InvalidClusterID"
)

// grant gives a ClusterRole, in each tenant namespace, to a ServiceAccount of the Liqo namespace.
type grant struct{ clusterRole, serviceAccount string }

func allGrants() []grant {
	return []grant{
		{names.RoleTenantSecrets, names.ControllerManager},
		{names.RoleTenantReplication, names.CRDReplicator},
	}
}

// tenantNamespaces grants permissions to our processes in a namespace while it is a tenant namespace.
type tenantNamespaces struct {
	client        client.Client
	live          client.Reader
	secrets       *kube.NamespacedWatch
	events        *kube.EventRecorder
	liqoNamespace string
}

func setupTenantNamespaces(mgr ctrl.Manager, o Options, secrets *kube.NamespacedWatch) error {
	t := &tenantNamespaces{
		client:        mgr.GetClient(),
		live:          mgr.GetAPIReader(),
		secrets:       secrets,
		events:        kube.NewEventRecorder(kube.EmitBy(mgr.GetEventRecorder("liqo-tenantnamespace"), "Grant")),
		liqoNamespace: cmp.Or(o.LiqoNamespace, names.LiqoNamespace),
	}
	inside := handler.EnqueueRequestsFromMapFunc(ofNamespace)
	b := ctrl.NewControllerManagedBy(mgr).
		Named("tenantnamespace").
		For(&corev1.Namespace{}).
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(t.requestsForConflicting)).
		Watches(&rbacv1.RoleBinding{}, handler.EnqueueRequestsFromMapFunc(t.ofBinding)).
		Watches(&offv1beta1.VirtualNode{}, inside).
		WatchesRawSource(t.secrets.Source(inside))
	for _, kind := range peer.Replicated() {
		b.Watches(kind.Object, inside)
	}
	if err := b.Complete(t); err != nil {
		return fmt.Errorf("registering controller tenantnamespace: %w", err)
	}
	return nil
}

// requestsForConflicting returns requests for the other namespaces of the same peer, whose conflict may have
// changed.
func (t *tenantNamespaces) requestsForConflicting(ctx context.Context, obj client.Object) []reconcile.Request {
	id, ok := obj.GetLabels()[names.RemoteClusterID]
	if !ok {
		return nil
	}
	var out []reconcile.Request
	for _, name := range t.namespacesOf(ctx, liqov1beta1.ClusterID(id)) {
		out = append(out, reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
	}
	return out
}

func (t *tenantNamespaces) ofBinding(ctx context.Context, obj client.Object) []reconcile.Request {
	if !slices.ContainsFunc(allGrants(), func(g grant) bool { return names.RoleBinding(g.clusterRole) == obj.GetName() }) {
		return nil
	}
	return ofNamespace(ctx, obj)
}

func ofNamespace(_ context.Context, obj client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: obj.GetNamespace()}}}
}

// namespacesOf lists the tenant namespaces of a peer that are not being deleted.
func (t *tenantNamespaces) namespacesOf(ctx context.Context, id liqov1beta1.ClusterID) []string {
	var list corev1.NamespaceList
	if err := t.client.List(ctx, &list, client.MatchingLabels{names.RemoteClusterID: string(id), names.TenantNamespace: "true"}); err != nil {
		return nil
	}
	var out []string
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp.IsZero() {
			out = append(out, list.Items[i].Name)
		}
	}
	slices.Sort(out)
	return out
}

// Reconcile grants or revokes the permissions in one namespace.
func (t *tenantNamespaces) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var namespace corev1.Namespace
	if err := t.client.Get(ctx, types.NamespacedName{Name: req.Name}, &namespace); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	return kube.Result(t.reconcileNamespace(ctx, &namespace))
}

func (t *tenantNamespaces) reconcileNamespace(ctx context.Context, namespace *corev1.Namespace) error {
	id, tenant := peer.OfNamespace(namespace)
	t.events.Record(namespace, t.warningsOf(ctx, namespace)...)
	if !tenant || !namespace.DeletionTimestamp.IsZero() {
		return t.revokeBindings(ctx, namespace.Name)
	}
	used, unknown := t.isUsed(ctx, namespace.Name)
	if unknown != nil && !kube.IsWait(unknown) {
		return unknown
	}
	errs := []error{unknown}
	for _, grant := range allGrants() {
		want := t.newBinding(grant, namespace.Name, id)
		// Secrets can only be read once the permissions are granted; until then an existing finalizer stays.
		if used || unknown != nil && t.isGuarded(ctx, want) {
			want.Finalizers = []string{names.TenantRightsFinalizer}
		}
		errs = append(errs, kube.EnsureRoleBinding(ctx, t.client, want, t.dropBinding))
	}
	return errors.Join(errs...)
}

// warningsOf returns the event for the problem of the namespace that an administrator must fix, if any.
func (t *tenantNamespaces) warningsOf(ctx context.Context, namespace *corev1.Namespace) []kube.Event {
	label, marked := namespace.Labels[names.RemoteClusterID]
	if !marked || namespace.Labels[names.TenantNamespace] != "true" || !namespace.DeletionTimestamp.IsZero() {
		return nil
	}
	id, usable := peer.OfNamespace(namespace)
	if !usable {
		return newWarning(reasonInvalidID, "the label %s is %q, which cannot be the ID of a cluster: lower-case letters, digits and dashes can", names.RemoteClusterID, label)
	}
	all := t.namespacesOf(ctx, id)
	if len(all) < 2 {
		return nil
	}
	return newWarning(reasonDuplicateNamespace, "the peering with %s has more than one tenant namespace: %s; keep one", id, strings.Join(all, ", "))
}

func newWarning(reason, format string, args ...any) []kube.Event {
	return []kube.Event{{Type: corev1.EventTypeWarning, Reason: reason, Message: fmt.Sprintf(format, args...)}}
}
