// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package vnode

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/mirror"
	"liqo.io/liqo/internal/vnode/translate"
)

// copied is one kind whose objects are copied as they are: T is the kind, decide what is particular to it.
type copied[T client.Object] struct {
	options Options
	patch   func() *offv1beta1.OffloadingPatch
	events  *eventLog
	// empty makes an object to read into.
	empty func() T
	// remoteName is the name of the copy.
	remoteName func(t translate.Target, local string) string
	// forbidden says why an object is not copied; empty if it is.
	forbidden func(obj T) string
	// copyOf is the wanted copy.
	copyOf func(t translate.Target, obj T) T
}

func (c *copied[T]) sync(ctx context.Context, it *mirror.Item) error {
	t := c.options.target(it.Pair.Remote)
	t.Patch = c.patch()
	local, remote := c.empty(), c.empty()
	exists, err := it.Local.Get(it.Name, local)
	if err != nil {
		return fmt.Errorf("reading the local object: %w", err)
	}
	name := c.remoteName(t, it.Name)
	there, err := it.Remote.Get(name, remote)
	if err != nil {
		return fmt.Errorf("reading the remote object: %w", err)
	}
	if !exists {
		if there && t.Owns(remote) {
			return c.remove(ctx, it, remote)
		}
		return nil
	}
	err = c.follow(ctx, it, t, local, remote, there)
	c.events.failure(local, err)
	return err
}

func (c *copied[T]) follow(ctx context.Context, it *mirror.Item, t translate.Target, local, remote T, there bool) error {
	if there && !t.Owns(remote) {
		return taken(it, remote.GetName())
	}
	if why := c.forbidden(local); why != "" {
		c.events.normal(local, reasonDisabled, why)
		if there {
			return c.remove(ctx, it, remote)
		}
		return nil
	}
	want := c.copyOf(t, local)
	if !there {
		if err := c.mayCreate(ctx, it, t, want); err != nil {
			return err
		}
	}
	_, err := it.Remote.Apply(ctx, want)
	switch {
	case err == nil:
	case there && apierrors.IsInvalid(err):
		// What may not be changed was: the object here is another one, and so must be its copy.
		return c.remove(ctx, it, remote)
	default:
		return fmt.Errorf("applying the remote object: %w", err)
	}
	if !there {
		c.events.normal(local, reasonReflected, fmt.Sprintf("Successfully reflected object to cluster %q", c.options.Provider))
	}
	return nil
}

// mayCreate looks once more, past the cache: applying would take over what somebody made a moment ago.
func (c *copied[T]) mayCreate(ctx context.Context, it *mirror.Item, t translate.Target, want T) error {
	live := c.empty()
	err := it.Remote.Client().Get(ctx, types.NamespacedName{Namespace: it.Pair.Remote, Name: want.GetName()}, live)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("looking for the remote object: %w", err)
	case !t.Owns(live):
		return taken(it, want.GetName())
	}
	return nil
}

func taken(it *mirror.Item, name string) error {
	return kube.Invalid("NameTaken", fmt.Errorf("remote object %s/%s already exists", it.Pair.Remote, name))
}

func (c *copied[T]) remove(ctx context.Context, it *mirror.Item, remote T) error {
	if !remote.GetDeletionTimestamp().IsZero() {
		return nil
	}
	if err := it.Remote.Delete(ctx, remote); err != nil {
		return fmt.Errorf("deleting the remote object: %w", err)
	}
	return nil
}

// policyOf says why a policy does not let an object be copied.
func policyOf(kind translate.ReflectionType, obj client.Object) string {
	if kind.Allows(obj) {
		return ""
	}
	return "Reflection of this object is disabled by its annotations or by the policy of the virtual node"
}

func configMaps(o Options, patch func() *offv1beta1.OffloadingPatch, events *eventLog) mirror.Kind {
	t := o.target("")
	c := &copied[*corev1.ConfigMap]{
		options: o, patch: patch, events: events,
		empty:      func() *corev1.ConfigMap { return &corev1.ConfigMap{} },
		remoteName: translate.Target.ConfigMapName,
		copyOf:     translate.Target.ConfigMap,
		forbidden: func(cm *corev1.ConfigMap) string {
			if t.ConfigMapName(cm.Name) != cm.Name && translate.AllowsRootCA(cm) {
				return ""
			}
			return policyOf(o.ConfigMaps.Type, cm)
		},
	}
	return mirror.Kind{
		Name: "configmaps", Workers: o.ConfigMaps.Workers, Sync: c.sync,
		Local: []mirror.Source{{Object: &corev1.ConfigMap{}}},
		Remote: []mirror.Source{{
			Object: &corev1.ConfigMap{},
			Key:    func(obj client.Object) string { return t.LocalConfigMapName(obj.GetName()) },
		}},
	}
}

func secrets(o Options, patch func() *offv1beta1.OffloadingPatch, events *eventLog) mirror.Kind {
	c := &copied[*corev1.Secret]{
		options: o, patch: patch, events: events,
		empty:      func() *corev1.Secret { return &corev1.Secret{} },
		remoteName: func(_ translate.Target, name string) string { return name },
		copyOf:     translate.Target.Secret,
		forbidden: func(s *corev1.Secret) string {
			if translate.IsToken(s) {
				return "Tokens of service accounts never leave this cluster"
			}
			return policyOf(o.Secrets.Type, s)
		},
	}
	return mirror.Kind{
		Name: "secrets", Workers: o.Secrets.Workers, Sync: c.sync,
		Local:  []mirror.Source{{Object: &corev1.Secret{}}},
		Remote: []mirror.Source{{Object: &corev1.Secret{}}},
	}
}
