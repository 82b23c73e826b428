// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package replicator

import (
	"slices"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/peer"
)

// resource is a replicated kind. Objects are unstructured to keep fields unknown to this version.
type resource struct {
	gvk    schema.GroupVersionKind
	plural string
	// disposable: its replica is removed if permitted, and otherwise left.
	disposable bool
}

// resources are the replicated kinds, in start order.
var resources = func() (all []resource) {
	for _, kind := range peer.Replicated() {
		all = append(all, resource{kind.GroupVersionKind, kind.Plural, kind.Disposable})
	}
	return all
}()

func resourceNamed(plural string) (resource, bool) {
	i := slices.IndexFunc(resources, func(r resource) bool { return r.plural == plural })
	if i < 0 {
		return resource{}, false
	}
	return resources[i], true
}

func resourceOf(obj client.Object) (resource, bool) {
	kind := obj.GetObjectKind().GroupVersionKind()
	i := slices.IndexFunc(resources, func(r resource) bool { return r.gvk == kind })
	if i < 0 {
		return resource{}, false
	}
	return resources[i], true
}

// isDisposable tells whether nothing hangs on the copy of an object.
func isDisposable(obj client.Object) bool {
	r, ok := resourceOf(obj)
	return ok && r.disposable
}

// pluralNames returns the names of the kinds in the engine.
func pluralNames() []string {
	out := make([]string, 0, len(resources))
	for _, r := range resources {
		out = append(out, r.plural)
	}
	return out
}

func (r resource) groupVersionResource() schema.GroupVersionResource {
	return r.gvk.GroupVersion().WithResource(r.plural)
}

// newMapper returns a static mapper: no discovery at the peer is needed.
func newMapper() apimeta.RESTMapper {
	m := apimeta.NewDefaultRESTMapper(nil)
	for _, r := range resources {
		m.AddSpecific(r.gvk, r.groupVersionResource(), r.groupVersionResource(), apimeta.RESTScopeNamespace)
	}
	return m
}

func (r resource) newObject() *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(r.gvk)
	return u
}

func (r resource) newList() *unstructured.UnstructuredList {
	l := &unstructured.UnstructuredList{}
	l.SetGroupVersionKind(r.gvk.GroupVersion().WithKind(r.gvk.Kind + "List"))
	return l
}
