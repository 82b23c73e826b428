// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/cred"
)

// shut tells whether the provider lets the consumer in no more: the certificate of its Identity has ended, or no Tenant is served that it
// was given for. Nothing that the consumer has there could end by itself. An Identity that is gone counts while its kubeconfig is used.
func (d *deauthentication) shut(now time.Time) bool {
	used := func(secret corev1.Secret) bool { return ending(&secret) && ownedBy(&secret, "Identity") }
	if len(d.identities) == 0 && !slices.ContainsFunc(d.kubeconfigs, used) {
		return false
	}
	ended := func(obj client.Object) bool {
		certificate, err := cred.ParseCertificate(obj.(*authv1beta1.Identity).Spec.AuthParams.SignedCRT)
		return err == nil && now.After(certificate.NotAfter)
	}
	return slices.ContainsFunc(d.identities, ended) || !slices.ContainsFunc(d.tenants, served)
}

// served tells of a Tenant that it is not refused, and may be soon if nobody looked at it yet.
func served(obj client.Object) bool {
	tenant := obj.(*authv1beta1.Tenant)
	if ending(tenant) || tenant.Spec.TenantCondition == authv1beta1.TenantConditionDrained {
		return false
	}
	ready := apimeta.FindStatusCondition(tenant.Status.Conditions, authv1beta1.TenantReady)
	return ready == nil || ready.ObservedGeneration != tenant.Generation || ready.Status == metav1.ConditionTrue
}

// giveUp has the consumer end what it has without the provider: both clusters are at hand, and what is left in the provider is removed there,
// with its credentials.
func (u *unpeering) giveUp(ctx context.Context) error {
	s := u.consumer
	if err := declareGone(ctx, s.kube, &liqov1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: u.provider.id}}); err != nil {
		return s.wrong(err)
	}
	s.Warn("%s lets this cluster in no more: what is here ends without it, and what is there is removed in the end", u.provider.id)
	return nil
}

// demandToDeclare fails where the user may not say that a cluster is gone.
func (s *side) demandToDeclare(ctx context.Context, id string) error {
	return s.demandOf(ctx, id, rights{"", schema.GroupResource{Group: liqov1beta1.GroupName, Resource: liqov1beta1.ForeignClusterResource}, []string{"patch"}})
}
