// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/peer"
	"liqo.io/liqo/internal/pki"
)

// KeysOptions configure the creation of key pairs.
type KeysOptions struct {
	// LiqoNamespace holds the key pairs.
	LiqoNamespace string
	// TLSCompatibility creates RSA keys, for peers without Ed25519.
	TLSCompatibility bool
}

// clusterKeys creates the key pair of this cluster, and a key pair for each peer: credentials signed for one peer are
// useless with another. The key pair of a peer is deleted with the last tenant namespace of the peer.
type clusterKeys struct {
	client  client.Client // reads namespaces from the cache
	direct  client.Client // reads Secrets
	options KeysOptions
}

// SetupKeys registers the controller of key pairs.
func SetupKeys(mgr ctrl.Manager, o KeysOptions) error {
	direct, err := kube.DirectClient(mgr)
	if err != nil {
		return err
	}
	k := &clusterKeys{client: mgr.GetClient(), direct: direct, options: o}
	if err := mgr.Add(manager.RunnableFunc(k.makeOwn)); err != nil {
		return fmt.Errorf("adding the controller of the key pair: %w", err)
	}
	liqoSelector := labels.SelectorFromSet(labels.Set{corev1.LabelMetadataName: o.LiqoNamespace})
	secrets := kube.NewNamespacedWatch(mgr.GetConfig(), mgr.GetCache(), &corev1.Secret{}, liqoSelector, labels.NewSelector().Add(labelPresent(names.RemoteClusterID)))
	if err := mgr.Add(secrets); err != nil {
		return fmt.Errorf("adding the watch of key pairs: %w", err)
	}
	c := kube.NewController[*corev1.Namespace](mgr, kube.Options{Name: "keys"}, k)
	b := c.Builder(predicate.NewPredicateFuncs(isTenantNamespace)).
		WatchesRawSource(secrets.Source(handler.EnqueueRequestForOwner(mgr.GetScheme(), mgr.GetRESTMapper(), &corev1.Namespace{})))
	return c.Complete(b)
}

func isTenantNamespace(obj client.Object) bool {
	ns, ok := obj.(*corev1.Namespace)
	if !ok {
		return false
	}
	_, ok = peer.OfNamespace(ns)
	return ok
}

// retryOwnKeys is the time between attempts: the API server may refuse while an installation is still under way.
const retryOwnKeys = 5 * time.Second

// makeOwn makes the key pair of this cluster, once.
func (k *clusterKeys) makeOwn(ctx context.Context) error {
	for {
		err := k.makeKey(ctx, names.KeysSecret, nil, nil)
		if err == nil {
			return nil
		}
		log.FromContext(ctx).Error(err, "making the key pair of this cluster failed")
		if _, invalid := kube.InvalidReason(err); invalid {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(retryOwnKeys):
		}
	}
}

// Sync makes the key pair for the peer of a tenant namespace.
func (k *clusterKeys) Sync(ctx context.Context, ns *corev1.Namespace) error {
	id, ok := peer.OfNamespace(ns)
	if !ok {
		return nil
	}
	name := names.PeerKeysSecret(string(id))
	return k.makeKey(ctx, name, map[string]string{names.RemoteClusterID: string(id)}, ns)
}

// makeKey creates the key pair unless it exists. owner is nil for a permanent key pair.
func (k *clusterKeys) makeKey(ctx context.Context, name string, labels map[string]string, owner *corev1.Namespace) error {
	current := &corev1.Secret{}
	err := k.direct.Get(ctx, types.NamespacedName{Namespace: k.options.LiqoNamespace, Name: name}, current)
	switch {
	case err == nil:
		if _, err := pki.ParseKey(current.Data[names.PrivateKeyKey]); err != nil {
			return kube.Invalid("WrongKey", fmt.Errorf("no usable key in Secret %s, which is not overwritten: %w", name, err))
		}
		return k.adoptKey(ctx, current, owner)
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("reading the key pair: %w", err)
	}
	secret, err := k.newSecret(name, labels)
	if err != nil {
		return err
	}
	if owner != nil {
		// The first owner is the controller: older versions of liqoctl look for it.
		if err := controllerutil.SetControllerReference(owner, secret, k.client.Scheme()); err != nil {
			return fmt.Errorf("setting the owner of the key pair: %w", err)
		}
	}
	if err := k.direct.Create(ctx, secret); err != nil {
		return fmt.Errorf("storing the key pair: %w", err)
	}
	return nil
}

// adoptKey adds the namespace to the owners of the key pair. Otherwise the key pair would be garbage-collected with an earlier namespace of the
// peer. A peer may have several namespaces: the garbage collector deletes an object once all owners are gone, and prunes deleted owners.
func (k *clusterKeys) adoptKey(ctx context.Context, secret *corev1.Secret, owner *corev1.Namespace) error {
	if owner == nil || kube.Owns(owner, secret) {
		return nil
	}
	if !secret.DeletionTimestamp.IsZero() {
		return kube.BeingDeleted("Secret", secret.Name)
	}
	before := secret.DeepCopy()
	if err := controllerutil.SetOwnerReference(owner, secret, k.client.Scheme()); err != nil {
		return fmt.Errorf("setting the owner of the key pair: %w", err)
	}
	if err := k.direct.Patch(ctx, secret, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("keeping the key pair: %w", err)
	}
	return nil
}

func (k *clusterKeys) newSecret(name string, labels map[string]string) (*corev1.Secret, error) {
	generate := pki.NewKey
	if k.options.TLSCompatibility {
		generate = pki.NewCompatibleKey
	}
	key, err := generate()
	if err != nil {
		return nil, err
	}
	private, err := pki.EncodeKey(key)
	if err != nil {
		return nil, err
	}
	public, err := pki.EncodePublicKey(key.Public())
	if err != nil {
		return nil, err
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: k.options.LiqoNamespace, Name: name, Labels: labels},
		Data:       map[string][]byte{names.PrivateKeyKey: private, names.PublicKeyKey: public},
	}, nil
}

var errNoKey = errors.New("no key pair of this cluster fits the certificate")

// fittingKey returns the key pair of the certificate among those Secrets.
func fittingKey(ctx context.Context, c client.Reader, namespace string, certificate []byte, secrets ...string) (crypto.Signer, error) {
	for _, name := range secrets {
		var secret corev1.Secret
		if err := c.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, &secret); err != nil {
			if apierrors.IsNotFound(err) {
				continue
			}
			return nil, fmt.Errorf("reading key pair %s: %w", name, err)
		}
		key, err := pki.ParseKey(secret.Data[names.PrivateKeyKey])
		if err != nil {
			return nil, fmt.Errorf("reading key pair %s: %w", name, err)
		}
		if pki.CheckCertificate(certificate, key.Public()) == nil {
			return key, nil
		}
	}
	return nil, errNoKey
}
