// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/multicluster"
	"liqo.io/liqo/internal/virtualkubelet/translate"
)

func serviceKind(o Options, remote func(namespace string) (string, bool)) *copyKind[*corev1.Service, *corev1.Service] {
	return &copyKind[*corev1.Service, *corev1.Service]{
		name: "services", component: "liqo-service-reflection", options: o, reflection: o.Services,
		empty: newObject[corev1.Service], emptyCopy: newObject[corev1.Service],
		copyOf: ignoreItem(func(t translate.Target, local *corev1.Service) *corev1.Service {
			out := t.Service(local, o.LoadBalancerClass)
			out.Spec.ExternalName = translate.ExternalName(out.Spec.ExternalName, remote)
			return out
		}),
		another: func(current, want *corev1.Service) bool {
			return current.Spec.Type != corev1.ServiceTypeExternalName && want.Spec.Type != corev1.ServiceTypeExternalName &&
				translate.IsHeadless(current) != translate.IsHeadless(want)
		},
		// A class that the provider itself chose is no reason: then no local class is requested.
		fixed: func(_, _ *corev1.Service, refusal error) bool { return isFixed(refusal, "spec.loadBalancerClass") },
		allows: func(_ *multicluster.Item, s *corev1.Service) (allowed, decided bool, err error) {
			return false, translate.IsAPIServer(s.Namespace, s.Name), nil
		},
	}
}

// neverChanges are the suffixes of an API server's refusals to change a value that is set already.
var neverChanges = []string{": may not change once set", ": field is immutable"}

// isFixed reports whether a change is refused only because one field is immutable. If the new value is also invalid, a new copy could
// not be created either.
func isFixed(refusal error, field string) bool {
	status, ok := errors.AsType[*apierrors.StatusError](refusal)
	if !ok || status.Status().Details == nil {
		return false
	}
	causes := status.Status().Details.Causes
	return len(causes) > 0 && !slices.ContainsFunc(causes, func(c metav1.StatusCause) bool {
		return c.Field != field || !slices.ContainsFunc(neverChanges, func(text string) bool { return strings.HasSuffix(c.Message, text) })
	})
}

// slicesKind names the kind to the engine, and allSlices the item that stands for all of a namespace.
const (
	slicesKind = "endpointslices"
	allSlices  = "/"
)

// The kinds of involved objects of events.
const (
	sliceKindName   = "EndpointSlice"
	shadowSliceKind = "ShadowEndpointSlice"
)

// sliceKind requests from the provider the endpoints of Services outside the provider.
type sliceKind struct {
	*copyKind[*discoveryv1.EndpointSlice, *offv1beta1.ShadowEndpointSlice]
	// addresses returns the translation of local addresses for the provider, in slices of a namespace. Direct is whether the provider
	// can translate addresses of other peers.
	addresses func(ctx context.Context, namespace string) (translate.Addresses, error)
	// enqueue requests the reflection of one slice.
	enqueue func(pair multicluster.Pair, name string)
}

func endpointSlices(o Options, addresses func(ctx context.Context, namespace string) (translate.Addresses, error)) *sliceKind {
	k := &sliceKind{addresses: addresses}
	k.copyKind = &copyKind[*discoveryv1.EndpointSlice, *offv1beta1.ShadowEndpointSlice]{
		name: slicesKind, component: "liqo-endpointslice-reflection", options: o, reflection: o.EndpointSlices,
		empty: newObject[discoveryv1.EndpointSlice], emptyCopy: newObject[offv1beta1.ShadowEndpointSlice],
		allows: k.isAllowed, silent: true, copyOf: k.copyOf,
	}
	return k
}

// withWatches adds to the kind the other inputs of slices.
func (k *sliceKind) withWatches(kind multicluster.Kind) multicluster.Kind {
	all := func(client.Object) []string { return []string{allSlices} }
	kind.Local = append(kind.Local,
		multicluster.Source{Object: &corev1.Service{}, Keys: all},
	)
	one := kind.Sync
	kind.Sync = func(ctx context.Context, it *multicluster.Item) error {
		if it.Name == allSlices {
			return k.lookAtAll(it)
		}
		return one(ctx, it)
	}
	return kind
}

func (k *sliceKind) lookAtAll(it *multicluster.Item) error {
	var list discoveryv1.EndpointSliceList
	if err := it.Local.List(&list); err != nil {
		return fmt.Errorf("listing the slices: %w", err)
	}
	for i := range list.Items {
		k.enqueue(it.Pair, list.Items[i].Name)
	}
	return nil
}

func (k *sliceKind) isAllowed(it *multicluster.Item, slice *discoveryv1.EndpointSlice) (allowed, decided bool, err error) {
	name := slice.Labels[discoveryv1.LabelServiceName]
	if k.options.DisableIPReflection || translate.IsAPIServer(slice.Namespace, name) {
		return false, true, nil
	}
	service := &corev1.Service{}
	found, err := it.Local.Get(name, service)
	if err != nil {
		return false, true, fmt.Errorf("reading the service: %w", err)
	}
	if !found {
		return k.options.Services.Type.AllowsSlice(slice, nil), true, nil
	}
	return k.options.Services.Type.AllowsSlice(slice, service), true, nil
}

func (k *sliceKind) copyOf(ctx context.Context, it *multicluster.Item, t translate.Target, local *discoveryv1.EndpointSlice) (*offv1beta1.ShadowEndpointSlice, error) {
	addresses, err := k.addresses(ctx, it.Pair.Local)
	if err != nil {
		return nil, err
	}
	service := &corev1.Service{}
	if _, err := it.Local.Get(local.Labels[discoveryv1.LabelServiceName], service); err != nil {
		return nil, fmt.Errorf("reading the service: %w", err)
	}
	addresses.Direct = addresses.Direct && translate.UsesDirectConnections(service)
	want, unknown := t.ShadowEndpointSlice(local, addresses)
	if len(unknown) == 0 {
		k.events.forgetFailure(local, reasonNotExposed)
		return want, nil
	}
	k.events.record(local, corev1.EventTypeWarning, reasonNotExposed, fmt.Sprintf(
		"Cluster %q cannot reach %d endpoints, which are neither pods of this cluster nor addresses of an IP in this namespace: %s",
		t.Destination, len(unknown), kube.Some(unknown)))
	return want, nil
}
