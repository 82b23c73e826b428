// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"context"
	"crypto"
	"fmt"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/kube"

	"liqo.io/liqo/internal/ctl/network"
	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/pki"
	"liqo.io/liqo/internal/policy"
)

// noncePermissions returns permissions on the nonce of the consumer. A peering user may read and delete no further Secret.
func noncePermissions(s *cluster.Cluster, action string) []cluster.Permission {
	return cluster.ForObject(names.NonceSecret, s.PermissionsFor("", action))
}

// tenantOf returns the Tenant of a consumer, nil for none.
func tenantOf(ctx context.Context, s *cluster.Cluster, consumer string) (*authv1beta1.Tenant, error) {
	found, err := network.FindOne(ctx, s, &authv1beta1.TenantList{}, consumer)
	if err != nil || found == nil {
		return nil, err
	}
	tenant, key := found.(*authv1beta1.Tenant), client.ObjectKeyFromObject(found)
	switch {
	case tenant.Namespace != s.Namespace:
		return nil, ui.Fail("the Tenant %s of %s is not in its tenant namespace, which is %s", key, consumer, s.Namespace).Hint("Delete it")
	case !policy.ExchangesKeys(tenant):
		return nil, ui.Fail("the Tenant %s was made for credentials that are made by hand: its policy is %s", key, authv1beta1.TolerateNoHandshake).
			Hint("Delete it, and the kubeconfig of %s in the consumer", s.ID)
	}
	return tenant, nil
}

func controlPlaneSubject(consumer string) pki.Subject {
	return pki.Subject{CommonName: consumer, Organization: names.ControlPlaneGroup}
}

// newTenant returns the Tenant of a consumer with the signed nonce of the provider.
func newTenant(at client.ObjectKey, consumer string, key crypto.Signer, signature []byte, proxyURL string) (*authv1beta1.Tenant, error) {
	request, err := pki.NewCSR(key, controlPlaneSubject(consumer))
	if err != nil {
		return nil, err
	}
	public, err := pki.EncodePublicKey(key.Public())
	if err != nil {
		return nil, err
	}
	tenant := &authv1beta1.Tenant{
		ObjectMeta: network.PeerMeta(at, consumer),
		Spec:       authv1beta1.TenantSpec{ClusterID: liqov1beta1.ClusterID(consumer), PublicKey: public, CSR: request, Signature: signature},
	}
	if _, unknown := key.(assignedKey); unknown {
		tenant.Spec.PublicKey, tenant.Spec.CSR = []byte(cluster.Assigned), []byte(cluster.Assigned)
	}
	if proxyURL != "" {
		tenant.Spec.ProxyURL = &proxyURL
	}
	tenant.SetGroupVersionKind(authv1beta1.GroupVersion.WithKind("Tenant"))
	return tenant, nil
}

// keepRequest keeps the existing certificate signing request if it is for the same key: not every signature algorithm is
// deterministic, and a changed request would be signed again.
func keepRequest(want, have *authv1beta1.Tenant, key crypto.PublicKey) {
	if have != nil && pki.CheckCSR(have.Spec.CSR, controlPlaneSubject(string(want.Spec.ClusterID)), key) == nil {
		want.Spec.CSR = have.Spec.CSR
	}
}

// isAccepted reports whether the provider accepted the consumer with this key: no further nonce is needed.
func isAccepted(tenant *authv1beta1.Tenant, key crypto.PublicKey) bool {
	if tenant == nil {
		return false
	}
	have, err := pki.ParsePublicKey(tenant.Spec.PublicKey)
	if err != nil {
		return false
	}
	theirs, err := pki.Fingerprint(have)
	if err != nil {
		return false
	}
	ours, err := pki.Fingerprint(key)
	return err == nil && ours == theirs && ConditionIs(tenant, authv1beta1.TenantReady, metav1.ConditionTrue)
}

// ConditionIs reports whether a condition of the Tenant has a status for the current generation.
func ConditionIs(tenant *authv1beta1.Tenant, kind string, status metav1.ConditionStatus) bool {
	c := apimeta.FindStatusCondition(tenant.Status.Conditions, kind)
	return c != nil && c.ObservedGeneration == tenant.Generation && c.Status == status
}

// checkGranted returns a Pending with the first missing grant of the provider.
func checkGranted(tenant *authv1beta1.Tenant) error {
	key := client.ObjectKeyFromObject(tenant)
	ready := apimeta.FindStatusCondition(tenant.Status.Conditions, authv1beta1.TenantReady)
	switch {
	case ready == nil || ready.ObservedGeneration != tenant.Generation:
		return kube.Pending(fmt.Sprintf("Tenant %s has not been processed yet: is liqo-controller-manager running?", key))
	case ready.Status != metav1.ConditionTrue:
		return ui.Fail("the Tenant %s is refused: %s: %s", key, ready.Reason, ready.Message).See("docs/troubleshooting.md#a-slice-is-not-accepted")
	}
	issued := apimeta.FindStatusCondition(tenant.Status.Conditions, authv1beta1.TenantCertificateIssued)
	switch {
	case issued == nil || issued.ObservedGeneration != tenant.Generation:
		return kube.Pending(fmt.Sprintf("the certificate for the Tenant %s was not asked for yet", key))
	case issued.Status == metav1.ConditionFalse && issued.Reason != authv1beta1.ReasonCertificatePending && issued.Reason != authv1beta1.ReasonCertificateLate:
		return ui.Fail("no certificate was issued for the Tenant %s: %s: %s", key, issued.Reason, issued.Message).
			See("docs/troubleshooting.md#a-slice-is-not-accepted")
	case tenant.Status.AuthParams == nil || tenant.Status.TenantNamespace == "":
		return kube.Pending(fmt.Sprintf("the Tenant %s is not served yet: %s", key, issued.Message))
	}
	return nil
}

// awaitTenant waits until the Tenant has the credentials for the consumer.
func awaitTenant(ctx context.Context, s *cluster.Cluster, at client.ObjectKey) (*authv1beta1.Tenant, error) {
	tenant := &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Namespace: at.Namespace, Name: at.Name}}
	err := kube.WaitForReady(ctx, s.Kube, tenant, func(_ context.Context, tenant *authv1beta1.Tenant) error { return checkGranted(tenant) })
	if kube.IsSkipped(err) {
		tenant.Status.TenantNamespace = at.Namespace
		tenant.Status.AuthParams = &authv1beta1.AuthParams{APIServer: cluster.Assigned, SignedCRT: []byte(cluster.Assigned)}
		return tenant, nil
	}
	return tenant, err
}
