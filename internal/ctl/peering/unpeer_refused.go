// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"context"
	"slices"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/pki"
)

// isLockedOut reports whether the provider denies all access to the consumer: the certificate of the Identity has expired, or the Tenant is not
// served. The consumer could not delete its copies in the provider. A kubeconfig in use outlives its Identity.
func (d *deauthentication) isLockedOut(now time.Time) bool {
	var certificates [][]byte
	for _, obj := range d.identities {
		certificates = append(certificates, obj.(*authv1beta1.Identity).Spec.AuthParams.SignedCRT)
	}
	if len(d.identities) == 0 {
		for i := range d.kubeconfigs {
			if metav1.GetControllerOf(&d.kubeconfigs[i]) == nil {
				continue // made by hand: a Tenant is optional
			}
			kubeconfig, err := pki.ParseKubeconfig(d.kubeconfigs[i].Data[names.KubeconfigKey])
			if err != nil { // the certificate was issued for a Tenant even so
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

// isServed reports whether a Tenant is accepted, or not processed yet.
func isServed(obj client.Object) bool {
	tenant := obj.(*authv1beta1.Tenant)
	if cluster.IsDeleting(tenant) || tenant.Spec.TenantCondition == authv1beta1.TenantConditionDrained {
		return false
	}
	ready := apimeta.FindStatusCondition(tenant.Status.Conditions, authv1beta1.TenantReady)
	return ready == nil || ready.ObservedGeneration != tenant.Generation || ready.Status == metav1.ConditionTrue
}

// giveUp makes the consumer delete its objects without the provider's confirmation. The command reaches both clusters, and deletes the orphans in the
// provider with its own credentials.
func (u *unpeering) giveUp(ctx context.Context) error {
	s := u.consumer
	if err := declareGone(ctx, s.Kube, &liqov1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: u.provider.ID}}); err != nil {
		return s.WrapWithCluster(err)
	}
	s.Warn("%s lets this cluster in no more: what is here ends without it, and what is there is removed in the end", u.provider.ID)
	return nil
}

// requireDeclarePermission fails if the user may not declare a cluster gone.
func requireDeclarePermission(ctx context.Context, s *cluster.Cluster, id string) error {
	return s.RequirePermissions(ctx, cluster.ForObject(id, s.PermissionsFor("", "declare unreachable"))...)
}
