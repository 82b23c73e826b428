// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"context"
	"slices"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/pki"
)

// isLockedOut tells whether the provider lets the consumer in no more: the certificate of its Identity has ended, or no Tenant is served that it
// was given for. Nothing that the consumer has there could end by itself. The kubeconfig of an Identity outlives it while it is used.
func (d *deauthentication) isLockedOut(now time.Time) bool {
	var certificates [][]byte
	for _, obj := range d.identities {
		certificates = append(certificates, obj.(*authv1beta1.Identity).Spec.AuthParams.SignedCRT)
	}
	if len(d.identities) == 0 {
		for i := range d.kubeconfigs {
			if metav1.GetControllerOf(&d.kubeconfigs[i]) == nil {
				continue // made by hand: there need be no Tenant
			}
			kubeconfig, err := pki.ParseKubeconfig(d.kubeconfigs[i].Data[names.KubeconfigKey])
			if err != nil { // it was given for a Tenant all the same
				kubeconfig = &pki.Kubeconfig{}
			}
			certificates = append(certificates, kubeconfig.Certificate)
		}
	}
	ended := func(pem []byte) bool {
		certificate, err := pki.ParseCertificate(pem)
		return err == nil && now.After(certificate.NotAfter)
	}
	return slices.ContainsFunc(certificates, ended) || len(certificates) > 0 && !slices.ContainsFunc(d.tenants, isServed)
}

// isServed tells of a Tenant that it is not refused, and may be soon if nobody looked at it yet.
func isServed(obj client.Object) bool {
	tenant := obj.(*authv1beta1.Tenant)
	if isDeleting(tenant) || tenant.Spec.TenantCondition == authv1beta1.TenantConditionDrained {
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
		return s.wrapWithCluster(err)
	}
	s.Warn("%s lets this cluster in no more: what is here ends without it, and what is there is removed in the end", u.provider.id)
	return nil
}

// demandToDeclare fails where the user may not say that a cluster is gone.
func (s *clusterSide) demandToDeclare(ctx context.Context, id string) error {
	return s.demandOf(ctx, id, permissions{"", schema.GroupResource{Group: liqov1beta1.GroupName, Resource: liqov1beta1.ForeignClusterResource}, []string{"patch"}})
}
