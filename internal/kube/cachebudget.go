// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// CacheBudget limits the memory of objects cached from another cluster: a remote cluster may have any number of
// objects, and this process serves other peers too. Objects of this cluster extend the budget, because the other cluster has
// copies of them.
type CacheBudget struct {
	// Bytes is the approximate size of all cached objects; Objects is their number.
	Bytes, Objects int64
	// Full is called when an object exceeds the cache budget. May be nil.
	Full func(reason, message string)

	mu     sync.Mutex
	cached cacheUsage
	own    cacheUsage // of this cluster
}

// cacheUsage is the size of objects, and their number.
type cacheUsage struct{ bytes, objects int64 }

// exchangeBytes returns the usage after an object of the size old, 0 for none, was replaced by one of the size now.
func (u cacheUsage) exchangeBytes(old, now int64) cacheUsage {
	u.bytes += now - old
	if old > 0 {
		u.objects--
	}
	if now > 0 {
		u.objects++
	}
	return u
}

// smallObject is the approximate memory overhead of an object beside its encoding.
const smallObject = 256

// exchangeBytes replaces the usage of an object by its new size; 0 means no object. A nil CacheBudget is unlimited.
func (r *CacheBudget) exchangeBytes(old, now int64) error {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	cached := r.cached.exchangeBytes(old, now)
	if now > old && r.isExceeded(cached) {
		err := fmt.Errorf("there are more than %d objects or %d bytes: %w", r.Objects, r.Bytes, ErrTooLarge)
		if r.Full != nil {
			r.Full(ReasonTooManyObjects, err.Error())
		}
		return err
	}
	r.cached = cached
	return nil
}

func (r *CacheBudget) isExceeded(by cacheUsage) bool {
	return by.bytes > r.Bytes+r.own.bytes || by.objects > r.Objects+r.own.objects
}

// extendBytes replaces the size of an object of this cluster. A nil CacheBudget is unlimited.
func (r *CacheBudget) extendBytes(old, now int64) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.own = r.own.exchangeBytes(old, now)
}

// checkList returns an error for a list of that usage.
func (r *CacheBudget) checkList(list cacheUsage) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.isExceeded(list) {
		return nil
	}
	err := fmt.Errorf("a list has more than %d objects or %d bytes: %w", r.Objects, r.Bytes, ErrTooLarge)
	if r.Full != nil {
		r.Full(ReasonListTooLarge, err.Error())
	}
	return err
}

// exchangeBytes replaces the usage of an object of the Informer in the budgets.
func (f *Informer) exchangeBytes(old, now int64) error {
	f.options.Cluster.Extends.extendBytes(old, now)
	return f.options.Cluster.Budget.exchangeBytes(old, now)
}

// releaseBudget returns the usage of the Informer to the cache budget.
func (f *Informer) releaseBudget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for key, k := range f.objects {
		_ = f.exchangeBytes(k.size, 0)
		k.size = 0
		f.objects[key] = k
	}
}

// sizeOf returns the approximate memory usage of an object.
func sizeOf(obj client.Object) int64 {
	switch o := obj.(type) {
	case *unstructured.Unstructured:
		return sizeOfValue(o.Object) + smallObject
	case interface{ Size() int }:
		return int64(o.Size()) + smallObject
	}
	size := int64(smallObject)
	for _, m := range []map[string]string{obj.GetLabels(), obj.GetAnnotations()} {
		for key, value := range m {
			size += int64(len(key) + len(value))
		}
	}
	return 2*size + smallObject
}

func sizeOfValue(v any) int64 {
	const word = 32
	size := int64(word)
	switch v := v.(type) {
	case string:
		size += int64(len(v))
	case map[string]any:
		for key, value := range v {
			size += int64(len(key)) + sizeOfValue(value)
		}
	case []any:
		for _, value := range v {
			size += sizeOfValue(value)
		}
	}
	return size
}

// pageSizes are the page limits of a list, tried in this order: a page that is too large is requested again with a
// smaller limit.
var pageSizes = []int64{100, 10, 1}

// pagedList lists page by page, and fails when the list exceeds the cache budget. A paged list with a resourceVersion
// is a list at exactly that version, however old: pagedList requests the most recent version.
func pagedList(ctx context.Context, list toolscache.ListWithContextFunc, o metav1.ListOptions, budget *CacheBudget) (runtime.Object, error) {
	var first runtime.Object
	var all []runtime.Object
	size, bytes := 0, int64(0)
	o.ResourceVersion, o.ResourceVersionMatch = "", ""
	for {
		o.Limit = pageSizes[size]
		page, err := list(ctx, o)
		if errors.Is(err, ErrTooLarge) && size < len(pageSizes)-1 {
			size++
			continue
		}
		if err != nil {
			return nil, err
		}
		items, err := meta.ExtractList(page)
		if err != nil {
			return nil, fmt.Errorf("reading a list: %w", err)
		}
		for _, item := range items {
			if obj, ok := item.(client.Object); ok {
				bytes += sizeOf(obj)
			}
		}
		if first == nil {
			first = page
		}
		all = append(all, items...)
		if err := budget.checkList(cacheUsage{bytes, int64(len(all))}); err != nil {
			return nil, err
		}
		more, err := meta.ListAccessor(page)
		if err != nil {
			return nil, fmt.Errorf("reading a list: %w", err)
		}
		if more.GetContinue() == "" {
			return assembleList(first, all, more.GetResourceVersion())
		}
		if more.GetContinue() == o.Continue || len(items) == 0 {
			return nil, fmt.Errorf("continuing a list: %w", ErrTooLarge)
		}
		o.Continue = more.GetContinue()
	}
}

// assembleList returns one list with the objects of all pages.
func assembleList(list runtime.Object, all []runtime.Object, version string) (runtime.Object, error) {
	if err := meta.SetList(list, all); err != nil {
		return nil, fmt.Errorf("joining the pages of a list: %w", err)
	}
	accessor, err := meta.ListAccessor(list)
	if err != nil {
		return nil, fmt.Errorf("joining the pages of a list: %w", err)
	}
	accessor.SetContinue("")
	accessor.SetRemainingItemCount(nil)
	accessor.SetResourceVersion(version)
	return list, nil
}
