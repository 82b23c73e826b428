// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/peer"
)

// reasonDuplicateNamespace is the event on namespaces that claim the same peer.
const reasonDuplicateNamespace = "DuplicateTenantNamespace"

// TenantNamespaceOptions say who gets rights in tenant namespaces.
type TenantNamespaceOptions struct {
	// LiqoNamespace holds the ServiceAccounts of our processes.
	LiqoNamespace string
	// Grants are given in each tenant namespace; nil is what the controller-manager and the replicator need.
	Grants []Grant
}

// Grant gives a ClusterRole, in each tenant namespace, to ServiceAccounts of the Liqo namespace.
type Grant struct {
	ClusterRole     string
	ServiceAccounts []string
}

func defaultGrants() []Grant {
	return []Grant{
		{names.RoleTenantSecrets, []string{names.ControllerManager}},
		{names.RoleTenantReplication, []string{names.CRDReplicator}},
	}
}

// tenantNamespaces gives our processes their rights in a namespace for as long as it is a tenant namespace.
type tenantNamespaces struct {
	client   client.Client
	live     client.Reader
	recorder events.EventRecorder
	options  TenantNamespaceOptions

	mu   sync.Mutex
	told map[string]string
}

// SetupTenantNamespace registers the controller of tenant namespaces.
func SetupTenantNamespace(mgr ctrl.Manager, o TenantNamespaceOptions) error {
	if o.LiqoNamespace == "" {
		o.LiqoNamespace = names.LiqoNamespace
	}
	if o.Grants == nil {
		o.Grants = defaultGrants()
	}
	t := &tenantNamespaces{
		client:   mgr.GetClient(),
		live:     mgr.GetAPIReader(),
		recorder: mgr.GetEventRecorder("liqo-tenantnamespace"),
		options:  o,
		told:     map[string]string{},
	}
	err := ctrl.NewControllerManagedBy(mgr).
		Named("tenantnamespace").
		For(&corev1.Namespace{}).
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(t.rivals)).
		Watches(&rbacv1.RoleBinding{}, handler.EnqueueRequestsFromMapFunc(t.ofBinding)).
		Complete(t)
	if err != nil {
		return fmt.Errorf("registering controller tenantnamespace: %w", err)
	}
	return nil
}

// rivals wakes the other namespaces of the same peer: whether they are alone has changed.
func (t *tenantNamespaces) rivals(ctx context.Context, obj client.Object) []reconcile.Request {
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

func (t *tenantNamespaces) ofBinding(_ context.Context, obj client.Object) []reconcile.Request {
	if !slices.ContainsFunc(t.options.Grants, func(g Grant) bool { return names.RoleBinding(g.ClusterRole) == obj.GetName() }) {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: obj.GetNamespace()}}}
}

// namespacesOf lists the tenant namespaces of a peer that are there to stay.
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

// Reconcile gives or takes the rights in one namespace.
func (t *tenantNamespaces) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var namespace corev1.Namespace
	if err := t.client.Get(ctx, types.NamespacedName{Name: req.Name}, &namespace); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	err := t.follow(ctx, &namespace)
	verdict := kube.Judge(err)
	if verdict.Failed() {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: verdict.After}, nil
}

func (t *tenantNamespaces) follow(ctx context.Context, namespace *corev1.Namespace) error {
	id, tenant := peer.OfNamespace(namespace)
	t.tell(namespace, t.complaint(ctx, namespace, id))
	if !tenant || !namespace.DeletionTimestamp.IsZero() {
		return t.revoke(ctx, namespace.Name)
	}
	var errs []error
	for _, grant := range t.options.Grants {
		errs = append(errs, t.grant(ctx, t.binding(grant, namespace.Name, id)))
	}
	return errors.Join(errs...)
}

func (t *tenantNamespaces) complaint(ctx context.Context, namespace *corev1.Namespace, id liqov1beta1.ClusterID) string {
	if id == "" || !namespace.DeletionTimestamp.IsZero() {
		return ""
	}
	all := t.namespacesOf(ctx, id)
	if len(all) < 2 {
		return ""
	}
	return fmt.Sprintf("the peering with %s has more than one tenant namespace: %s", id, strings.Join(all, ", "))
}

// tell emits a complaint unless it was told before.
func (t *tenantNamespaces) tell(namespace *corev1.Namespace, complaint string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.told[namespace.Name]
	if complaint == "" {
		delete(t.told, namespace.Name)
		return
	}
	t.told[namespace.Name] = complaint
	if complaint != before {
		t.recorder.Eventf(namespace, nil, corev1.EventTypeWarning, reasonDuplicateNamespace, "Grant", "%s", complaint)
	}
}

// binding is the RoleBinding of a grant. Its finalizer keeps it, when the namespace is deleted as a whole, until those who
// hold the rights have cleaned up: without the rights they could not take their own finalizers off.
func (t *tenantNamespaces) binding(grant Grant, namespace string, id liqov1beta1.ClusterID) *rbacv1.RoleBinding {
	out := &rbacv1.RoleBinding{RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: grant.ClusterRole}}
	out.Namespace, out.Name = namespace, names.RoleBinding(grant.ClusterRole)
	out.Labels = map[string]string{names.AppManagedBy: "liqo", names.RemoteClusterID: string(id)}
	out.Finalizers = []string{names.TenantRightsFinalizer}
	for _, account := range grant.ServiceAccounts {
		out.Subjects = append(out.Subjects, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: t.options.LiqoNamespace, Name: account})
	}
	return out
}

func (t *tenantNamespaces) grant(ctx context.Context, want *rbacv1.RoleBinding) error {
	_, applied := kube.Ensure(ctx, t.client, want)
	if !apierrors.IsInvalid(applied) {
		return applied
	}
	// The role of a binding cannot be changed: one that refers to another role is replaced.
	var have rbacv1.RoleBinding
	if err := t.client.Get(ctx, client.ObjectKeyFromObject(want), &have); err != nil {
		return fmt.Errorf("reading RoleBinding %s/%s: %w", want.Namespace, want.Name, err)
	}
	if have.RoleRef == want.RoleRef {
		return applied
	}
	if err := t.drop(ctx, &have); err != nil {
		return err
	}
	return kube.Wait(time.Second, "a binding with another role is being replaced")
}

// revokeDelay is how soon a namespace that is still being cleaned up is looked at again.
const revokeDelay = time.Second

func (t *tenantNamespaces) revoke(ctx context.Context, namespace string) error {
	for _, grant := range t.options.Grants {
		var have rbacv1.RoleBinding
		if err := t.client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: names.RoleBinding(grant.ClusterRole)}, &have); err != nil {
			if client.IgnoreNotFound(err) == nil {
				continue
			}
			return fmt.Errorf("reading RoleBinding of %s: %w", grant.ClusterRole, err)
		}
		if !controllerutil.ContainsFinalizer(&have, names.TenantRightsFinalizer) {
			continue
		}
		needed, err := t.needed(ctx, namespace)
		if err != nil {
			return err
		}
		if needed != "" {
			return kube.Wait(revokeDelay, "the rights are still needed to release "+needed)
		}
		if err := t.drop(ctx, &have); err != nil {
			return err
		}
	}
	return nil
}

// needed returns an object of the namespace that a holder of the rights must still release, "" for none.
func (t *tenantNamespaces) needed(ctx context.Context, namespace string) (string, error) {
	var secrets corev1.SecretList
	if err := t.live.List(ctx, &secrets, client.InNamespace(namespace), client.MatchingLabels{names.IdentityType: names.IdentityControlPlane}); err != nil {
		if apierrors.IsForbidden(err) {
			return "", nil // the rights are gone already: nobody can use them for anything
		}
		return "", fmt.Errorf("listing Secrets of %s: %w", namespace, err)
	}
	for i := range secrets.Items {
		if controllerutil.ContainsFinalizer(&secrets.Items[i], names.ReplicatorSecretFinalizer) {
			return "Secret " + secrets.Items[i].Name, nil
		}
	}
	for _, gvk := range replicated {
		var list metav1.PartialObjectMetadataList
		list.SetGroupVersionKind(gvk)
		if err := t.live.List(ctx, &list, client.InNamespace(namespace)); err != nil {
			return "", fmt.Errorf("listing %s of %s: %w", gvk.Kind, namespace, err)
		}
		for i := range list.Items {
			if controllerutil.ContainsFinalizer(&list.Items[i], names.ReplicatorFinalizer) {
				return strings.TrimSuffix(gvk.Kind, "List") + " " + list.Items[i].Name, nil
			}
		}
	}
	return "", nil
}

// replicated are the kinds that the replicator holds.
var replicated = []schema.GroupVersionKind{
	authv1beta1.GroupVersion.WithKind("ResourceSliceList"),
	authv1beta1.GroupVersion.WithKind("RenewList"),
	offv1beta1.GroupVersion.WithKind("NamespaceMapList"),
}

// drop deletes a binding and its finalizer.
func (t *tenantNamespaces) drop(ctx context.Context, have *rbacv1.RoleBinding) error {
	if err := client.IgnoreNotFound(t.client.Delete(ctx, have, client.Preconditions{UID: &have.UID})); err != nil {
		return fmt.Errorf("deleting RoleBinding %s/%s: %w", have.Namespace, have.Name, err)
	}
	free := have.DeepCopy()
	controllerutil.RemoveFinalizer(free, names.TenantRightsFinalizer)
	if err := client.IgnoreNotFound(t.client.Patch(ctx, free, client.MergeFrom(have))); err != nil {
		return fmt.Errorf("releasing RoleBinding %s/%s: %w", have.Namespace, have.Name, err)
	}
	return nil
}
