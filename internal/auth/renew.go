// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"cmp"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"

	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/peer"
	"liqo.io/liqo/internal/policy"
)

// Reasons of the condition CertificateIssued of a Renew without an answer. All other reasons are copied from
// the Tenant.
const (
	reasonWrongConsumer   = "WrongConsumer"
	reasonUnsupportedType = "UnsupportedIdentityType"
	reasonTenantNotFound  = "TenantNotFound"
	reasonTenantNotReady  = "TenantNotReady"
	reasonNoHandshake     = "NoHandshake"
	reasonOlderRenew      = "OlderRenew"
)

// renews answers, as a provider, the replicated Renews of consumers. Certificates are signed for the Tenant: a Renew only
// transports the Tenant's certificate to the consumer, which cannot read Tenants. A single Renew suffices: duplicates are
// rejected and cost nothing.
type renews struct{ client client.Client }

// SetupRenew registers the controller of the Renews of consumers.
func SetupRenew(mgr ctrl.Manager) error {
	r := &renews{client: mgr.GetClient()}
	c := kube.NewController[*authv1beta1.Renew](mgr, kube.Options{Name: "renew"}, r)
	b := c.Builder(predicate.NewPredicateFuncs(peer.IsReplica)).
		Watches(&authv1beta1.Renew{}, handler.EnqueueRequestsFromMapFunc(r.requestsBeside), builder.WithPredicates(givesWay)).
		Watches(&authv1beta1.Tenant{}, handler.EnqueueRequestsFromMapFunc(r.besideTenant)).
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.inNamespace), builder.WithPredicates(kube.NamespaceChanged))
	return c.Complete(b)
}

// Sync answers one Renew.
func (r *renews) Sync(ctx context.Context, renew *authv1beta1.Renew) error {
	if !peer.IsReplica(renew) {
		return nil
	}
	var ns corev1.Namespace
	if err := r.client.Get(ctx, types.NamespacedName{Name: renew.Namespace}, &ns); err != nil {
		return fmt.Errorf("reading the namespace: %w", err)
	}
	consumer, _ := peer.OfNamespace(&ns)
	var tenants authv1beta1.TenantList
	if err := r.client.List(ctx, &tenants, client.InNamespace(renew.Namespace)); err != nil {
		return fmt.Errorf("listing tenants: %w", err)
	}
	tenant := peer.Tenant(tenants.Items, consumer)
	if tenant != nil && !tenant.DeletionTimestamp.IsZero() {
		tenant = nil
	}
	if err := r.setOwner(ctx, renew, tenant); err != nil {
		return err
	}
	if isPending(tenant) {
		return kube.Wait(0, "the Tenant is not decided yet")
	}
	var all authv1beta1.RenewList
	if err := r.client.List(ctx, &all, client.InNamespace(renew.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing Renews: %w", err)
	}
	answerRenew(renew, consumer, tenant, all.Items)
	return nil
}

// setOwner makes the Tenant the owner of the replicated Renew: without the Tenant the consumer loses the
// permission to delete it.
func (r *renews) setOwner(ctx context.Context, renew *authv1beta1.Renew, tenant *authv1beta1.Tenant) error {
	if tenant == nil {
		return nil
	}
	before := renew.DeepCopy()
	if err := controllerutil.SetOwnerReference(tenant, renew, r.client.Scheme()); err != nil {
		return fmt.Errorf("setting the owner of the Renew: %w", err)
	}
	if equality.Semantic.DeepEqual(before.OwnerReferences, renew.OwnerReferences) {
		return nil
	}
	if err := r.client.Patch(ctx, renew, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("setting the owner of the Renew: %w", err)
	}
	return nil
}

// isPending reports whether the Tenant's status is of an older generation.
func isPending(tenant *authv1beta1.Tenant) bool {
	if tenant == nil {
		return false
	}
	ready := apimeta.FindStatusCondition(tenant.Status.Conditions, authv1beta1.TenantReady)
	return ready == nil || ready.ObservedGeneration != tenant.Generation
}

// answerRenew copies the Tenant's certificate to the status, or the reason of its absence. all are the Renews of the
// namespace.
func answerRenew(renew *authv1beta1.Renew, consumer liqov1beta1.ClusterID, tenant *authv1beta1.Tenant, all []authv1beta1.Renew) {
	condition := metav1.Condition{Status: metav1.ConditionFalse}
	if condition.Reason, condition.Message = refusalOf(renew, consumer, tenant); condition.Reason == "" {
		condition.Reason, condition.Message = supersededBy(renew, consumer, tenant, all)
	}
	if condition.Reason != "" {
		renew.Status.AuthParams = nil
	} else {
		renew.Status.AuthParams = tenant.Status.AuthParams.DeepCopy()
		pending := &metav1.Condition{Status: metav1.ConditionFalse, Reason: reasonPending, Message: "the certificate of the consumer is being signed"}
		issued := cmp.Or(apimeta.FindStatusCondition(tenant.Status.Conditions, authv1beta1.TenantCertificateIssued), pending)
		condition.Status, condition.Reason, condition.Message = issued.Status, issued.Reason, issued.Message
	}
	condition.Type, condition.ObservedGeneration = authv1beta1.RenewCertificateIssued, renew.Generation
	apimeta.SetStatusCondition(&renew.Status.Conditions, condition)
}

// refusalOf returns why a Renew gets no certificate, or "" if it gets the Tenant's.
func refusalOf(renew *authv1beta1.Renew, consumer liqov1beta1.ClusterID, tenant *authv1beta1.Tenant) (reason, why string) {
	ready := metav1.Condition{Message: "the Tenant has not been processed yet"}
	if tenant != nil {
		ready = *cmp.Or(apimeta.FindStatusCondition(tenant.Status.Conditions, authv1beta1.TenantReady), &ready)
	}
	switch id := renew.Spec.ConsumerClusterID; {
	case consumer == "":
		return reasonWrongNamespace, fmt.Sprintf("namespace %s is not a tenant namespace", renew.Namespace)
	case id != "" && id != consumer:
		return reasonWrongConsumer, fmt.Sprintf("it is said to be for the consumer %q in the namespace of %q", id, consumer)
	case renew.Spec.IdentityType != authv1beta1.ControlPlaneIdentityType:
		return reasonUnsupportedType, fmt.Sprintf("spec.identityType is %q: a Renew brings credentials of the control plane, those of a slice are in its status", renew.Spec.IdentityType)
	case tenant == nil:
		return reasonTenantNotFound, "no Tenant found for this cluster"
	case tenant.Spec.TenantCondition == authv1beta1.TenantConditionDrained:
		return reasonDrained, "the tenant is drained"
	case ready.Status != metav1.ConditionTrue:
		return reasonTenantNotReady, "the Tenant is not ready: " + ready.Message
	case !policy.ExchangesKeys(tenant):
		return reasonNoHandshake, "the Tenant exchanges no keys: the administrator of the provider hands out credentials"
	}
	return "", ""
}

// supersededBy returns why an otherwise valid Renew is not answered: an older Renew takes precedence.
func supersededBy(renew *authv1beta1.Renew, consumer liqov1beta1.ClusterID, tenant *authv1beta1.Tenant, all []authv1beta1.Renew) (reason, why string) {
	first := policy.Oldest(all, func(r *authv1beta1.Renew) bool {
		refused, _ := refusalOf(r, consumer, tenant)
		return peer.IsReplica(r) && refused == ""
	})
	if first == nil || first.UID == renew.UID || policy.RankOf(renew).Compare(policy.RankOf(first)) < 0 {
		return "", ""
	}
	return reasonOlderRenew, fmt.Sprintf("the older Renew %s is answered instead", first.Name)
}

// givesWay passes changes upon which another Renew may be answered.
var givesWay = predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return false },
	UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() || e.ObjectOld.GetDeletionTimestamp() == nil && e.ObjectNew.GetDeletionTimestamp() != nil
	},
}

// requestsBeside returns requests for the Renews whose answer may change: the answered Renew, and the oldest of the others.
func (r *renews) requestsBeside(ctx context.Context, obj client.Object) []reconcile.Request {
	var first *authv1beta1.Renew
	out := kube.Requests(ctx, r.client, &authv1beta1.RenewList{}, func(renew *authv1beta1.Renew) bool {
		waits := apimeta.FindStatusCondition(renew.Status.Conditions, authv1beta1.RenewCertificateIssued)
		if waits != nil && waits.Reason == reasonOlderRenew && (first == nil || policy.RankOf(renew).Compare(policy.RankOf(first)) < 0) {
			first = renew
		}
		return renew.Status.AuthParams != nil
	}, client.InNamespace(obj.GetNamespace()), client.UnsafeDisableDeepCopy)
	if first != nil {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(first)})
	}
	return out
}

func (r *renews) besideTenant(ctx context.Context, obj client.Object) []reconcile.Request {
	return kube.Requests(ctx, r.client, &authv1beta1.RenewList{}, kube.Every, client.InNamespace(obj.GetNamespace()))
}

func (r *renews) inNamespace(ctx context.Context, obj client.Object) []reconcile.Request {
	return kube.Requests(ctx, r.client, &authv1beta1.RenewList{}, kube.Every, client.InNamespace(obj.GetName()))
}
