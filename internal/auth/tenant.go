// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	certv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/elder"
	"liqo.io/liqo/internal/issue"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/rules"
)

// tenants says of each Tenant whether anything may be granted to it, and gives it its cluster-wide rights. What hangs on
// a Tenant elsewhere follows its condition.
type tenants struct {
	client    client.Client
	direct    client.Reader
	handshake *handshake
	issuer    *issue.Issuer
	options   TenantOptions
	renewals  kube.Table[types.UID, time.Time]
}

// TenantOptions say who gives certificates to consumers, and which.
type TenantOptions struct {
	// ClusterID of this cluster, the provider.
	ClusterID liqov1beta1.ClusterID
	// LiqoNamespace holds which nonces served.
	LiqoNamespace string
	// LegacyNonces accepts signatures of the nonce alone, too.
	LegacyNonces bool
	// Server is what consumers are told of the API server.
	Server issue.Server
	// Certificates of the control planes of consumers.
	Certificates issue.Options
}

// SetupTenant registers the controllers of Tenants and of the nonces for them.
func SetupTenant(mgr ctrl.Manager, o TenantOptions) error {
	nonces, err := setupNonces(mgr)
	if err != nil {
		return err
	}
	direct, err := kube.DirectClient(mgr)
	if err != nil {
		return err
	}
	issuer, err := issue.New(mgr, o.Certificates)
	if err != nil {
		return err
	}
	if err := o.Server.Complete(mgr); err != nil {
		return err
	}
	if o.Certificates.Now == nil {
		o.Certificates.Now = time.Now
	}
	t := &tenants{
		client: mgr.GetClient(), direct: mgr.GetAPIReader(), issuer: issuer, options: o,
		handshake: &handshake{direct: direct, nonces: nonces, options: o},
	}
	c := kube.NewController[*authv1beta1.Tenant](mgr, kube.Options{Name: "tenant", Finalizer: names.TenantFinalizer}, t)
	// A binding or another Tenant that stands in the way may go; a binding of ours may be changed by somebody.
	b := c.Builder().
		Watches(&rbacv1.ClusterRoleBinding{}, handler.EnqueueRequestsFromMapFunc(t.namedBy)).
		Watches(&rbacv1.RoleBinding{}, handler.EnqueueRequestsFromMapFunc(t.namedBy)).
		Watches(&certv1.CertificateSigningRequest{}, issue.Watch(names.TenantCertificateFor)).
		WatchesRawSource(nonces.Source(handler.EnqueueRequestsFromMapFunc(t.beside))).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(t.exchanging), builder.WithPredicates(o.Server.Moved())).
		Watches(&authv1beta1.Tenant{}, handler.EnqueueRequestsFromMapFunc(t.others),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(t.inNamespace), builder.WithPredicates(kube.NamespaceChanged))
	return c.Complete(b)
}

// Reasons of the condition Ready of a Tenant.
const (
	reasonReady          = "TenantReady"
	reasonCordoned       = "TenantCordoned"
	reasonDrained        = "TenantDrained"
	reasonAuthParams     = "AuthParamsFailed"
	reasonPending        = "CertificatePending"
	reasonWrongNamespace = "WrongNamespace"
	reasonNotUnique      = "NotUnique"
	reasonIDTaken        = "ClusterIDTaken"
)

// Sync decides about one Tenant.
func (t *tenants) Sync(ctx context.Context, tenant *authv1beta1.Tenant) error {
	in, err := t.gather(ctx, tenant)
	if err != nil {
		return err
	}
	tenant.Status.TenantNamespace = ""
	if err := in.refusal(tenant); err != nil {
		tenant.Status.AuthParams = nil
		return errors.Join(err, t.unbind(ctx, t.client, tenant))
	}
	tenant.Status.TenantNamespace = tenant.Namespace
	if tenant.Spec.TenantCondition == authv1beta1.TenantConditionDrained {
		setReady(tenant, metav1.ConditionFalse, reasonDrained, "the tenant is drained: it is granted nothing")
		return t.unbind(ctx, t.client, tenant)
	}
	if exchangesKeys(tenant) {
		return t.exchange(ctx, tenant, in)
	}
	tenant.Status.AuthParams = nil
	if err := t.unbindControlPlane(ctx, t.client, tenant); err != nil {
		return err
	}
	return t.grant(ctx, tenant)
}

func exchangesKeys(tenant *authv1beta1.Tenant) bool {
	return tenant.Spec.AuthzPolicy == nil || *tenant.Spec.AuthzPolicy != authv1beta1.TolerateNoHandshake
}

// exchange gives the consumer a certificate for the key that it proved to have, and what that certificate may do.
func (t *tenants) exchange(ctx context.Context, tenant *authv1beta1.Tenant, in *surroundings) error {
	_, err := t.handshake.key(ctx, tenant, &in.namespace)
	if _, refused := kube.InvalidReason(err); refused {
		tenant.Status.AuthParams = nil
		return errors.Join(err, t.unbind(ctx, t.client, tenant))
	}
	if err != nil {
		return err
	}
	if err := t.bindControlPlane(ctx, tenant); err != nil {
		return err
	}
	if err := t.certify(ctx, tenant); err != nil && tenant.Status.AuthParams == nil {
		return err
	} else if err != nil {
		return errors.Join(err, t.grant(ctx, tenant)) // what was given serves on
	}
	return t.grant(ctx, tenant)
}

// certify keeps what the consumer needs to act here in the status.
func (t *tenants) certify(ctx context.Context, tenant *authv1beta1.Tenant) error {
	var nodes corev1.NodeList
	if err := t.client.List(ctx, &nodes); err != nil {
		return fmt.Errorf("listing nodes: %w", err)
	}
	params, err := t.options.Server.Params(nodes.Items, tenant.Spec.ProxyURL)
	if err != nil {
		return kube.Invalid(reasonAuthParams, err)
	}
	slow := ""
	cert, _, err := t.issuer.Certificate(ctx, issue.Request{
		Owner: tenant, Mark: names.TenantCertificateFor, Consumer: tenant.Spec.ClusterID, Secret: names.ControlPlaneCertificate, CSR: tenant.Spec.CSR,
		Slow: func(message string) { slow = message },
	})
	if cert == nil {
		tenant.Status.AuthParams = nil
		if _, ok := issue.IsRefused(err); ok {
			return kube.Invalid(reasonAuthParams, err)
		}
		if slow != "" {
			setReady(tenant, metav1.ConditionFalse, reasonAuthParams, slow)
		} else if kube.IsWait(err) {
			setReady(tenant, metav1.ConditionFalse, reasonPending, "the certificate of the consumer is being signed")
		}
		return err
	}
	params.SignedCRT = cert.PEM
	tenant.Status.AuthParams = params
	if err == nil {
		t.renewals.Put(tenant.UID, cert.RenewAt)
	}
	if _, ok := issue.IsRefused(err); ok {
		return kube.Again(time.Minute, err)
	}
	return err
}

// Next is when the certificate of the consumer is to be renewed.
func (t *tenants) Next(tenant *authv1beta1.Tenant) time.Duration {
	at, ok := t.renewals.Get(tenant.UID)
	if !ok || !exchangesKeys(tenant) || tenant.Status.AuthParams == nil {
		return 0
	}
	return max(at.Sub(t.options.Certificates.Now()), time.Second)
}

// grant lets the consumer be granted resources.
func (t *tenants) grant(ctx context.Context, tenant *authv1beta1.Tenant) error {
	if err := t.bind(ctx, tenant); err != nil {
		return err
	}
	if tenant.Spec.TenantCondition == authv1beta1.TenantConditionCordoned {
		setReady(tenant, metav1.ConditionTrue, reasonCordoned, "the tenant is cordoned: it keeps what it has and is granted nothing new")
		return nil
	}
	setReady(tenant, metav1.ConditionTrue, reasonReady, "the tenant may be granted resources")
	return nil
}

// Cleanup takes all rights back. It asks the API server itself whether there are any: those that were given a moment
// ago are in no cache, and nobody would take them back later.
func (t *tenants) Cleanup(ctx context.Context, tenant *authv1beta1.Tenant) error {
	t.renewals.Drop(tenant.UID)
	return t.unbind(ctx, t.direct, tenant)
}

// Report shows what the administrator has to change.
func (t *tenants) Report(tenant *authv1beta1.Tenant, err error) []kube.Event {
	if reason, ok := kube.InvalidReason(err); ok {
		setReady(tenant, metav1.ConditionFalse, reason, strings.TrimPrefix(err.Error(), reason+": "))
	}
	return t.Recall(tenant)
}

// Recall tells what the condition says.
func (t *tenants) Recall(tenant *authv1beta1.Tenant) []kube.Event {
	ready := apimeta.FindStatusCondition(tenant.Status.Conditions, authv1beta1.TenantReady)
	if ready == nil || !tenant.DeletionTimestamp.IsZero() {
		return nil
	}
	kind := corev1.EventTypeNormal
	if ready.Status != metav1.ConditionTrue && ready.Reason != reasonDrained && ready.Reason != reasonPending {
		kind = corev1.EventTypeWarning
	}
	return []kube.Event{{Type: kind, Reason: ready.Reason, Message: ready.Message}}
}

func setReady(tenant *authv1beta1.Tenant, status metav1.ConditionStatus, reason, message string) {
	apimeta.SetStatusCondition(&tenant.Status.Conditions, metav1.Condition{
		Type: authv1beta1.TenantReady, Status: status, Reason: reason, Message: message, ObservedGeneration: tenant.Generation,
	})
}

// surroundings are what can speak against a Tenant.
type surroundings struct {
	namespace corev1.Namespace
	tenants   []authv1beta1.Tenant
	bindings  []binding
}

func (t *tenants) gather(ctx context.Context, tenant *authv1beta1.Tenant) (*surroundings, error) {
	in := &surroundings{}
	if err := t.client.Get(ctx, types.NamespacedName{Name: tenant.Namespace}, &in.namespace); err != nil {
		return nil, fmt.Errorf("reading the namespace: %w", err)
	}
	var all authv1beta1.TenantList
	if err := t.client.List(ctx, &all); err != nil {
		return nil, fmt.Errorf("listing tenants: %w", err)
	}
	in.tenants = all.Items
	var wide rbacv1.ClusterRoleBindingList
	if err := t.client.List(ctx, &wide); err != nil {
		return nil, fmt.Errorf("listing cluster role bindings: %w", err)
	}
	for i := range wide.Items {
		in.bindings = append(in.bindings, binding{"ClusterRoleBinding", &wide.Items[i], wide.Items[i].Subjects})
	}
	var narrow rbacv1.RoleBindingList
	if err := t.client.List(ctx, &narrow); err != nil {
		return nil, fmt.Errorf("listing role bindings: %w", err)
	}
	for i := range narrow.Items {
		in.bindings = append(in.bindings, binding{"RoleBinding", &narrow.Items[i], narrow.Items[i].Subjects})
	}
	return in, nil
}

// refusal tells why the Tenant may be granted nothing.
func (s *surroundings) refusal(tenant *authv1beta1.Tenant) error {
	// The label is ours to set where nobody has: only a label that says something else is wrong.
	labelled := tenant.DeepCopy()
	rules.DefaultTenant(labelled)
	if err := rules.CheckTenant(labelled, s.namespace.Labels); err != nil {
		return kube.Invalid(reasonWrongNamespace, err)
	}
	if err := rules.CheckTenantUnique(tenant, s.older(tenant)); err != nil {
		return kube.Invalid(reasonNotUnique, err)
	}
	if exchangesKeys(tenant) {
		for _, other := range s.older(tenant) {
			if other.Spec.ClusterID == tenant.Spec.ClusterID {
				return kube.Invalid(reasonIDTaken, fmt.Errorf("the cluster %q is known by the Tenant %s/%s already", tenant.Spec.ClusterID, other.Namespace, other.Name))
			}
		}
	}
	for i := range s.tenants {
		if err := checkSliceNames(tenant, &s.tenants[i]); err != nil {
			return kube.Invalid(reasonIDTaken, err)
		}
	}
	for _, b := range s.bindings {
		if err := b.check(tenant); err != nil {
			return kube.Invalid(reasonIDTaken, err)
		}
	}
	return nil
}

// older are the Tenants that were there first. A Tenant is not unseated by one that comes later.
func (s *surroundings) older(tenant *authv1beta1.Tenant) []authv1beta1.Tenant {
	var out []authv1beta1.Tenant
	for i := range s.tenants {
		if other := &s.tenants[i]; other.UID != tenant.UID && tenantBefore(other, tenant) {
			out = append(out, *other)
		}
	}
	return out
}

// tenantBefore counts Tenants that are being deleted, too: they have rights until they are gone.
func tenantBefore(a, b *authv1beta1.Tenant) bool {
	was, is := elder.Of(a), elder.Of(b)
	was.Leaving, is.Leaving = false, false
	return was.Compare(is) < 0
}

// bindingName is the name of the binding of the cluster-wide rights of a consumer.
func bindingName(tenant *authv1beta1.Tenant) string {
	return names.ClusterRoleBinding(names.RoleVirtualKubeletRemoteWide, string(tenant.Spec.ClusterID))
}

// bind gives the consumer what it needs cluster-wide. A binding of that name that refers to another role cannot be
// changed, so it is replaced.
func (t *tenants) bind(ctx context.Context, tenant *authv1beta1.Tenant) error {
	want := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{
			Name: bindingName(tenant),
			Labels: map[string]string{
				names.RemoteClusterID: string(tenant.Spec.ClusterID),
				names.AppManagedBy:    names.ManagedByLiqo,
			},
		},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: names.RoleVirtualKubeletRemoteWide},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: string(tenant.Spec.ClusterID)}},
	}
	have := &rbacv1.ClusterRoleBinding{}
	err := t.client.Get(ctx, client.ObjectKeyFromObject(want), have)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the binding of the consumer: %w", err)
	}
	if err == nil && have.RoleRef != want.RoleRef {
		if err := t.client.Delete(ctx, have, client.Preconditions{UID: &have.UID}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("replacing the binding of the consumer: %w", err)
		}
		return kube.Wait(0, "the binding of the consumer is being replaced")
	}
	if _, err := kube.Ensure(ctx, t.client, want); err != nil {
		return fmt.Errorf("binding the consumer: %w", err)
	}
	return nil
}

// controlPlaneBinding is what lets the control plane of the consumer act in its tenant namespace.
func controlPlaneBinding(tenant *authv1beta1.Tenant) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: tenant.Namespace,
			Name:      names.RoleBinding(names.RoleRemoteControlPlane),
			Labels: map[string]string{
				names.RemoteClusterID: string(tenant.Spec.ClusterID),
				names.AppManagedBy:    names.ManagedByLiqo,
			},
		},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: names.RoleRemoteControlPlane},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: string(tenant.Spec.ClusterID)}},
	}
}

// bindControlPlane makes that binding, and puts it right.
func (t *tenants) bindControlPlane(ctx context.Context, tenant *authv1beta1.Tenant) error {
	want, have := controlPlaneBinding(tenant), &rbacv1.RoleBinding{}
	err := t.client.Get(ctx, client.ObjectKeyFromObject(want), have)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the binding of the control plane: %w", err)
	}
	owner := metav1.GetControllerOf(have)
	if err == nil && (have.RoleRef != want.RoleRef || owner != nil && owner.UID != tenant.UID) {
		if err := t.client.Delete(ctx, have, client.Preconditions{UID: &have.UID}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("replacing the binding of the control plane: %w", err)
		}
		return kube.Wait(0, "the binding of the control plane is being replaced")
	}
	if _, err := kube.Ensure(ctx, t.client, want, kube.OwnedBy(tenant, t.client.Scheme())); err != nil {
		return fmt.Errorf("binding the control plane: %w", err)
	}
	return nil
}

// unbindControlPlane removes that binding if it is ours: without a handshake it is the administrator's.
func (t *tenants) unbindControlPlane(ctx context.Context, from client.Reader, tenant *authv1beta1.Tenant) error {
	have := &rbacv1.RoleBinding{}
	if err := from.Get(ctx, client.ObjectKeyFromObject(controlPlaneBinding(tenant)), have); err != nil {
		return client.IgnoreNotFound(err)
	}
	if !metav1.IsControlledBy(have, tenant) {
		return nil
	}
	if err := t.client.Delete(ctx, have, client.Preconditions{UID: &have.UID}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("taking the rights of the control plane back: %w", err)
	}
	return nil
}

// unbind takes the rights of the consumer back, those in the whole cluster unless another Tenant gives them.
func (t *tenants) unbind(ctx context.Context, from client.Reader, tenant *authv1beta1.Tenant) error {
	if err := t.unbindControlPlane(ctx, from, tenant); err != nil {
		return err
	}
	var all authv1beta1.TenantList
	if err := from.List(ctx, &all); err != nil {
		return fmt.Errorf("listing tenants: %w", err)
	}
	for i := range all.Items {
		other := &all.Items[i]
		if other.UID != tenant.UID && other.Spec.ClusterID == tenant.Spec.ClusterID && entitled(other) {
			return nil
		}
	}
	have := &rbacv1.ClusterRoleBinding{}
	if err := from.Get(ctx, types.NamespacedName{Name: bindingName(tenant)}, have); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("reading the binding of the consumer: %w", err)
	}
	if err := t.client.Delete(ctx, have, client.Preconditions{UID: &have.UID}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("taking the rights of the consumer back: %w", err)
	}
	return nil
}

func entitled(tenant *authv1beta1.Tenant) bool {
	return tenant.DeletionTimestamp.IsZero() && apimeta.IsStatusConditionTrue(tenant.Status.Conditions, authv1beta1.TenantReady)
}

// namedBy wakes the Tenants whose ID is a subject of a binding.
func (t *tenants) namedBy(ctx context.Context, obj client.Object) []reconcile.Request {
	var subjects []rbacv1.Subject
	switch b := obj.(type) {
	case *rbacv1.ClusterRoleBinding:
		subjects = b.Subjects
	case *rbacv1.RoleBinding:
		subjects = b.Subjects
	}
	return t.requests(ctx, func(tenant *authv1beta1.Tenant) bool {
		return bindingName(tenant) == obj.GetName() || namesCluster(subjects, string(tenant.Spec.ClusterID))
	})
}

// others wakes the Tenants that obj may have stood in the way of.
func (t *tenants) others(ctx context.Context, obj client.Object) []reconcile.Request {
	return t.requests(ctx, func(tenant *authv1beta1.Tenant) bool { return tenant.UID != obj.GetUID() })
}

func (t *tenants) inNamespace(ctx context.Context, obj client.Object) []reconcile.Request {
	return t.requests(ctx, func(tenant *authv1beta1.Tenant) bool { return tenant.Namespace == obj.GetName() })
}

func (t *tenants) beside(ctx context.Context, obj client.Object) []reconcile.Request {
	return t.requests(ctx, func(tenant *authv1beta1.Tenant) bool { return tenant.Namespace == obj.GetNamespace() })
}

func (t *tenants) exchanging(ctx context.Context, _ client.Object) []reconcile.Request {
	return t.requests(ctx, exchangesKeys)
}

func (t *tenants) requests(ctx context.Context, keep func(*authv1beta1.Tenant) bool) []reconcile.Request {
	return kube.Requests(ctx, t.client, &authv1beta1.TenantList{}, keep)
}
