// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package certissuer

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/peer"
)

// CertificateCache are the Secrets with issued certificates, as watches of the tenant namespaces show them.
type CertificateCache struct {
	mgr    ctrl.Manager
	watch  *kube.NamespacedWatch
	direct client.Reader
	// ahead are the Secrets that this process wrote, until the watch contains the write.
	ahead kube.Table[client.ObjectKey, bool]
}

// NewKept adds the watches to the manager.
func NewKept(mgr ctrl.Manager) (*CertificateCache, error) {
	direct, err := kube.DirectClient(mgr)
	if err != nil {
		return nil, err
	}
	issued := labels.SelectorFromSet(labels.Set{names.IssuedCertificate: "true"})
	watch := kube.NewNamespacedWatch(mgr.GetConfig(), mgr.GetCache(), &corev1.Secret{}, peer.Namespaces(), issued)
	if err := mgr.Add(watch); err != nil {
		return nil, fmt.Errorf("adding the watch of issued certificates: %w", err)
	}
	return &CertificateCache{mgr: mgr, watch: watch, direct: direct}, nil
}

// Source returns a source that enqueues the owner, of the given kind, of a changed or deleted certificate.
func (i *Issuer) Source(owner client.Object) source.TypedSource[reconcile.Request] {
	return i.kept.watch.Source(handler.EnqueueRequestForOwner(i.kept.mgr.GetScheme(), i.kept.mgr.GetRESTMapper(), owner))
}

func (k *CertificateCache) recordWrite(key client.ObjectKey) { k.ahead.Put(key, true) }

// readSecret reads from the API server only if the watches cannot answer: the Secret was just written, the namespace is still being
// listed, or the Secret is of an earlier version, without the label. Absence from a watch never proves that a Secret does not exist.
func (k *CertificateCache) readSecret(ctx context.Context, key client.ObjectKey, into *corev1.Secret) error {
	shown := k.watch.Get(ctx, key, into)
	_, ahead := k.ahead.Get(key)
	if shown == nil && !ahead {
		return nil
	}
	version := into.ResourceVersion
	*into = corev1.Secret{}
	err := k.direct.Get(ctx, key, into)
	if client.IgnoreNotFound(err) == nil && into.ResourceVersion == version {
		k.ahead.Drop(key)
	}
	return err
}
