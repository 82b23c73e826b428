// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package peering

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

	"liqo.io/liqo/internal/ctl/cluster"

	"liqo.io/liqo/internal/ctl/network"
	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/pki"
)

// ensureTenantNamespace creates the tenant namespace of the other cluster if it is missing.
func ensureTenantNamespace(ctx context.Context, s *cluster.Cluster, c *cluster.Session, other string) error {
	return s.EnsureNamespace(ctx, c, NewHandshakeSecret(client.ObjectKey{Namespace: s.Namespace}, names.Nonce, other))
}

// awaitKey waits for the key pair of this cluster for a provider, and returns it.
func awaitKey(ctx context.Context, s *cluster.Cluster, provider string) (key crypto.Signer, err error) {
	at := client.ObjectKey{Namespace: s.LiqoNamespace, Name: names.PeerKeysSecret(provider)}
	err = kube.WaitUntil(ctx, s.Kube, func(ctx context.Context) (err error) {
		key, err = keyFor(ctx, s, provider)
		return err
	}, kube.WatchOne(&corev1.SecretList{}, at))
	if kube.IsSkipped(err) {
		key, err = pki.NewKey()
		return assignedKey{key}, err
	}
	return key, err
}

// assignedKey stands, in a dry run, for the key pair that a controller generates.
type assignedKey struct{ crypto.Signer }

// keyFor returns the key pair of this cluster for a provider. A key of an earlier tenant namespace is ignored: its deletion is
// pending.
func keyFor(ctx context.Context, s *cluster.Cluster, provider string) (crypto.Signer, error) {
	at := client.ObjectKey{Namespace: s.LiqoNamespace, Name: names.PeerKeysSecret(provider)}
	missing := kube.Pending(fmt.Sprintf("the key pair for %s, Secret %s, does not exist yet: is liqo-controller-manager running?", provider, at))
	ns, secret := &corev1.Namespace{}, &corev1.Secret{}
	if err := s.Kube.Get(ctx, client.ObjectKey{Name: s.Namespace}, ns); err != nil {
		return nil, fmt.Errorf("reading the tenant namespace: %w", err)
	}
	if err := s.Kube.Get(ctx, at, secret); apierrors.IsNotFound(err) {
		return nil, missing
	} else if err != nil {
		return nil, fmt.Errorf("reading the key pair for %s: %w", provider, err)
	}
	if !kube.Owns(ns, secret) || secret.DeletionTimestamp != nil {
		return nil, missing
	}
	key, err := pki.ParseKey(secret.Data[names.PrivateKeyKey])
	if err != nil {
		return nil, ui.Fail("the Secret %s has no usable key: %w", at, err)
	}
	return key, nil
}

// NewHandshakeSecret returns a Secret for a nonce or for a signed nonce, depending on the label.
func NewHandshakeSecret(at client.ObjectKey, label, other string) *corev1.Secret {
	secret := &corev1.Secret{ObjectMeta: network.PeerMeta(at, other)}
	secret.Labels[label] = "true"
	secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	return secret
}

// handshakeSecrets returns the Secrets with a label for the other cluster that are not being deleted. The Secret created by liqoctl comes first; a
// peering user may read no other Secret.
func handshakeSecrets(ctx context.Context, s *cluster.Cluster, label, other string) ([]corev1.Secret, error) {
	var all corev1.SecretList
	which := []client.ListOption{client.InNamespace(s.Namespace), client.MatchingLabels{label: "true", names.RemoteClusterID: other}}
	err := s.Kube.List(ctx, &all, which...)
	if apierrors.IsForbidden(err) {
		name := map[string]string{names.Nonce: names.NonceSecret, names.SignedNonce: names.SignedNonceSecret}[label]
		err = s.Kube.List(ctx, &all, append(which, client.MatchingFields{"metadata.name": name})...)
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

// ensureNonce ensures that the provider has a nonce for a consumer, and returns the key of the Secret. A used nonce is replaced unless the consumer
// was accepted with the nonce.
func ensureNonce(ctx context.Context, s *cluster.Cluster, c *cluster.Session, consumer string, known bool) (client.ObjectKey, error) {
	usable, useless, err := usableNonce(ctx, s, consumer, known)
	if err != nil {
		return client.ObjectKey{}, err
	}
	if usable != nil {
		return client.ObjectKeyFromObject(usable), keepHandshake(s.Kube, c, usable, names.Nonce, consumer)
	}
	at := client.ObjectKey{Namespace: s.Namespace, Name: names.NonceSecret}
	return at, makeHandshakeSecret(ctx, s, c, NewHandshakeSecret(at, names.Nonce, consumer), useless)
}

// keepHandshake records in a dry run that the Secret of a nonce, with or without the signature, stays unchanged.
func keepHandshake(kubeClient client.Client, c *cluster.Session, secret *corev1.Secret, label, other string) error {
	kept := NewHandshakeSecret(client.ObjectKeyFromObject(secret), label, other)
	if nonce := secret.Data[names.NonceKey]; len(nonce) > 0 {
		kept.Data = map[string][]byte{names.NonceKey: nonce}
	}
	c.SetCommonMetadata(kept)
	return cluster.KeepObject(kubeClient, kept)
}

// usableNonce returns the Secret with a usable nonce, nil for none, and the preceding unusable Secrets.
func usableNonce(ctx context.Context, s *cluster.Cluster, consumer string, known bool) (usable *corev1.Secret, useless []corev1.Secret, err error) {
	current, err := handshakeSecrets(ctx, s, names.Nonce, consumer)
	if err != nil {
		return nil, nil, err
	}
	for i := range current {
		serves := known
		if !known {
			if serves, err = canServe(ctx, s, consumer, current[i].Data[names.NonceKey]); err != nil {
				return nil, nil, err
			}
		}
		if serves {
			return &current[i], current[:i], nil
		}
	}
	return nil, current, nil
}

// makeHandshakeSecret creates a Secret in place of an unusable one.
func makeHandshakeSecret(ctx context.Context, s *cluster.Cluster, c *cluster.Session, want *corev1.Secret, useless []corev1.Secret) error {
	for i := range useless {
		if old := &useless[i]; old.Name == want.Name {
			if err := kube.DeleteObjects(ctx, s.Kube, []client.Object{old}); err != nil {
				return fmt.Errorf("removing the Secret of an earlier attempt: %w", err)
			}
		}
	}
	c.SetCommonMetadata(want)
	return cluster.ApplyObject(ctx, s.Kube, want)
}

// canServe reports whether a nonce, possibly still empty, is usable with a new key. A user who may not read the list of used nonces needs a new
// nonce.
func canServe(ctx context.Context, s *cluster.Cluster, consumer string, nonce []byte) (bool, error) {
	if len(nonce) == 0 {
		return true, nil
	}
	if pki.CheckNonce(nonce) != nil {
		return false, nil
	}
	served := &corev1.Secret{}
	err := s.Kube.Get(ctx, client.ObjectKey{Namespace: s.LiqoNamespace, Name: names.ServedNoncesSecret(consumer)}, served)
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
func awaitNonce(ctx context.Context, s *cluster.Cluster, at client.ObjectKey) (nonce []byte, err error) {
	err = awaitSecret(ctx, s, at, func(data map[string][]byte) error {
		if nonce = data[names.NonceKey]; len(nonce) == 0 {
			return kube.Pending(fmt.Sprintf("the Secret %s has no nonce yet: is liqo-controller-manager running?", at))
		}
		if err := pki.CheckNonce(nonce); err != nil {
			return ui.Fail("the Secret %s has an invalid nonce: %w", at, err)
		}
		return nil
	})
	if kube.IsSkipped(err) {
		return []byte(cluster.Assigned), nil
	}
	return nonce, err
}

// ensureSignedNonce ensures that the consumer signs a nonce of a provider, and returns the key of the Secret. A signature of an
// earlier peering or by an earlier key is replaced: the controller does not sign again after a key rotation.
func ensureSignedNonce(ctx context.Context, s *cluster.Cluster, c *cluster.Session, key crypto.PublicKey, of pki.Handshake) (client.ObjectKey, error) {
	at := client.ObjectKey{Namespace: s.Namespace, Name: names.SignedNonceSecret}
	current, err := handshakeSecrets(ctx, s, names.SignedNonce, of.Provider)
	if err != nil {
		return at, err
	}
	for i := range current {
		signature := current[i].Data[names.SignedNonceKey]
		if string(current[i].Data[names.NonceKey]) == string(of.Nonce) && (len(signature) == 0 || signedBy(key, of, signature)) {
			return client.ObjectKeyFromObject(&current[i]), keepHandshake(s.Kube, c, &current[i], names.SignedNonce, of.Provider)
		}
	}
	want := NewHandshakeSecret(at, names.SignedNonce, of.Provider)
	want.Data = map[string][]byte{names.NonceKey: of.Nonce}
	return at, makeHandshakeSecret(ctx, s, c, want, current)
}

// signedBy reports whether the key made a signature of the nonce, in either form.
func signedBy(key crypto.PublicKey, of pki.Handshake, signature []byte) bool {
	legacy := of
	legacy.Legacy = true
	return of.Verify(key, signature) == nil || legacy.Verify(key, signature) == nil
}

// awaitSignature waits until the nonce is signed by the key, and returns the signature.
func awaitSignature(ctx context.Context, s *cluster.Cluster, at client.ObjectKey, key crypto.PublicKey, of pki.Handshake) (signature []byte, err error) {
	err = awaitSecret(ctx, s, at, func(data map[string][]byte) error {
		signature = data[names.SignedNonceKey]
		if !signedBy(key, of, signature) {
			return kube.Pending(fmt.Sprintf("the nonce in the Secret %s is not signed yet: is liqo-controller-manager running?", at))
		}
		return nil
	})
	if kube.IsSkipped(err) {
		return []byte(cluster.Assigned), nil
	}
	return signature, err
}

func awaitSecret(ctx context.Context, s *cluster.Cluster, at client.ObjectKey, check func(data map[string][]byte) error) error {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: at.Namespace, Name: at.Name}}
	return kube.WaitForReady(ctx, s.Kube, secret, func(_ context.Context, secret *corev1.Secret) error { return check(secret.Data) })
}
