// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	certv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
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
	"liqo.io/liqo/internal/certissuer"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/peer"
	"liqo.io/liqo/internal/pki"
	"liqo.io/liqo/internal/policy"
)

// tenants decides whether each Tenant may receive permissions, and grants the cluster-wide permissions. Dependents of a Tenant
// follow the Tenant's condition.
type tenants struct {
	client    client.Client
	direct    client.Reader
	handshake *handshake
	issuer    *certissuer.Issuer
	options   TenantOptions
	renewals  kube.Table[types.UID, time.Time]
}

// TenantOptions configure the certificates of consumers.
type TenantOptions struct {
	// ClusterID of this cluster, the provider.
	ClusterID liqov1beta1.ClusterID
	// LiqoNamespace holds the used nonces.
	LiqoNamespace string
	// LegacyNonces accepts signatures of the nonce alone, too.
	LegacyNonces bool
	// Server is the address of the API server as published to consumers.
	Server certissuer.Server
	// Certificates of the control planes of consumers; their Duration 0 is a week.
	Certificates certissuer.Options
}

// controlPlaneDuration is longer than the lifetime for ResourceSlices: an expired certificate cannot fetch its successor, and a
// third of the lifetime must outlast a loss of connection. Revocation needs no short lifetime, only the removal of the binding.
const controlPlaneDuration = 7 * 24 * time.Hour

// SetupTenant registers the controllers of Tenants and of the nonces for them.
func SetupTenant(mgr ctrl.Manager, o TenantOptions) error {
	nonces, err := setupNonces(mgr)
	if err != nil {
		return err
	}
	handshake, err := newHandshake(mgr, nonces, o)
	if err != nil {
		return err
	}
	o.Certificates.Duration = cmp.Or(o.Certificates.Duration, controlPlaneDuration)
	issuer, err := certissuer.New(mgr, o.Certificates)
	if err != nil {
		return err
	}
	if err := certissuer.SetupOrphans(mgr, "tenant_requests", names.TenantCertificateFor, &authv1beta1.Tenant{}); err != nil {
		return err
	}
	if err := o.Server.Complete(mgr); err != nil {
		return err
	}
	if o.Certificates.Now == nil {
		o.Certificates.Now = time.Now
	}
	t := &tenants{client: mgr.GetClient(), direct: mgr.GetAPIReader(), handshake: handshake, issuer: issuer, options: o}
	c := kube.NewController[*authv1beta1.Tenant](mgr, kube.Options{Name: "tenant", Finalizer: names.TenantFinalizer}, t)
	// A conflicting binding or Tenant may be deleted; a binding of ours may be modified by another client.
	b := c.Builder().
		Watches(&rbacv1.ClusterRoleBinding{}, handler.EnqueueRequestsFromMapFunc(t.namedBy)).
		Watches(&rbacv1.RoleBinding{}, handler.EnqueueRequestsFromMapFunc(t.namedBy)).
		Watches(&certv1.CertificateSigningRequest{}, certissuer.Watch(names.TenantCertificateFor)).
		WatchesRawSource(issuer.Source(&authv1beta1.Tenant{})).
		WatchesRawSource(nonces.Source(handler.EnqueueRequestsFromMapFunc(t.requestsBeside))).
		WatchesRawSource(handshake.cache.Source(handler.EnqueueRequestsFromMapFunc(t.ofConsumer))).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(t.requestsExchanging), builder.WithPredicates(o.Server.Moved())).
		Watches(&authv1beta1.Tenant{}, handler.EnqueueRequestsFromMapFunc(t.requestsForOthers),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(t.inNamespace), builder.WithPredicates(kube.NamespaceChanged))
	return c.Complete(b)
}

// Reasons of the condition Ready of a Tenant.
const (
	reasonReady          = "TenantReady"
	reasonCordoned       = "TenantCordoned"
	reasonDrained        = "TenantDrained"
	reasonWrongNamespace = "WrongNamespace"
	reasonNotUnique      = "NotUnique"
	reasonIDTaken        = "ClusterIDTaken"
)

// Sync decides one Tenant.
func (t *tenants) Sync(ctx context.Context, tenant *authv1beta1.Tenant) error {
	in, err := t.gatherInputs(ctx, tenant)
	if err != nil {
		return err
	}
	tenant.Status.TenantNamespace = ""
	recallAcceptance(tenant)
	if err := in.refusalReason(tenant); err != nil {
		forgetCertificate(tenant)
		return errors.Join(err, t.unbindRoles(ctx, t.client, tenant))
	}
	tenant.Status.TenantNamespace = tenant.Namespace
	if tenant.Spec.TenantCondition == authv1beta1.TenantConditionDrained {
		setReady(tenant, metav1.ConditionFalse, reasonDrained, "the tenant is drained: it is granted nothing")
		return t.unbindRoles(ctx, t.client, tenant)
	}
	if policy.ExchangesKeys(tenant) {
		return t.exchangeCredentials(ctx, tenant, in)
	}
	forgetCertificate(tenant)
	return errors.Join(t.grantTenant(ctx, tenant), t.unbindControlPlane(ctx, t.client, tenant))
}

// grantTenant lets the consumer be granted resources.
func (t *tenants) grantTenant(ctx context.Context, tenant *authv1beta1.Tenant) error {
	if tenant.Status.AcceptanceTime == nil {
		tenant.Status.AcceptanceTime = new(metav1.Now())
	}
	if err := t.bindRoles(ctx, tenant); err != nil {
		return err
	}
	if tenant.Spec.TenantCondition == authv1beta1.TenantConditionCordoned {
		setReady(tenant, metav1.ConditionTrue, reasonCordoned, "the tenant is cordoned: it keeps its resources and is granted no new ones")
		return nil
	}
	setReady(tenant, metav1.ConditionTrue, reasonReady, "the tenant may be granted resources")
	return nil
}

// Cleanup revokes all permissions. It reads from the API server: permissions granted a moment ago are not in the
// cache, and would be orphaned.
func (t *tenants) Cleanup(ctx context.Context, tenant *authv1beta1.Tenant) error {
	t.renewals.Drop(tenant.UID)
	return t.unbindRoles(ctx, t.direct, tenant)
}

// Report emits the problems that the administrator has to fix.
func (t *tenants) Report(tenant *authv1beta1.Tenant, err error) []kube.Event {
	if reason, ok := kube.InvalidReason(err); ok {
		setReady(tenant, metav1.ConditionFalse, reason, strings.TrimPrefix(err.Error(), reason+": "))
	}
	return t.ReplayEvents(tenant)
}

// ReplayEvents replays the events of the conditions.
func (t *tenants) ReplayEvents(tenant *authv1beta1.Tenant) []kube.Event {
	if !tenant.DeletionTimestamp.IsZero() {
		return nil
	}
	var events []kube.Event
	for _, c := range tenant.Status.Conditions {
		kind := corev1.EventTypeNormal
		if c.Type == authv1beta1.TenantReady && c.Status != metav1.ConditionTrue && c.Reason != reasonDrained || isWarning(c) {
			kind = corev1.EventTypeWarning
		}
		events = append(events, kube.Event{Type: kind, Reason: c.Reason, Message: c.Message})
	}
	return events
}

func setReady(tenant *authv1beta1.Tenant, status metav1.ConditionStatus, reason, message string) {
	apimeta.SetStatusCondition(&tenant.Status.Conditions, metav1.Condition{
		Type: authv1beta1.TenantReady, Status: status, Reason: reason, Message: message, ObservedGeneration: tenant.Generation,
	})
}

// tenantInputs are the objects that can cause the rejection of a Tenant.
type tenantInputs struct {
	// own is the ID of this cluster.
	own       liqov1beta1.ClusterID
	namespace corev1.Namespace
	tenants   []authv1beta1.Tenant
	bindings  []policy.Binding
}

func (t *tenants) gatherInputs(ctx context.Context, tenant *authv1beta1.Tenant) (*tenantInputs, error) {
	in := &tenantInputs{own: t.options.ClusterID}
	if err := t.client.Get(ctx, types.NamespacedName{Name: tenant.Namespace}, &in.namespace); err != nil {
		return nil, fmt.Errorf("reading the namespace: %w", err)
	}
	var all authv1beta1.TenantList
	if err := t.client.List(ctx, &all); err != nil {
		return nil, fmt.Errorf("listing tenants: %w", err)
	}
	in.tenants = all.Items
	var err error
	if in.bindings, err = peer.Bindings(ctx, t.client); err != nil {
		return nil, err
	}
	return in, nil
}

// refusalReason tells why the Tenant may be granted nothing.
func (s *tenantInputs) refusalReason(tenant *authv1beta1.Tenant) error {
	// A missing label is set by Liqo: only a label with another value is invalid.
	labelled := tenant.DeepCopy()
	policy.DefaultTenant(labelled)
	if err := policy.CheckTenant(labelled, s.namespace.Labels); err != nil {
		return kube.Invalid(reasonWrongNamespace, err)
	}
	if tenant.Spec.ClusterID == s.own { // replicas of its objects would be indistinguishable from local objects
		return kube.Invalid(reasonIDTaken, fmt.Errorf("%q is the ID of this cluster: choose another cluster ID for the consumer", s.own))
	}
	if err := policy.CheckTenantUnique(tenant, s.olderTenants(tenant)); err != nil {
		return kube.Invalid(reasonNotUnique, err)
	}
	for _, other := range s.olderTenants(tenant) {
		// Both without a handshake are the administrator's to tell apart.
		if other.Spec.ClusterID == tenant.Spec.ClusterID && (policy.ExchangesKeys(tenant) || policy.ExchangesKeys(&other)) {
			return kube.Invalid(reasonIDTaken, fmt.Errorf("the cluster %q is known by the Tenant %s/%s already", tenant.Spec.ClusterID, other.Namespace, other.Name))
		}
	}
	for i := range s.tenants {
		if err := checkUsers(tenant, &s.tenants[i]); err != nil {
			return kube.Invalid(reasonIDTaken, err)
		}
	}
	for _, b := range s.bindings {
		id := tenant.Spec.ClusterID
		if err := b.Check(string(id), id, tenant.Namespace, tenant.Status.AcceptanceTime); err != nil {
			return kube.Invalid(reasonIDTaken, fmt.Errorf("%w, or choose another cluster ID for the consumer", err))
		}
	}
	return nil
}

// recallAcceptance migrates Tenants that an earlier version accepted.
func recallAcceptance(tenant *authv1beta1.Tenant) {
	if tenant.Status.AcceptanceTime == nil && (tenant.Status.AuthParams != nil || apimeta.IsStatusConditionTrue(tenant.Status.Conditions, authv1beta1.TenantReady)) {
		tenant.Status.AcceptanceTime = &tenant.CreationTimestamp
	}
}

// olderTenants returns the Tenants that take precedence. A later Tenant never evicts an older one.
func (s *tenantInputs) olderTenants(tenant *authv1beta1.Tenant) []authv1beta1.Tenant {
	var out []authv1beta1.Tenant
	for i := range s.tenants {
		if other := &s.tenants[i]; other.UID != tenant.UID && tenantBefore(other, tenant) {
			out = append(out, *other)
		}
	}
	return out
}

// tenantBefore includes Tenants that are being deleted: they have permissions until they are gone.
func tenantBefore(a, b *authv1beta1.Tenant) bool {
	was, is := policy.RankOf(a), policy.RankOf(b)
	was.Leaving, is.Leaving = false, false
	return was.Compare(is) < 0
}

// namedBy wakes the Tenants whose ID is a subject of a binding.
func (t *tenants) namedBy(ctx context.Context, obj client.Object) []reconcile.Request {
	subjects := peer.Subjects(obj)
	return t.requestsFor(ctx, func(tenant *authv1beta1.Tenant) bool {
		return bindingName(tenant) == obj.GetName() || client.ObjectKeyFromObject(controlPlaneBinding(tenant)) == client.ObjectKeyFromObject(obj) ||
			policy.NamesUserOrGroup(subjects, string(tenant.Spec.ClusterID))
	})
}

// requestsForOthers returns requests for the Tenants that obj may have blocked.
func (t *tenants) requestsForOthers(ctx context.Context, obj client.Object) []reconcile.Request {
	return t.requestsFor(ctx, func(tenant *authv1beta1.Tenant) bool { return tenant.UID != obj.GetUID() })
}

func (t *tenants) inNamespace(ctx context.Context, obj client.Object) []reconcile.Request {
	return t.requestsFor(ctx, func(tenant *authv1beta1.Tenant) bool { return tenant.Namespace == obj.GetName() })
}

func (t *tenants) requestsBeside(ctx context.Context, obj client.Object) []reconcile.Request {
	return t.requestsFor(ctx, func(tenant *authv1beta1.Tenant) bool { return tenant.Namespace == obj.GetNamespace() })
}

// ofConsumer returns requests for the Tenants of the cluster in the label of obj.
func (t *tenants) ofConsumer(ctx context.Context, obj client.Object) []reconcile.Request {
	return t.requestsFor(ctx, func(tenant *authv1beta1.Tenant) bool {
		return string(tenant.Spec.ClusterID) == obj.GetLabels()[names.RemoteClusterID]
	})
}

func (t *tenants) requestsExchanging(ctx context.Context, _ client.Object) []reconcile.Request {
	return t.requestsFor(ctx, policy.ExchangesKeys)
}

func (t *tenants) requestsFor(ctx context.Context, keep func(*authv1beta1.Tenant) bool) []reconcile.Request {
	return kube.Requests(ctx, t.client, &authv1beta1.TenantList{}, keep)
}

// A cluster ID becomes a user and a group, and the suffix of the users of ResourceSlices. A consumer named like an existing
// user would inherit the user's permissions: such a Tenant is rejected.

// checkUsers returns why the users of the consumer (its control plane, its ResourceSlices) could belong to an older consumer: users of
// ResourceSlices end in a truncated hash of the ID.
func checkUsers(tenant, other *authv1beta1.Tenant) error {
	a, b := string(tenant.Spec.ClusterID), string(other.Spec.ClusterID)
	switch {
	case a == b || !tenantBefore(other, tenant):
		return nil
	case pki.SliceSubject("", a).CommonName == pki.SliceSubject("", b).CommonName:
		return fmt.Errorf("the users of slices of %q and of %q could have the same name: choose another cluster ID for the consumer", a, b)
	case pki.CouldBeOfSlice(a, b):
		return fmt.Errorf("%q could be the name of the user of a slice of %q: choose another cluster ID for the consumer", a, b)
	case pki.CouldBeOfSlice(b, a):
		return fmt.Errorf("the user of a slice of %q could have the name %q of another consumer: choose another cluster ID for the consumer", a, b)
	}
	return nil
}
