// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"context"
	"crypto"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/await"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/pki"
)

// printDryRun prints the manifests for both clusters, as far as they are predictable. Objects that a controller would create are
// included, so that all manifests can be applied at once.
func (a *authentication) printDryRun(ctx context.Context, format string) error {
	remote, local, err := a.buildManifests(ctx)
	if err != nil {
		return err
	}
	return a.printPages(format, toApply, remote, local)
}

func (a *authentication) buildManifests(ctx context.Context) (remote, local *manifestPage, err error) {
	if err := a.readState(ctx); err != nil {
		return nil, nil, err
	}
	local, remote = &manifestPage{Cluster: a.consumer}, &manifestPage{Cluster: a.provider}
	if a.key, err = a.foreseeKey(ctx); err != nil {
		return nil, nil, a.consumer.wrapWithCluster(err)
	}
	offered, err := a.foreseeNonce(ctx)
	if err != nil {
		return nil, nil, a.provider.wrapWithCluster(err)
	}
	signed := newHandshakeSecret(client.ObjectKey{Namespace: local.namespace, Name: names.SignedNonceSecret}, names.SignedNonce, a.provider.id)
	signed.Data = offered.Data
	for _, of := range []struct {
		in     *manifestPage
		secret *corev1.Secret
	}{{remote, offered}, {local, signed}} {
		if err := of.in.addNamespace(ctx, a.cli, of.secret); err != nil {
			return nil, nil, err
		}
		rehearsed := of.secret.DeepCopy()
		if of.in == remote {
			rehearsed.Data = nil // the provider makes the nonce in a real run, and a peering user may not choose one
		}
		if err := of.in.dryRunCreate(ctx, a.cli, rehearsed); err != nil {
			return nil, nil, err
		}
		of.in.addManifest(a.cli, of.secret, "")
	}
	if err := a.previewTenant(ctx, remote, offered.Data[names.NonceKey]); err != nil {
		return nil, nil, err
	}
	if err := a.previewIdentity(ctx, local); err != nil {
		return nil, nil, err
	}
	return remote, local, nil
}

// foreseeNonce returns the Secret with the nonce to sign: an existing usable one, or a new one.
func (a *authentication) foreseeNonce(ctx context.Context) (*corev1.Secret, error) {
	usable, _, err := a.provider.usableNonce(ctx, a.consumer.id, a.key != nil && isAccepted(a.have, a.key.Public()))
	if err != nil {
		return nil, err
	}
	secret := newHandshakeSecret(client.ObjectKey{Namespace: a.provider.namespace, Name: names.NonceSecret}, names.Nonce, a.consumer.id)
	secret.Data = map[string][]byte{names.NonceKey: pki.NewNonce()}
	if usable != nil {
		secret.Name = usable.Name
		if nonce := usable.Data[names.NonceKey]; len(nonce) > 0 {
			secret.Data[names.NonceKey] = nonce
		}
	}
	return secret, nil
}

// foreseeKey returns the key pair of the consumer, nil before it exists.
func (a *authentication) foreseeKey(ctx context.Context) (crypto.Signer, error) {
	if a.consumer.missing {
		return nil, nil
	}
	key, err := a.consumer.keyFor(ctx, a.provider.id)
	if _, missing := errors.AsType[await.Pending](err); missing {
		return nil, nil
	}
	return key, err
}

// previewTenant adds the Tenant, if the key pair that signs it exists.
func (a *authentication) previewTenant(ctx context.Context, p *manifestPage, nonce []byte) error {
	if a.key == nil {
		p.Warn("The Tenant is signed with a key pair that comes with the tenant namespace %s of the local cluster: once that is there, ask again", a.consumer.namespace)
		return nil
	}
	signature, err := pki.Handshake{Provider: a.provider.id, Consumer: a.consumer.id, Nonce: nonce}.Sign(a.key)
	if err != nil {
		return err
	}
	at := client.ObjectKey{Namespace: p.namespace, Name: a.consumer.id}
	if a.have != nil {
		at = client.ObjectKeyFromObject(a.have)
	}
	tenant, err := newTenant(at, a.consumer.id, a.key, signature, a.proxyURL)
	if err != nil {
		return err
	}
	keepRequest(tenant, a.have, a.key.Public())
	if err := p.dryRunCreate(ctx, a.cli, tenant); err != nil {
		return err
	}
	p.addManifest(a.cli, tenant, "")
	return nil
}

// previewIdentity adds the Identity, if the provider issued a certificate already.
func (a *authentication) previewIdentity(ctx context.Context, p *manifestPage) error {
	if a.key == nil || !isAccepted(a.have, a.key.Public()) || checkGranted(a.have) != nil {
		p.Warn("The Identity is made of what the provider answers to the Tenant: once that is applied, ask again, or by: liqoctl generate identity")
		return nil
	}
	identity := newIdentity(client.ObjectKey{Namespace: p.namespace, Name: a.identity}, a.provider.id, a.have)
	if err := checkIdentity(identity, a.key); err != nil {
		return a.provider.wrapWithCluster(err)
	}
	if err := p.dryRunCreate(ctx, a.cli, identity); err != nil {
		return err
	}
	p.addManifest(a.cli, identity, "")
	return nil
}
