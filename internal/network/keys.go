// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/pki"
)

// gatewayKeys provides each gateway with its key Secret. Secrets are read individually and not watched: the permission is granted with the gateway
// and for its namespace alone, and Secrets of keys hardly ever change.
type gatewayKeys struct {
	live client.Client
	// bindings reads and writes RoleBindings of gateways.
	bindings      client.Client
	liqoNamespace string
}

const (
	// keysMissing is the interval for checking a missing or invalid Secret, keysThere for a valid one.
	keysMissing = 5 * time.Second
	keysThere   = time.Minute
	// rightsDelay is the time an API server may need to apply a new binding.
	rightsDelay = time.Second
)

// keysOf returns the Secret with the keys of a gateway, and the public key. The Secret named by the user takes precedence, then the only Secret
// labelled for the peer, then a generated Secret.
func (k *gatewayKeys) keysOf(ctx context.Context, w *wireguard) (secret *corev1.Secret, public [32]byte, err error) {
	if err := k.allowNamespace(ctx, w); err != nil {
		return nil, public, err
	}
	if secret, err = k.findSecret(ctx, w); err != nil {
		return nil, public, delayedError(err)
	}
	if err := leftBehind(secret, w.ownerReference()); err != nil {
		return nil, public, err
	}
	if public, err = k.completeSecret(ctx, w, secret); err != nil {
		return nil, public, delayedError(err)
	}
	return secret, public, nil
}

// delayedError sets the retry delay for errors that only the user can fix, and for permissions not yet
// effective.
func delayedError(err error) error {
	if _, invalid := kube.InvalidReason(err); invalid {
		return kube.Again(keysMissing, err)
	}
	if apierrors.IsForbidden(err) {
		return kube.Wait(rightsDelay, "the permissions in the namespace are being granted")
	}
	return err
}

// allowNamespace grants access to Secrets, Leases and disruption budgets in the namespace, for the lifetime of the gateway.
func (k *gatewayKeys) allowNamespace(ctx context.Context, w *wireguard) error {
	binding := &rbacv1.RoleBinding{
		ObjectMeta: w.objectMeta(names.GatewayKeys(w.gateway)),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: names.RoleTenantSecrets},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: k.liqoNamespace, Name: names.ControllerManager}},
	}
	return ensureObject(ctx, k.bindings, k.live, w.Object, binding)
}

func (k *gatewayKeys) findSecret(ctx context.Context, w *wireguard) (*corev1.Secret, error) {
	if name := w.secretName; name != "" {
		secret, err := k.getSecret(ctx, w, name)
		if err == nil && secret == nil {
			return nil, kube.Wait(keysMissing, fmt.Sprintf("the Secret %s, which spec.secretRef names, does not exist", name))
		}
		return secret, err
	}
	var list corev1.SecretList
	err := k.live.List(ctx, &list, client.InNamespace(w.GetNamespace()), client.MatchingLabels{names.GatewayResource: "true", names.RemoteClusterID: w.peer})
	if err != nil {
		return nil, fmt.Errorf("listing Secrets with keys: %w", err)
	}
	only, err := pki.OnlyTunnelSecret(w.peer, w.keyOwner(), list.Items)
	if err != nil {
		return nil, kube.Invalid(reasonInvalidKeys, err)
	}
	if only == nil {
		return k.createSecret(ctx, w)
	}
	return only, nil
}

// getSecret returns a Secret that is not in deletion, or nil.
func (k *gatewayKeys) getSecret(ctx context.Context, w *wireguard, name string) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	if err := k.live.Get(ctx, client.ObjectKey{Namespace: w.GetNamespace(), Name: name}, secret); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("reading Secret %s: %w", name, err)
	}
	if !secret.DeletionTimestamp.IsZero() {
		return nil, kube.BeingDeleted("Secret", name)
	}
	return secret, nil
}

// keyOwner returns the gateway that keys are generated for.
func (w *wireguard) keyOwner() pki.Gateway {
	owner := w.ownerReference()
	return pki.Gateway{Kind: owner.Kind, Name: owner.Name}
}

// createSecret generates a key pair. An existing Secret of that name without the labels counts as the user's.
func (k *gatewayKeys) createSecret(ctx context.Context, w *wireguard) (*corev1.Secret, error) {
	name := names.Gateway(w.gateway)
	if secret, err := k.getSecret(ctx, w, name); err != nil {
		return nil, err
	} else if secret != nil {
		return secret, k.checkOwner(ctx, w, secret)
	}
	private, public, err := pki.NewTunnelKey()
	if err != nil {
		return nil, err
	}
	secret := &corev1.Secret{ObjectMeta: w.objectMeta(name), Data: map[string][]byte{names.PrivateKeyKey: private[:], names.PublicKeyKey: public[:]}}
	secret.Labels[names.GatewayResource] = "true"
	// The keys outlive the rendered object: a peer knows them.
	secret.OwnerReferences = []metav1.OwnerReference{w.ownerReference()}
	if err := k.live.Create(ctx, secret); err != nil {
		return nil, fmt.Errorf("making Secret %s: %w", name, err)
	}
	return secret, nil
}

// checkOwner returns why the keys of another gateway cannot be used: they are deleted with that gateway, and a peer may
// know them.
func (k *gatewayKeys) checkOwner(ctx context.Context, w *wireguard, secret *corev1.Secret) error {
	if of := pki.MadeFor(secret); of == (pki.Gateway{}) || of == w.keyOwner() {
		return nil
	}
	ref := metav1.GetControllerOf(secret)
	goes, err := isGoing(ctx, k.live, secret.Namespace, *ref)
	if err != nil {
		return err
	}
	if goes {
		return kube.Wait(handover, fmt.Sprintf("the keys of %s %s, which is gone, are being deleted: %s", ref.Kind, ref.Name, secret.Name))
	}
	return kube.Invalid(reasonTaken, fmt.Errorf("the Secret %s belongs to %s %s: use different names", secret.Name, ref.Kind, ref.Name))
}

// completeSecret validates the keys, and adds missing parts of a user's Secret: the labels, and the public
// key.
func (k *gatewayKeys) completeSecret(ctx context.Context, w *wireguard, secret *corev1.Secret) (public [32]byte, err error) {
	public, err = pki.CheckTunnelSecret(w.peer, secret)
	if err != nil {
		return public, kube.Invalid(reasonInvalidKeys, err)
	}
	changed := secret.DeepCopy()
	if changed.Labels == nil {
		changed.Labels = map[string]string{}
	}
	changed.Labels[names.GatewayResource], changed.Labels[names.RemoteClusterID] = "true", w.peer
	if len(secret.Data[names.PublicKeyKey]) == 0 {
		changed.Data[names.PublicKeyKey] = public[:]
	}
	if maps.Equal(changed.Labels, secret.Labels) && len(changed.Data) == len(secret.Data) && len(secret.Data[names.PublicKeyKey]) > 0 {
		return public, nil
	}
	if err := k.live.Patch(ctx, changed, client.MergeFrom(secret)); err != nil {
		if apierrors.IsInvalid(err) { // the text may quote data
			return public, kube.Invalid(reasonInvalidKeys, fmt.Errorf("the Secret %s cannot be completed, is it immutable? It needs the public key in %s and the labels %s=true and %s=%s",
				secret.Name, names.PublicKeyKey, names.GatewayResource, names.RemoteClusterID, w.peer))
		}
		return public, fmt.Errorf("completing Secret %s: %w", secret.Name, err)
	}
	return public, nil
}
