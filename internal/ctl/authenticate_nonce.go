// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"cmp"
	"context"
	"crypto"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/await"
	"liqo.io/liqo/internal/ctl/dryrun"
	"liqo.io/liqo/internal/ctl/out"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/pki"
)

// ensureTenantNamespace creates the tenant namespace of the other cluster if it is missing.
func (s *Cluster) ensureTenantNamespace(ctx context.Context, c *cli, other string) error {
	return s.ensureNamespace(ctx, c, newHandshakeSecret(client.ObjectKey{Namespace: s.namespace}, names.Nonce, other))
}

// awaitKey waits for the key pair of this cluster for a provider, and returns it.
func (s *Cluster) awaitKey(ctx context.Context, provider string) (key crypto.Signer, err error) {
	at := client.ObjectKey{Namespace: s.liqoNamespace, Name: names.PeerKeysSecret(provider)}
	err = await.Until(ctx, s.kube, func(ctx context.Context) (err error) {
		key, err = s.keyFor(ctx, provider)
		return err
	}, await.One(&corev1.SecretList{}, at))
	if await.IsSkipped(err) {
		key, err = pki.NewKey()
		return assignedKey{key}, err
	}
	return key, err
}

// assignedKey stands, in a dry run, for the key pair that a controller generates.
type assignedKey struct{ crypto.Signer }

// keyFor returns the key pair of this cluster for a provider. A key of an earlier tenant namespace is ignored: its deletion is
// pending.
func (s *Cluster) keyFor(ctx context.Context, provider string) (crypto.Signer, error) {
	at := client.ObjectKey{Namespace: s.liqoNamespace, Name: names.PeerKeysSecret(provider)}
	missing := await.Pending(fmt.Sprintf("the key pair for %s, Secret %s, does not exist yet: is liqo-controller-manager running?", provider, at))
	ns, secret := &corev1.Namespace{}, &corev1.Secret{}
	if err := s.kube.Get(ctx, client.ObjectKey{Name: s.namespace}, ns); err != nil {
		return nil, fmt.Errorf("reading the tenant namespace: %w", err)
	}
	if err := s.kube.Get(ctx, at, secret); apierrors.IsNotFound(err) {
		return nil, missing
	} else if err != nil {
		return nil, fmt.Errorf("reading the key pair for %s: %w", provider, err)
	}
	if !kube.Owns(ns, secret) || secret.DeletionTimestamp != nil {
		return nil, missing
	}
	key, err := pki.ParseKey(secret.Data[names.PrivateKeyKey])
	if err != nil {
		return nil, out.Fail("the Secret %s has no usable key: %w", at, err)
	}
	return key, nil
}

// newHandshakeSecret returns a Secret for a nonce or for a signed nonce, depending on the label.
func newHandshakeSecret(at client.ObjectKey, label, other string) *corev1.Secret {
	secret := &corev1.Secret{ObjectMeta: peerMeta(at, other)}
	secret.Labels[label] = "true"
	secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	return secret
}

// handshakeSecrets returns the Secrets with a label for the other cluster that are not being deleted. The Secret that liqoctl creates
// comes first; a peering user may read no other.
func (s *Cluster) handshakeSecrets(ctx context.Context, label, other string) ([]corev1.Secret, error) {
	var all corev1.SecretList
	which := []client.ListOption{client.InNamespace(s.namespace), client.MatchingLabels{label: "true", names.RemoteClusterID: other}}
	err := s.kube.List(ctx, &all, which...)
	if apierrors.IsForbidden(err) {
		name := map[string]string{names.Nonce: names.NonceSecret, names.SignedNonce: names.SignedNonceSecret}[label]
		err = s.kube.List(ctx, &all, append(which, client.MatchingFields{"metadata.name": name})...)
	}
	if err != nil {
		return nil, fmt.Errorf("listing the Secrets labelled %s: %w", label, err)
	}
	stay := slices.DeleteFunc(all.Items, func(secret corev1.Secret) bool { return secret.DeletionTimestamp != nil })
	usual := func(secret corev1.Secret) int {
		if secret.Name == names.NonceSecret || secret.Name == names.SignedNonceSecret {
			return 0
		}
		return 1
	}
	slices.SortFunc(stay, func(a, b corev1.Secret) int { return cmp.Or(usual(a)-usual(b), cmp.Compare(a.Name, b.Name)) })
	return stay, nil
}

// ensureNonce ensures that the provider has a nonce for a consumer, and returns the key of its Secret. A used nonce is replaced unless
// the consumer was accepted with it.
func (s *Cluster) ensureNonce(ctx context.Context, c *cli, consumer string, known bool) (client.ObjectKey, error) {
	usable, useless, err := s.usableNonce(ctx, consumer, known)
	if err != nil {
		return client.ObjectKey{}, err
	}
	if usable != nil {
		return client.ObjectKeyFromObject(usable), keepHandshake(s.kube, c, usable, names.Nonce, consumer)
	}
	at := client.ObjectKey{Namespace: s.namespace, Name: names.NonceSecret}
	return at, s.makeHandshakeSecret(ctx, c, newHandshakeSecret(at, names.Nonce, consumer), useless)
}

// keepHandshake records in a dry run that the Secret of a nonce, with or without its signature, stays as it is.
func keepHandshake(cluster client.Client, c *cli, secret *corev1.Secret, label, other string) error {
	kept := newHandshakeSecret(client.ObjectKeyFromObject(secret), label, other)
	if nonce := secret.Data[names.NonceKey]; len(nonce) > 0 {
		kept.Data = map[string][]byte{names.NonceKey: nonce}
	}
	c.setCommonMetadata(kept)
	return keepObject(cluster, kept)
}

// usableNonce returns the Secret with a usable nonce, nil for none, and the Secrets before it, which are unusable.
func (s *Cluster) usableNonce(ctx context.Context, consumer string, known bool) (usable *corev1.Secret, useless []corev1.Secret, err error) {
	have, err := s.handshakeSecrets(ctx, names.Nonce, consumer)
	if err != nil {
		return nil, nil, err
	}
	for i := range have {
		serves := known
		if !known {
			if serves, err = s.canServe(ctx, consumer, have[i].Data[names.NonceKey]); err != nil {
				return nil, nil, err
			}
		}
		if serves {
			return &have[i], have[:i], nil
		}
	}
	return nil, have, nil
}

// makeHandshakeSecret creates a Secret in place of an unusable one.
func (s *Cluster) makeHandshakeSecret(ctx context.Context, c *cli, want *corev1.Secret, useless []corev1.Secret) error {
	for i := range useless {
		if old := &useless[i]; old.Name == want.Name {
			if err := await.DeleteObjects(ctx, s.kube, []client.Object{old}); err != nil {
				return fmt.Errorf("removing the Secret of an earlier attempt: %w", err)
			}
		}
	}
	c.setCommonMetadata(want)
	return applyObject(ctx, s.kube, want)
}

// canServe reports whether a nonce, which may be empty still, is usable with a new key. A user who may not read the list of used
// nonces needs a new nonce.
func (s *Cluster) canServe(ctx context.Context, consumer string, nonce []byte) (bool, error) {
	if len(nonce) == 0 {
		return true, nil
	}
	if pki.CheckNonce(nonce) != nil {
		return false, nil
	}
	served := &corev1.Secret{}
	err := s.kube.Get(ctx, client.ObjectKey{Namespace: s.liqoNamespace, Name: names.ServedNoncesSecret(consumer)}, served)
	switch {
	case apierrors.IsNotFound(err):
		return true, nil
	case apierrors.IsForbidden(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("reading which nonces served: %w", err)
	}
	_, used := served.Data[pki.NonceEntry(nonce)]
	return !used, nil
}

// awaitNonce waits until the provider generated the nonce, and returns it.
func (s *Cluster) awaitNonce(ctx context.Context, at client.ObjectKey) (nonce []byte, err error) {
	err = s.awaitSecret(ctx, at, func(data map[string][]byte) error {
		if nonce = data[names.NonceKey]; len(nonce) == 0 {
			return await.Pending(fmt.Sprintf("the Secret %s has no nonce yet: is liqo-controller-manager running?", at))
		}
		if err := pki.CheckNonce(nonce); err != nil {
			return out.Fail("the Secret %s has an invalid nonce: %w", at, err)
		}
		return nil
	})
	if await.IsSkipped(err) {
		return []byte(dryrun.Assigned), nil
	}
	return nonce, err
}

// ensureSignedNonce ensures that the consumer signs a nonce of a provider, and returns the key of the Secret. A signature of an
// earlier peering or by an earlier key is replaced: the controller does not sign again after a key rotation.
func (s *Cluster) ensureSignedNonce(ctx context.Context, c *cli, key crypto.PublicKey, of pki.Handshake) (client.ObjectKey, error) {
	at := client.ObjectKey{Namespace: s.namespace, Name: names.SignedNonceSecret}
	have, err := s.handshakeSecrets(ctx, names.SignedNonce, of.Provider)
	if err != nil {
		return at, err
	}
	for i := range have {
		signature := have[i].Data[names.SignedNonceKey]
		if string(have[i].Data[names.NonceKey]) == string(of.Nonce) && (len(signature) == 0 || signedBy(key, of, signature)) {
			return client.ObjectKeyFromObject(&have[i]), keepHandshake(s.kube, c, &have[i], names.SignedNonce, of.Provider)
		}
	}
	want := newHandshakeSecret(at, names.SignedNonce, of.Provider)
	want.Data = map[string][]byte{names.NonceKey: of.Nonce}
	return at, s.makeHandshakeSecret(ctx, c, want, have)
}

// signedBy reports whether the key made a signature of the nonce, in either form.
func signedBy(key crypto.PublicKey, of pki.Handshake, signature []byte) bool {
	legacy := of
	legacy.Legacy = true
	return of.Verify(key, signature) == nil || legacy.Verify(key, signature) == nil
}

// awaitSignature waits until the nonce is signed by the key, and returns the signature.
func (s *Cluster) awaitSignature(ctx context.Context, at client.ObjectKey, key crypto.PublicKey, of pki.Handshake) (signature []byte, err error) {
	err = s.awaitSecret(ctx, at, func(data map[string][]byte) error {
		signature = data[names.SignedNonceKey]
		if !signedBy(key, of, signature) {
			return await.Pending(fmt.Sprintf("the nonce in the Secret %s is not signed yet: is liqo-controller-manager running?", at))
		}
		return nil
	})
	if await.IsSkipped(err) {
		return []byte(dryrun.Assigned), nil
	}
	return signature, err
}

func (s *Cluster) awaitSecret(ctx context.Context, at client.ObjectKey, check func(data map[string][]byte) error) error {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: at.Namespace, Name: at.Name}}
	return await.Ready(ctx, s.kube, secret, func(_ context.Context, secret *corev1.Secret) error { return check(secret.Data) })
}
