// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/peer"
	"liqo.io/liqo/internal/pki"
)

// Reasons of the events of the Secrets of a handshake.
const (
	reasonNonceGenerated       = "NonceGenerated"
	reasonMissingRemoteCluster = "MissingRemoteClusterID"
	reasonInvalidNonce         = "InvalidNonce"
)

// setupNonces registers the provider's generator of nonces for consumers.
func setupNonces(mgr ctrl.Manager) (*kube.NamespacedWatch, error) {
	return setupHandshakeSecrets(mgr, "nonce", names.Nonce, generateNonce)
}

// generateNonce creates a nonce if there is none. An existing nonce is kept: a consumer may be signing it.
func generateNonce(_ context.Context, _ liqov1beta1.ClusterID, secret *corev1.Secret) (kube.Event, error) {
	event := kube.Event{Type: corev1.EventTypeNormal, Reason: reasonNonceGenerated, Message: "the nonce can be given to the consumer"}
	if nonce := secret.Data[names.NonceKey]; len(nonce) > 0 {
		if err := pki.CheckNonce(nonce); err != nil {
			return kube.Event{}, kube.Invalid(reasonInvalidNonce, fmt.Errorf("the nonce of a Secret labelled %s is made here, and no signature of this one is accepted: remove it: %w", names.Nonce, err))
		}
		return event, nil
	}
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	secret.Data[names.NonceKey] = pki.NewNonce()
	return event, nil
}

// handshakeSecrets fills in the Secrets with one label in tenant namespaces.
type handshakeSecrets struct {
	client  client.Client // reads namespaces
	direct  client.Client // writes Secrets
	secrets *kube.NamespacedWatch
	events  *kube.EventRecorder
	// fill completes the data of a peer's Secret in memory, and returns the event for the new state.
	fill func(context.Context, liqov1beta1.ClusterID, *corev1.Secret) (kube.Event, error)
}

// setupHandshakeSecrets registers the controller of the Secrets with one label, and returns the watch that it
// reads them from.
func setupHandshakeSecrets(mgr ctrl.Manager, name, label string,
	fill func(context.Context, liqov1beta1.ClusterID, *corev1.Secret) (kube.Event, error),
) (*kube.NamespacedWatch, error) {
	direct, err := kube.DirectClient(mgr)
	if err != nil {
		return nil, err
	}
	secrets := kube.NewNamespacedWatch(mgr.GetConfig(), mgr.GetCache(), &corev1.Secret{}, peer.Namespaces(), labels.NewSelector().Add(labelPresent(label)))
	if err := mgr.Add(secrets); err != nil {
		return nil, fmt.Errorf("adding the watch of Secrets labelled %s: %w", label, err)
	}
	h := &handshakeSecrets{
		client: mgr.GetClient(), direct: direct, secrets: secrets, events: kube.NewEventRecorder(kube.EmitBy(mgr.GetEventRecorder("liqo-"+name), "Sync")), fill: fill,
	}
	err = ctrl.NewControllerManagedBy(mgr).
		Named(name).
		WatchesRawSource(secrets.Source(&handler.EnqueueRequestForObject{})).
		WithOptions(controller.Options{RateLimiter: kube.RateLimiter()}).
		Complete(h)
	if err != nil {
		return nil, fmt.Errorf("registering controller %s: %w", name, err)
	}
	return secrets, nil
}

// Reconcile fills in one Secret, and emits an event if it cannot.
func (h *handshakeSecrets) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	secret := &corev1.Secret{}
	if err := h.secrets.Get(ctx, req.NamespacedName, secret); err != nil {
		return kube.Result(client.IgnoreNotFound(err))
	}
	if !secret.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, nil
	}
	event, err := h.syncSecret(ctx, secret)
	now := kube.Complaints(err)
	if err == nil {
		now = []kube.Event{event}
	}
	h.events.Record(secret, now...)
	return kube.Result(err)
}

func (h *handshakeSecrets) syncSecret(ctx context.Context, secret *corev1.Secret) (kube.Event, error) {
	id, err := h.peerOf(ctx, secret)
	if err != nil {
		return kube.Event{}, err
	}
	before := secret.DeepCopy()
	event, err := h.fill(ctx, id, secret)
	if err != nil {
		return kube.Event{}, err
	}
	if maps.EqualFunc(before.Data, secret.Data, func(a, b []byte) bool { return string(a) == string(b) }) {
		return event, nil
	}
	// On a conflict another writer has filled it in. A different nonce is answered at once, even shortly
	// after the previous one.
	request, err := json.Marshal(before.Data)
	if err != nil {
		return kube.Event{}, fmt.Errorf("encoding the request: %w", err)
	}
	ctx = kube.WithOrigin(ctx, types.UID(fmt.Sprintf("%s-%x", secret.UID, sha256.Sum256(request))))
	if err := h.direct.Patch(ctx, secret, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); client.IgnoreNotFound(err) != nil {
		return kube.Event{}, fmt.Errorf("writing the Secret: %w", err)
	}
	return event, nil
}

// peerOf returns the peer of the Secret: the namespace decides, and the label must not contradict it.
func (h *handshakeSecrets) peerOf(ctx context.Context, secret *corev1.Secret) (liqov1beta1.ClusterID, error) {
	var ns corev1.Namespace
	if err := h.client.Get(ctx, types.NamespacedName{Name: secret.Namespace}, &ns); err != nil {
		return "", fmt.Errorf("reading the namespace: %w", err)
	}
	id, ok := peer.OfNamespace(&ns)
	label := secret.Labels[names.RemoteClusterID]
	switch {
	case !ok:
		return "", kube.Invalid(reasonWrongNamespace, fmt.Errorf("namespace %s is no tenant namespace", ns.Name))
	case label == "":
		return "", kube.Invalid(reasonMissingRemoteCluster, errors.New("the label "+names.RemoteClusterID+" is missing"))
	case label != string(id):
		return "", kube.Invalid(reasonWrongNamespace, fmt.Errorf("the label %s is %q, but the namespace is for %q", names.RemoteClusterID, label, id))
	}
	return id, nil
}
