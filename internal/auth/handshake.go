// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/pki"
)

// Reasons of the condition Ready of a Tenant whose keys are exchanged.
const (
	reasonNonceNotFound    = "NonceNotFound"
	reasonNonceUsed        = "NonceUsed"
	reasonInvalidPublicKey = "InvalidPublicKey"
	reasonWrongSignature   = "SignatureVerificationFailed"
	reasonInvalidCSR       = "InvalidCSR"
	reasonManyHandshakes   = "TooManyHandshakes"
)

// mostServed is how many nonces of a consumer may serve: none is ever forgotten, and a Secret has an end.
const mostServed = 8192

// handshake verifies that the consumer possesses the private key of its Tenant. Used nonces are stored in a Secret in the
// namespace of the installation, with the Tenant and the proven key: docs/design/handshake.md gives the reason.
type handshake struct {
	direct  client.Client         // writes the Secrets of used nonces
	cache   *kube.NamespacedWatch // reads them
	nonces  client.Reader
	options TenantOptions
	// ahead are the consumers whose Secret this process wrote, until the cache contains the write.
	ahead kube.Table[liqov1beta1.ClusterID, bool]
}

func newHandshake(mgr ctrl.Manager, nonces client.Reader, o TenantOptions) (*handshake, error) {
	direct, err := kube.DirectClient(mgr)
	if err != nil {
		return nil, err
	}
	liqoSelector := labels.SelectorFromSet(labels.Set{corev1.LabelMetadataName: o.LiqoNamespace})
	cache := kube.NewNamespacedWatch(mgr.GetConfig(), mgr.GetCache(), &corev1.Secret{}, liqoSelector, labels.NewSelector().Add(labelPresent(names.ServedNonces)))
	if err := mgr.Add(cache); err != nil {
		return nil, fmt.Errorf("adding the watch of nonces that served: %w", err)
	}
	return &handshake{direct: direct, cache: cache, nonces: nonces, options: o}, nil
}

// acceptTenant returns why the consumer has not proved possession of the Tenant's key, or nil if it has.
func (h *handshake) acceptTenant(ctx context.Context, tenant *authv1beta1.Tenant, ns *corev1.Namespace) error {
	key, err := pki.ParsePublicKey(tenant.Spec.PublicKey)
	if err != nil {
		return kube.Invalid(reasonInvalidPublicKey, fmt.Errorf("spec.publicKey: %w", err))
	}
	subject := pki.Subject{CommonName: string(tenant.Spec.ClusterID), Organization: names.ControlPlaneGroup}
	if err := pki.CheckCSR(tenant.Spec.CSR, subject, key); err != nil {
		return kube.Invalid(reasonInvalidCSR, fmt.Errorf("spec.csr: %w", err))
	}
	fingerprint, err := pki.Fingerprint(key)
	if err != nil {
		return err
	}
	served, err := h.readNonce(ctx, tenant.Spec.ClusterID)
	if err != nil {
		return err
	}
	own := string(tenant.UID) + " " + fingerprint
	for _, by := range served.Data {
		if string(by) == own {
			return nil
		}
	}
	nonce, err := h.verifyProof(ctx, h.nonces, tenant, key)
	if _, refused := kube.InvalidReason(err); refused {
		// The nonce may be newer than the cache: a stale cache must not cause a rejection.
		nonce, err = h.verifyProof(ctx, h.direct, tenant, key)
	}
	if err != nil {
		return err
	}
	if _, used := served.Data[pki.NonceEntry(nonce)]; used {
		return kube.Invalid(reasonNonceUsed, errors.New("the nonce has served another Tenant or key already: remove its Secret, make a new one, and have that signed"))
	}
	return h.consumeNonce(ctx, served, tenant, ns, nonce, own)
}

// verifyProof returns the nonce that the Tenant signed.
func (h *handshake) verifyProof(ctx context.Context, nonces client.Reader, tenant *authv1beta1.Tenant, key crypto.PublicKey) ([]byte, error) {
	var all corev1.SecretList
	if err := nonces.List(ctx, &all, client.InNamespace(tenant.Namespace), client.HasLabels{names.Nonce}); err != nil {
		return nil, fmt.Errorf("listing nonces: %w", err)
	}
	slices.SortFunc(all.Items, func(a, b corev1.Secret) int { return strings.Compare(a.Name, b.Name) })
	missing := kube.Invalid(reasonNonceNotFound, fmt.Errorf("no Secret with a nonce and the labels %s=true and %s=%s is in this namespace", names.Nonce, names.RemoteClusterID, tenant.Spec.ClusterID))
	for i := range all.Items {
		secret := &all.Items[i]
		nonce := secret.Data[names.NonceKey]
		if secret.Labels[names.Nonce] != "true" || secret.Labels[names.RemoteClusterID] != string(tenant.Spec.ClusterID) ||
			!secret.DeletionTimestamp.IsZero() || len(nonce) == 0 {
			continue
		}
		claim := pki.Handshake{Provider: string(h.options.ClusterID), Consumer: string(tenant.Spec.ClusterID), Nonce: nonce}
		err := claim.Verify(key, tenant.Spec.Signature)
		if err != nil && h.options.LegacyNonces {
			claim.Legacy = true
			err = claim.Verify(key, tenant.Spec.Signature)
		}
		if err == nil {
			return nonce, nil
		}
		missing = kube.Invalid(reasonWrongSignature, fmt.Errorf("spec.signature: %w", err))
	}
	return nil, missing
}

// readNonce reads the used nonces of the consumer.
func (h *handshake) readNonce(ctx context.Context, consumer liqov1beta1.ClusterID) (*corev1.Secret, error) {
	key := client.ObjectKey{Namespace: h.options.LiqoNamespace, Name: names.ServedNoncesSecret(string(consumer))}
	current := &corev1.Secret{}
	err := h.cache.Get(ctx, key, current)
	if _, ahead := h.ahead.Get(consumer); ahead && client.IgnoreNotFound(err) == nil {
		// A key that was just replaced must not be accepted because of a stale cache.
		cached := current.ResourceVersion
		current = &corev1.Secret{}
		if err = h.direct.Get(ctx, key, current); client.IgnoreNotFound(err) == nil && current.ResourceVersion == cached {
			h.ahead.Drop(consumer)
		}
	}
	if apierrors.IsNotFound(err) {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the nonces that served: %w", err)
	}
	return current, nil
}

// consumeNonce stores the nonce as used before anything is granted. The previous nonces of this Tenant, and of earlier Tenants of the
// consumer, stay used: a replaced key cannot be replayed.
func (h *handshake) consumeNonce(ctx context.Context, served *corev1.Secret, tenant *authv1beta1.Tenant, ns *corev1.Namespace, nonce []byte, own string) error {
	if len(served.Data) >= mostServed {
		return kube.Invalid(reasonManyHandshakes, fmt.Errorf("%d nonces of %s were used, the maximum of a tenant namespace: delete the namespace, and peer again",
			len(served.Data), tenant.Spec.ClusterID))
	}
	before, data := served.DeepCopy(), map[string][]byte{}
	for entry := range served.Data {
		data[entry] = []byte("replaced")
	}
	data[pki.NonceEntry(nonce)] = []byte(own)
	served.Data = data
	served.Labels = map[string]string{names.RemoteClusterID: string(tenant.Spec.ClusterID), names.ServedNonces: "true"}
	if err := controllerutil.SetOwnerReference(ns, served, h.direct.Scheme()); err != nil {
		return fmt.Errorf("setting the owner of the nonces that served: %w", err)
	}
	write := func() error { return h.direct.Create(ctx, served) }
	if served.ResourceVersion != "" {
		write = func() error {
			return h.direct.Patch(ctx, served, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
		}
	}
	h.ahead.Put(tenant.Spec.ClusterID, true)
	if err := write(); err != nil {
		return fmt.Errorf("writing down that the nonce served: %w", err)
	}
	return nil
}
