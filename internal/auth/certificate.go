// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/certissuer"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/policy"
)

// Reasons of the condition CertificateIssued of a Tenant whose keys are exchanged.
const (
	reasonIssued       = "CertificateIssued"
	reasonPending      = authv1beta1.ReasonCertificatePending
	reasonLate         = authv1beta1.ReasonCertificateLate
	reasonAuthParams   = "AuthParamsFailed"
	reasonRenewal      = "RenewalFailed"
	reasonBindingTaken = "BindingTaken"
)

// exchangeCredentials marks a consumer with a proven possession of its key as accepted, and issues a certificate for the key with the
// consumer's permissions. Only the proof decides about grants: ResourceSlices have certificates of their own.
func (t *tenants) exchangeCredentials(ctx context.Context, tenant *authv1beta1.Tenant, in *tenantInputs) error {
	err := t.handshake.acceptTenant(ctx, tenant, &in.namespace)
	if _, refused := kube.InvalidReason(err); refused {
		forgetCertificate(tenant)
		return errors.Join(err, t.unbindRoles(ctx, t.client, tenant))
	}
	if err != nil {
		return err
	}
	taken, err := t.bindControlPlane(ctx, tenant)
	return errors.Join(t.grantTenant(ctx, tenant), err, t.issueCertificate(ctx, tenant, taken))
}

// issueCertificate stores the consumer's credentials in the status. An issued certificate is withdrawn only when it is known to be
// useless; taken is the problem with the binding.
func (t *tenants) issueCertificate(ctx context.Context, tenant *authv1beta1.Tenant, taken string) error {
	var nodes corev1.NodeList
	if err := t.client.List(ctx, &nodes); err != nil {
		return fmt.Errorf("listing nodes: %w", err)
	}
	trouble, late := "", ""
	params, err := t.options.Server.Params(nodes.Items, tenant.Spec.ProxyURL)
	if err != nil {
		trouble = err.Error()
		if params = tenant.Status.AuthParams.DeepCopy(); params == nil {
			setCertificate(tenant, trouble, "", taken)
			return kube.Wait(0, trouble) // a watch on nodes triggers the retry
		}
	}
	cert, _, err := t.issuer.IssueOrRenew(ctx, certissuer.Request{
		Owner: tenant, Mark: names.TenantCertificateFor, Consumer: tenant.Spec.ClusterID, Secret: names.ControlPlaneCertificate, CSR: tenant.Spec.CSR,
		Slow: func(message string) { late = message },
	})
	reason, refused := certissuer.IsRefused(err)
	switch {
	case cert != nil:
		params.SignedCRT = cert.PEM
		tenant.Status.AuthParams = params
	case refused || kube.IsWait(err):
		tenant.Status.AuthParams = nil
	default:
		return err
	}
	setCertificate(tenant, cmp.Or(reason, trouble), late, taken)
	if refused {
		return kube.Wait(time.Minute, reason)
	}
	if err == nil {
		t.renewals.Put(tenant.UID, cert.RenewAt)
	}
	return err
}

// Next is when the certificate of the consumer is to be renewed.
func (t *tenants) Next(tenant *authv1beta1.Tenant) time.Duration {
	at, ok := t.renewals.Get(tenant.UID)
	if !ok || !policy.ExchangesKeys(tenant) || tenant.Status.AuthParams == nil || tenant.Spec.TenantCondition == authv1beta1.TenantConditionDrained {
		return 0
	}
	return max(at.Sub(t.options.Certificates.Now()), time.Second)
}

// setCertificate sets the certificate's condition: trouble is the problem, late is the reason of a long wait.
func setCertificate(tenant *authv1beta1.Tenant, trouble, late, taken string) {
	c := metav1.Condition{
		Type: authv1beta1.TenantCertificateIssued, Status: metav1.ConditionTrue, Reason: reasonIssued,
		Message: "the consumer can take its certificate from the status", ObservedGeneration: tenant.Generation,
	}
	switch given := tenant.Status.AuthParams != nil; {
	case !given && trouble != "":
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, reasonAuthParams, trouble
	case !given && late != "":
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, reasonLate, late
	case !given:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, reasonPending, "the certificate of the consumer is being signed"
	case trouble != "" || late != "":
		c.Reason, c.Message = reasonRenewal, "the present certificate remains in use until it expires: "+cmp.Or(trouble, late)
	case taken != "":
		c.Reason, c.Message = reasonBindingTaken, taken
	}
	apimeta.SetStatusCondition(&tenant.Status.Conditions, c)
}

// forgetCertificate removes the credentials from the status.
func forgetCertificate(tenant *authv1beta1.Tenant) {
	tenant.Status.AuthParams = nil
	apimeta.RemoveStatusCondition(&tenant.Status.Conditions, authv1beta1.TenantCertificateIssued)
}

// isWarning reports whether the condition CertificateIssued needs attention.
func isWarning(c metav1.Condition) bool {
	return c.Type == authv1beta1.TenantCertificateIssued && c.Reason != reasonIssued && c.Reason != reasonPending
}
