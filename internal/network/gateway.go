// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package network connects two clusters: the package translates the networks of a peer to free local prefixes, creates the gateways to peers, and
// publishes their endpoints.
//
// A GatewayServer or a GatewayClient names a template. The rendered object, usually a WgGatewayServer or WgGatewayClient, becomes a Deployment, a
// Service, a key pair and permissions; the endpoint is copied back to the gateway's status. Objects may be created in any order; dependents are
// garbage-collected with their owner, without the delay of a finalizer.
package network

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
)

// GatewayOptions restrict templates.
type GatewayOptions struct {
	// LiqoNamespace holds the templates, and the controller-manager; liqo if empty.
	LiqoNamespace string
	// TemplateNamespaces are additional namespaces with permitted templates. Write access to a template there includes the
	// permission to create pods in the namespace of any gateway.
	TemplateNamespaces []string
	// ServerResources and ClientResources are the kinds that templates may render, as group/version/plural; the
	// kinds of Liqo if empty.
	ServerResources, ClientResources []string
}

// SetupGateways registers the controllers of GatewayServers and GatewayClients, and of the kinds that our
// templates render.
func SetupGateways(mgr ctrl.Manager, o GatewayOptions) error {
	o.LiqoNamespace = cmp.Or(o.LiqoNamespace, names.LiqoNamespace)
	templates, err := templateCache(mgr, append([]string{o.LiqoNamespace}, o.TemplateNamespaces...))
	if err != nil {
		return err
	}
	added, err := madeCache(mgr)
	if err != nil {
		return err
	}
	live, err := kube.DirectClient(mgr)
	if err != nil {
		return err
	}
	children, err := client.New(mgr.GetConfig(), client.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), Cache: &client.CacheOptions{Reader: added},
	})
	if err != nil {
		return fmt.Errorf("creating the client for objects of gateways: %w", err)
	}
	children = kube.LimitWrites(children, live)
	shared := rendering{client: mgr.GetClient(), live: live, templates: templates, liqoNamespace: o.LiqoNamespace, allowed: o.TemplateNamespaces}
	keys := &gatewayKeys{live: live, bindings: children, liqoNamespace: o.LiqoNamespace}
	return errors.Join(
		setupGateways[*networkingv1beta1.GatewayServer](mgr, shared, templates, o.ServerResources),
		setupGateways[*networkingv1beta1.GatewayClient](mgr, shared, templates, o.ClientResources),
		setupWireguards(mgr, "wggatewayserver", added, &wireguards[*networkingv1beta1.WgGatewayServer]{client: children, all: mgr.GetClient(), keys: keys}),
		setupWireguards(mgr, "wggatewayclient", added, &wireguards[*networkingv1beta1.WgGatewayClient]{client: children, all: mgr.GetClient(), keys: keys}),
		setupReaders(mgr, added, children),
	)
}

// templateCache returns a cache of the permitted templates.
func templateCache(mgr ctrl.Manager, namespaces []string) (cache.Cache, error) {
	in := map[string]cache.Config{}
	for _, namespace := range namespaces {
		in[namespace] = cache.Config{}
	}
	return kube.AddCache(mgr, map[client.Object]cache.ByObject{
		&networkingv1beta1.WgGatewayServerTemplate{}: {Namespaces: in},
		&networkingv1beta1.WgGatewayClientTemplate{}: {Namespaces: in},
	})
}

// madeCache returns a cache of objects created for gateways.
func madeCache(mgr ctrl.Manager) (cache.Cache, error) {
	narrow := map[client.Object]cache.ByObject{}
	for _, obj := range append(madeKinds(), readersBinding()) {
		of := labels.Set{names.NetworkingComponent: names.ComponentGateway}
		if _, slice := obj.(*discoveryv1.EndpointSlice); slice { // Kubernetes copies the labels of a Service to its own
			of[discoveryv1.LabelManagedBy] = names.GatewayEndpointSliceManager
		}
		narrow[obj] = cache.ByObject{Label: labels.SelectorFromSet(of)}
	}
	return kube.AddCache(mgr, narrow)
}

// kindsOf returns the kinds of resources given as group/version/plural.
func kindsOf(mapper apimeta.RESTMapper, resources []string) ([]schema.GroupVersionKind, error) {
	var out []schema.GroupVersionKind
	for _, text := range resources {
		parts := strings.Split(text, "/")
		if len(parts) != 3 {
			return nil, fmt.Errorf("the resource %q is not group/version/plural, such as %s/%s", text, networkingv1beta1.GroupVersion, networkingv1beta1.WgGatewayServerResource)
		}
		kind, err := mapper.KindFor(schema.GroupVersionResource{Group: parts[0], Version: parts[1], Resource: parts[2]})
		if err != nil {
			return nil, fmt.Errorf("finding the kind of resource %q: %w", text, err)
		}
		out = append(out, kind)
	}
	return out, nil
}

// objectOf returns an empty object of a kind, and emptyList an empty list: of the Go type if the kind has one.
func objectOf(kind schema.GroupVersionKind) client.Object {
	if typed, err := kube.Scheme.New(kind); err == nil {
		if obj, ok := typed.(client.Object); ok {
			return obj
		}
	}
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(kind)
	return obj
}

func emptyList(kind schema.GroupVersionKind) client.ObjectList {
	kind.Kind += "List"
	if typed, err := kube.Scheme.New(kind); err == nil {
		return typed.(client.ObjectList)
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind)
	return list
}

// listOf reads all of a kind.
func listOf(ctx context.Context, c client.Reader, kind schema.GroupVersionKind, opts ...client.ListOption) ([]client.Object, error) {
	list := emptyList(kind)
	if err := c.List(ctx, list, opts...); err != nil {
		return nil, fmt.Errorf("listing %s: %w", kind.Kind, err)
	}
	var out []client.Object
	err := apimeta.EachListItem(list, func(item runtime.Object) error {
		out = append(out, item.(client.Object))
		return nil
	})
	return out, err
}

// requestsOf returns requests for the objects of a type that an event is about.
func requestsOf[T client.Object](ctx context.Context, c client.Reader, about func(client.Object) bool, opts ...client.ListOption) []reconcile.Request {
	return kube.Requests(ctx, c, emptyList(kindOf(newObject[T]())), about, opts...)
}

// checkPeer tells why a label cannot be the ID of a peer.
func checkPeer(id string) error {
	if id == "" {
		return kube.Invalid(reasonInvalidPeer, fmt.Errorf("the label %s is missing: it says which cluster the gateway leads to", names.RemoteClusterID))
	}
	if problems := validation.IsDNS1123Label(id); len(problems) > 0 {
		return kube.Invalid(reasonInvalidPeer, fmt.Errorf("the label %s is %q, which cannot be the ID of a cluster: lower-case letters, digits and dashes can", names.RemoteClusterID, id))
	}
	return nil
}
