// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"liqo.io/liqo/internal/virtualkubelet/translate"
)

// resourceKind returns the kind that copies the objects of one requested resource.
func resourceKind(o Options, r ResourceReflection, kind schema.GroupVersionKind) *copyKind[*unstructured.Unstructured, *unstructured.Unstructured] {
	empty := func() *unstructured.Unstructured {
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(kind)
		return u
	}
	return &copyKind[*unstructured.Unstructured, *unstructured.Unstructured]{
		name: r.Resource.GroupResource().String(), component: "liqo-" + r.Resource.Resource + "-reflection", options: o, reflection: r.Reflection,
		empty: empty, emptyCopy: empty,
		copyOf: ignoreItem(translate.Target.Object),
	}
}

// unknownDelay is the interval of lookups of a resource that this cluster does not have.
const unknownDelay = 15 * time.Second

// reflectResource copies one requested resource, from when this cluster has it. It has an engine of its own: a missing or
// forbidden resource delays no other.
func (p *process) reflectResource(ctx context.Context, r ResourceReflection) error {
	for waiting := false; ; waiting = true {
		kind, err := p.mgr.GetRESTMapper().KindFor(r.Resource)
		if err == nil {
			return p.startReflection(ctx, newCopyKind(p, resourceKind(p.options, r, kind)))
		}
		if !waiting {
			p.options.Log.Info("waiting for a resource to reflect", "resource", r.Resource.String(), "reason", err.Error())
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(unknownDelay):
		}
	}
}
