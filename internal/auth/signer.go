// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/peer"
	"liqo.io/liqo/internal/pki"
)

// SignerOptions configure the signature of nonces.
type SignerOptions struct {
	// ClusterID of this cluster, the consumer.
	ClusterID liqov1beta1.ClusterID
	// LiqoNamespace holds the key pairs.
	LiqoNamespace string
	// LegacyNonces signs the nonce alone, for providers without the newer form.
	LegacyNonces bool
}

// Reasons of the events of a Secret whose nonce is to be signed.
const (
	reasonNonceSigned  = "NonceSigned"
	reasonMissingNonce = "MissingNonce"
)

// nonceSigner signs, as a consumer, the nonces of providers, with a key pair per provider. Any client with write access to
// Secrets in a tenant namespace can have a text signed, so a signature must be meaningless elsewhere.
type nonceSigner struct {
	direct  client.Reader
	options SignerOptions
}

// SetupSigner registers the controller that signs the nonces of providers.
func SetupSigner(mgr ctrl.Manager, o SignerOptions) error {
	direct, err := kube.DirectClient(mgr)
	if err != nil {
		return err
	}
	s := &nonceSigner{direct: direct, options: o}
	_, err = setupHandshakeSecrets(mgr, "signednonce", names.SignedNonce, s.signNonce)
	return err
}

// signNonce signs the nonce unless the existing signature is valid: not every algorithm is deterministic.
func (s *nonceSigner) signNonce(ctx context.Context, provider liqov1beta1.ClusterID, secret *corev1.Secret) (kube.Event, error) {
	nonce := secret.Data[names.NonceKey]
	if len(nonce) == 0 {
		return kube.Event{}, kube.Invalid(reasonMissingNonce, errors.New("a Secret labelled "+names.SignedNonce+" needs the key "+names.NonceKey+": the text that the provider made"))
	}
	if err := pki.CheckNonce(nonce); err != nil {
		return kube.Event{}, kube.Invalid(reasonInvalidNonce, err)
	}
	key, err := peer.Key(ctx, s.direct, s.options.LiqoNamespace, provider)
	if err != nil {
		return kube.Event{}, err
	}
	handshake := pki.Handshake{
		Provider: string(provider), Consumer: string(s.options.ClusterID), Nonce: nonce, Legacy: s.options.LegacyNonces,
	}
	if handshake.Verify(key.Public(), secret.Data[names.SignedNonceKey]) != nil {
		signature, err := handshake.Sign(key)
		if err != nil {
			return kube.Event{}, err
		}
		secret.Data[names.SignedNonceKey] = signature
	}
	return kube.Event{Type: corev1.EventTypeNormal, Reason: reasonNonceSigned, Message: "the Tenant for the provider can be made"}, nil
}
