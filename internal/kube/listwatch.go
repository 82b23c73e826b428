// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// listWatch returns the ListerWatcher of the objects that the Informer caches.
func (f *Informer) listWatch() (toolscache.ListerWatcher, error) {
	cluster := f.options.Cluster
	mapping, err := cluster.Mapper.RESTMapping(f.gvk.GroupKind(), f.gvk.Version)
	if err != nil {
		return nil, fmt.Errorf("finding the resource of %s: %w", f.gvk, err)
	}
	namespace := f.options.Namespace
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		namespace = ""
	}
	if _, ok := f.options.Object.(runtime.Unstructured); ok {
		resources, err := dynamic.NewForConfigAndClient(cluster.Config, cluster.HTTP)
		if err != nil {
			return nil, fmt.Errorf("making the client of %s: %w", f.gvk, err)
		}
		in := resources.Resource(mapping.Resource).Namespace(namespace)
		return f.newListWatch(
			func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return in.List(ctx, o) },
			in.Watch), nil
	}
	codecs := serializer.NewCodecFactory(cluster.Scheme)
	typed, err := apiutil.RESTClientForGVK(f.gvk, false, false, cluster.Config, codecs, cluster.HTTP)
	if err != nil {
		return nil, fmt.Errorf("making the client of %s: %w", f.gvk, err)
	}
	list, err := cluster.Scheme.New(f.gvk.GroupVersion().WithKind(f.gvk.Kind + "List"))
	if err != nil {
		return nil, fmt.Errorf("finding the list type of %s: %w", f.gvk, err)
	}
	params := runtime.NewParameterCodec(cluster.Scheme)
	request := func(o metav1.ListOptions) *rest.Request {
		return typed.Get().NamespaceIfScoped(namespace, namespace != "").
			Resource(mapping.Resource.Resource).VersionedParams(&o, params)
	}
	return f.newListWatch(
		func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			into := list.DeepCopyObject()
			return into, request(o).Do(ctx).Into(into)
		},
		func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return request(o).Watch(ctx)
		}), nil
}

// newListWatch adds the label and field selectors.
func (f *Informer) newListWatch(list toolscache.ListWithContextFunc, follow toolscache.WatchFuncWithContext) toolscache.ListerWatcher {
	out := &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector, o.FieldSelector = f.options.Labels, f.options.Fields
			if o.ResourceVersion == "0" {
				// Version "0" is answered from the watch cache of the API server, which may be stale: objects missing
				// from such a list would count as deleted.
				o.ResourceVersion = ""
			}
			if f.options.Cluster.Budget != nil {
				return pagedList(ctx, list, o, f.options.Cluster.Budget)
			}
			return list(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector, o.FieldSelector = f.options.Labels, f.options.Fields
			o.Watch = true
			w, err := follow(ctx, o)
			return w, plainError(err)
		},
	}
	if f.options.Cluster.Budget != nil {
		return pagedListWatch{out}
	}
	return out
}

// pagedListWatch disables WatchList, because a list by a watch has no pages and therefore no size limit.
type pagedListWatch struct{ *toolscache.ListWatch }

// IsWatchListSemanticsUnSupported makes the reflector list by pages.
func (pagedListWatch) IsWatchListSemanticsUnSupported() bool { return true }

// plainError hides a refused connection from the reflector, which would back off up to a minute by itself. Run retries
// within seconds.
func plainError(err error) error {
	if err != nil && utilnet.IsConnectionRefused(err) {
		return fmt.Errorf("connecting: %s", err.Error())
	}
	return err
}
