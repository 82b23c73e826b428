// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package certissuer

import (
	"context"
	"fmt"
	"strings"

	certv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
)

// orphanRequest deletes requests whose owner was deleted while they were pending. They are cluster-scoped, so the garbage collector does not
// delete them with an owner in a namespace, and Kubernetes keeps them for an hour or a day.
type orphanRequest struct {
	client client.Client
	direct client.Reader
	mark   string
	owner  client.Object
}

// SetupOrphans registers the controller of orphans with this mark; owner is of the kind of the mark.
func SetupOrphans(mgr ctrl.Manager, name, mark string, owner client.Object) error {
	l := &orphanRequest{client: mgr.GetClient(), direct: mgr.GetAPIReader(), mark: mark, owner: owner}
	marked := predicate.NewPredicateFuncs(func(obj client.Object) bool {
		_, _, ok := ownerOf(obj, mark)
		return ok
	})
	err := ctrl.NewControllerManagedBy(mgr).Named(name).
		For(&certv1.CertificateSigningRequest{}, builder.WithPredicates(marked)).
		Watches(owner, handler.EnqueueRequestsFromMapFunc(l.requestsOf), builder.WithPredicates(kube.Deleted)).
		Complete(l)
	if err != nil {
		return fmt.Errorf("registering controller %s: %w", name, err)
	}
	return nil
}

// ownerOf returns the owner of a request.
func ownerOf(request client.Object, mark string) (namespace, name string, ok bool) {
	if request.GetLabels()[names.RemoteTenantCSR] != "true" {
		return "", "", false
	}
	return strings.Cut(request.GetAnnotations()[mark], "/")
}

func (l *orphanRequest) requestsOf(ctx context.Context, owner client.Object) []reconcile.Request {
	return kube.Requests(ctx, l.client, &certv1.CertificateSigningRequestList{}, func(request *certv1.CertificateSigningRequest) bool {
		namespace, name, ok := ownerOf(request, l.mark)
		return ok && client.ObjectKeyFromObject(owner) == client.ObjectKey{Namespace: namespace, Name: name}
	})
}

// Reconcile deletes a request without an owner, read from the API server: a cache may not contain a new owner yet.
func (l *orphanRequest) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	request := &certv1.CertificateSigningRequest{}
	if err := l.client.Get(ctx, req.NamespacedName, request); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	namespace, name, ok := ownerOf(request, l.mark)
	if !ok {
		return reconcile.Result{}, nil
	}
	for _, reader := range []client.Reader{l.client, l.direct} {
		err := reader.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, l.owner.DeepCopyObject().(client.Object))
		if err == nil {
			return reconcile.Result{}, nil // its deletion triggers the next run
		}
		if !apierrors.IsNotFound(err) {
			return reconcile.Result{}, fmt.Errorf("reading whom a certificate is for: %w", err)
		}
	}
	return reconcile.Result{}, kube.DeleteObject(ctx, l.client, request, "deleting an orphaned certificate request")
}
