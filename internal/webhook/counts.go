// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"fmt"
	"sync"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/peer"
)

// MaxObjects limits the number of objects of a consumer in this cluster, over all its namespaces; 0 is unlimited. Each
// object takes space in etcd and in the caches of the controllers, even if its requests exceed the Quota.
type MaxObjects struct{ ShadowPods, ShadowEndpointSlices, NamespaceMaps int }

// limits denies a new object of a consumer that has reached the limit. Objects are counted from caches: concurrent
// requests may exceed a limit by their number.
type limits struct {
	cachedReader
	kinds map[string]*counter // by resource
}

// setupLimits starts the counting of consumers' objects on every replica.
func setupLimits(mgr ctrl.Manager, in cachedReader, most MaxObjects) (*limits, error) {
	out := &limits{cachedReader: in, kinds: map[string]*counter{}}
	for resource, kind := range map[string]struct {
		object client.Object
		most   int
	}{
		"shadowpods":           {&offv1beta1.ShadowPod{}, most.ShadowPods},
		"shadowendpointslices": {&offv1beta1.ShadowEndpointSlice{}, most.ShadowEndpointSlices},
		"namespacemaps":        {&offv1beta1.NamespaceMap{}, most.NamespaceMaps},
	} {
		if kind.most <= 0 {
			continue
		}
		informer, err := mgr.GetCache().GetInformer(context.Background(), kind.object)
		if err != nil {
			return nil, fmt.Errorf("caching %T: %w", kind.object, err)
		}
		c := &counter{most: kind.most, perNamespace: map[string]int{}}
		if _, err := informer.AddEventHandler(c); err != nil {
			return nil, fmt.Errorf("counting %T: %w", kind.object, err)
		}
		out.kinds[resource] = c
	}
	return out, nil
}

// Handle denies a new object of a consumer that has reached the limit.
func (l *limits) Handle(ctx context.Context, req admission.Request) admission.Response {
	if err := l.check(ctx, &req); err != nil {
		return denyResponse(err)
	}
	return admission.Allowed("")
}

func (l *limits) check(ctx context.Context, req *admission.Request) error {
	if l == nil {
		return nil
	}
	c := l.kinds[req.Resource.Resource]
	if c == nil || req.Operation != admissionv1.Create || !c.mayExceed() {
		return nil
	}
	namespace := &corev1.Namespace{}
	if err := l.getObject(ctx, client.ObjectKey{Name: req.Namespace}, namespace); err != nil {
		return fmt.Errorf("reading the namespace: %w", err)
	}
	consumer := namespace.Labels[names.RemoteClusterID]
	if consumer == "" {
		return nil
	}
	all := &corev1.NamespaceList{}
	if err := l.cached.List(ctx, all, client.MatchingLabels{names.RemoteClusterID: consumer}); err != nil {
		return fmt.Errorf("listing the namespaces of consumer %s: %w", consumer, err)
	}
	if c.exceeds(all.Items) {
		return newRefusal(fmt.Errorf("cluster %q has as many %s as this provider takes from one consumer: %d", consumer, req.Resource.Resource, c.most))
	}
	return nil
}

// counter counts the objects of one kind created by peers, by namespace.
type counter struct {
	most int

	mu           sync.Mutex // guards the fields below
	perNamespace map[string]int
	all          int
}

// OnAdd counts an added object.
func (c *counter) OnAdd(obj any, _ bool) { c.add(obj, 1) }

// OnUpdate does nothing: the owner of an object never changes.
func (c *counter) OnUpdate(_, _ any) {}

// OnDelete subtracts a deleted object.
func (c *counter) OnDelete(obj any) {
	if gone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	c.add(obj, -1)
}

func (c *counter) add(obj any, n int) {
	o, ok := obj.(client.Object)
	if _, isMap := obj.(*offv1beta1.NamespaceMap); !ok || isMap && !peer.IsReplica(o) { // a local NamespaceMap is for the peer as a provider
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all += n
	if c.perNamespace[o.GetNamespace()] += n; c.perNamespace[o.GetNamespace()] <= 0 {
		delete(c.perNamespace, o.GetNamespace())
	}
}

// mayExceed reports whether any consumer may have reached the limit. mayExceed is cheap, and nearly always false.
func (c *counter) mayExceed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.all >= c.most
}

// exceeds reports whether these namespaces together have reached the limit.
func (c *counter) exceeds(namespaces []corev1.Namespace) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	sum := 0
	for i := range namespaces {
		sum += c.perNamespace[namespaces[i].Name]
	}
	return sum >= c.most
}
