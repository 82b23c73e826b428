// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package multicluster

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"liqo.io/liqo/internal/kube"
)

// Cluster is one of the two clusters as seen by an item: reads come from the pair's informer caches, writes go to the API server.
type Cluster struct {
	// Namespace of the pair in this cluster.
	Namespace string

	end     *endpoint
	sources []attached
	manager string
	kind    string
}

func (e *Engine) newSide(pk *pairKind, at *endpoint, namespace string, sources []attached) Cluster {
	return Cluster{Namespace: namespace, end: at, sources: sources, manager: e.options.FieldManager, kind: pk.kind.Name}
}

// Client returns an uncached client, for subresources such as tokens and evictions.
func (s Cluster) Client() client.Client { return s.end.client }

// Get reads the object with the name and the kind of into; it returns false if the object does not exist. The kind must be among the sources
// of this cluster.
func (s Cluster) Get(name string, into client.Object) (bool, error) {
	gvk, err := s.gvkOf(into)
	if err != nil {
		return false, err
	}
	watching := false
	for informer := range s.informersOf(gvk) {
		watching = true
		for _, namespace := range []string{s.Namespace, ""} {
			if found, err := informer.Read(namespace, name, into); err != nil {
				return false, fmt.Errorf("reading %s %s: %w", gvk.Kind, name, err)
			} else if found {
				return true, nil
			}
		}
	}
	if !watching {
		return false, s.notWatched(gvk)
	}
	return false, nil
}

// informersOf returns the informers of one kind in this cluster.
func (s Cluster) informersOf(gvk schema.GroupVersionKind) iter.Seq[*kube.Informer] {
	return func(yield func(*kube.Informer) bool) {
		for _, a := range s.sources {
			if a.gvk == gvk && !yield(a.shared.informer) {
				return
			}
		}
	}
}

// List lists the objects of one kind in this cluster's namespace, as far as the sources select them.
func (s Cluster) List(into client.ObjectList) error {
	gvk, err := apiutil.GVKForObject(into, kube.Scheme)
	if err != nil {
		return fmt.Errorf("finding the kind of %T: %w", into, err)
	}
	gvk.Kind = gvk.Kind[:max(len(gvk.Kind)-len("List"), 0)]
	_, loose := into.(runtime.Unstructured)
	var out []runtime.Object
	seen := map[client.ObjectKey]bool{}
	watching := false
	for informer := range s.informersOf(gvk) {
		watching = true
		for _, obj := range informer.List() {
			key := client.ObjectKeyFromObject(obj)
			if seen[key] {
				continue
			}
			seen[key] = true
			entry, err := emptyEntry(gvk, loose)
			if err != nil {
				return err
			}
			if err := kube.CopyObject(obj, entry); err != nil {
				return fmt.Errorf("reading %s %s: %w", gvk.Kind, key, err)
			}
			out = append(out, entry)
		}
	}
	if !watching {
		return s.notWatched(gvk)
	}
	return meta.SetList(into, out)
}

// Of returns the objects of type T that belong to an item by the Keys of their source, sorted by name. The objects are cached and
// must not be changed.
func Of[T client.Object](s Cluster, item string) []T {
	var out []T
	for _, a := range s.sources {
		if _, ok := a.Object.(T); !ok || a.Keys == nil {
			continue
		}
		for _, key := range a.listener.objectsOf(item) {
			if obj, ok := a.shared.informer.Get(key.Namespace, key.Name).(T); ok && slices.Contains(a.Keys(obj), item) {
				out = append(out, obj)
			}
		}
	}
	slices.SortFunc(out, func(a, b T) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return out
}

func emptyEntry(gvk schema.GroupVersionKind, loose bool) (client.Object, error) {
	if loose {
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(gvk)
		return u, nil
	}
	typed, err := kube.Scheme.New(gvk)
	if err != nil {
		return nil, fmt.Errorf("making a %s: %w", gvk.Kind, err)
	}
	return typed.(client.Object), nil
}

// Apply applies want in this cluster's namespace by server-side apply. No request is sent if the cached object has all fields of want and
// they equal the last applied ones. want is not changed. Apply returns the resulting metadata, nil if no request was sent.
func (s Cluster) Apply(ctx context.Context, want client.Object) (*metav1.PartialObjectMetadata, error) {
	application, gvk, want, err := s.newApplication(want)
	if err != nil {
		return nil, err
	}
	current, err := s.readCurrent(ctx, gvk, want)
	if err != nil {
		return nil, err
	}
	return application.Apply(ctx, s.end.client, current)
}

// ApplyOver is Apply for objects cached in part only: current is the complete object, nil if it does not exist.
func (s Cluster) ApplyOver(ctx context.Context, want, current client.Object) (*metav1.PartialObjectMetadata, error) {
	application, _, _, err := s.newApplication(want)
	if err != nil {
		return nil, err
	}
	return application.Apply(ctx, s.end.client, current)
}

// AsMade reports whether an object with a spec possibly missing from the cache is as wanted: Apply wrote the object, and the spec was not
// changed since. If false, only the complete object can show the difference.
func (s Cluster) AsMade(want client.Object, cached metav1.Object) (bool, error) {
	application, _, _, err := s.newApplication(want)
	if err != nil {
		return false, err
	}
	return application.AsMade(cached), nil
}

// Make creates an object by Apply; it returns false and changes nothing if the name exists.
func (s Cluster) Make(ctx context.Context, want client.Object) (created bool, err error) {
	application, _, _, err := s.newApplication(want)
	if err != nil {
		return false, err
	}
	return application.Make(ctx, s.end.client)
}

// newApplication prepares an apply and returns it with the kind and a copy of the object in this cluster's namespace.
func (s Cluster) newApplication(want client.Object) (*kube.Application, schema.GroupVersionKind, client.Object, error) {
	gvk, err := s.gvkOf(want)
	if err != nil {
		return nil, gvk, nil, err
	}
	if want, err = s.inNamespace(want); err != nil {
		return nil, gvk, nil, err
	}
	application, err := kube.NewApplication(want, gvk, s.manager)
	if err != nil {
		return nil, gvk, nil, fmt.Errorf("preparing %s %s: %w", gvk.Kind, want.GetName(), err)
	}
	return application, gvk, want, nil
}

// UpdateStatus updates the status of obj, unless the cached object has the same status.
func (s Cluster) UpdateStatus(ctx context.Context, obj client.Object) error {
	gvk, err := s.gvkOf(obj)
	if err != nil {
		return err
	}
	obj, err = s.inNamespace(obj)
	if err != nil {
		return err
	}
	current, err := s.readCurrent(ctx, gvk, obj)
	if err != nil {
		return err
	}
	if current == nil {
		return kube.Wait(0, fmt.Sprintf("%s %s is gone", gvk.Kind, obj.GetName()))
	}
	same, err := kube.SameStatus(current, obj)
	if err != nil || same {
		return err
	}
	if obj.GetResourceVersion() == "" {
		obj.SetResourceVersion(current.GetResourceVersion())
	}
	if err := s.end.client.Status().Update(ctx, obj); err != nil {
		if apierrors.IsNotFound(err) {
			return kube.Wait(0, fmt.Sprintf("%s %s is gone", gvk.Kind, obj.GetName()))
		}
		return fmt.Errorf("writing the status of %s %s %s: %w", s.end.name, gvk.Kind, obj.GetName(), err)
	}
	return nil
}

// Create creates obj in this cluster's namespace and updates obj from the response.
func (s Cluster) Create(ctx context.Context, obj client.Object) error {
	gvk, err := s.gvkOf(obj)
	if err != nil {
		return err
	}
	if err := s.setNamespace(obj); err != nil {
		return err
	}
	obj.SetUID("")
	obj.SetResourceVersion("")
	if err := s.end.client.Create(ctx, obj); err != nil {
		return fmt.Errorf("making %s %s %s: %w", s.end.name, gvk.Kind, obj.GetName(), err)
	}
	return nil
}

// Delete deletes obj with its UID as a precondition: a new object of the same name survives. A missing object is no error.
func (s Cluster) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	gvk, err := s.gvkOf(obj)
	if err != nil {
		return err
	}
	obj, err = s.inNamespace(obj)
	if err != nil {
		return err
	}
	if uid := obj.GetUID(); uid != "" {
		opts = append([]client.DeleteOption{client.Preconditions{UID: new(types.UID(uid))}}, opts...)
	}
	if err := client.IgnoreNotFound(s.end.client.Delete(ctx, obj, opts...)); err != nil {
		return fmt.Errorf("deleting %s %s %s: %w", s.end.name, gvk.Kind, obj.GetName(), err)
	}
	return nil
}

func (s Cluster) gvkOf(obj client.Object) (schema.GroupVersionKind, error) {
	gvk, err := apiutil.GVKForObject(obj, kube.Scheme)
	if err != nil {
		return gvk, fmt.Errorf("finding the kind of %T: %w", obj, err)
	}
	return gvk, nil
}

// findCached returns the cached object without a copy, nil if it does not exist.
func (s Cluster) findCached(gvk schema.GroupVersionKind, name string) (client.Object, error) {
	watching := false
	for informer := range s.informersOf(gvk) {
		watching = true
		if obj := informer.Get(s.Namespace, name); obj != nil {
			return obj, nil
		}
		if obj := informer.Get("", name); obj != nil {
			return obj, nil
		}
	}
	if !watching {
		return nil, s.notWatched(gvk)
	}
	return nil, nil
}

func (s Cluster) notWatched(gvk schema.GroupVersionKind) error {
	return fmt.Errorf("kind %s does not watch %s %s", s.kind, s.end.name, gvk.Kind)
}

func (s Cluster) isWatched(gvk schema.GroupVersionKind) bool {
	for range s.informersOf(gvk) {
		return true
	}
	return false
}

// readCurrent returns the current object from the cache, or from the API server if its kind is not watched.
func (s Cluster) readCurrent(ctx context.Context, gvk schema.GroupVersionKind, like client.Object) (client.Object, error) {
	if s.isWatched(gvk) {
		return s.findCached(gvk, like.GetName())
	}
	_, loose := like.(runtime.Unstructured)
	now, err := emptyEntry(gvk, loose)
	if err != nil {
		return nil, err
	}
	if err := s.end.client.Get(ctx, client.ObjectKeyFromObject(like), now); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("reading %s %s %s: %w", s.end.name, gvk.Kind, like.GetName(), err)
	}
	return now, nil
}

// inNamespace returns a copy of obj in this cluster's namespace.
func (s Cluster) inNamespace(obj client.Object) (client.Object, error) {
	obj = obj.DeepCopyObject().(client.Object)
	return obj, s.setNamespace(obj)
}

func (s Cluster) setNamespace(obj client.Object) error {
	namespaced, err := s.end.client.IsObjectNamespaced(obj)
	if err != nil {
		return fmt.Errorf("finding the scope of %T: %w", obj, err)
	}
	if namespaced {
		obj.SetNamespace(s.Namespace)
	}
	return nil
}
