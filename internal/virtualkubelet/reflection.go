// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/multicluster"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/policy"
	"liqo.io/liqo/internal/virtualkubelet/translate"
)

// copyKind reflects the objects of one kind (ConfigMap, Secret, Ingress, Service): L is the local kind and R the kind of the
// copies, mostly the same. The functions hold the differences between kinds.
type copyKind[L, R client.Object] struct {
	// name of the kind, for logs and metrics; component is the source component of its events.
	name, component string

	options    Options
	reflection Reflection
	patch      func() *offv1beta1.OffloadingPatch
	events     *eventLog
	// begun is when this process began to copy: an earlier process has recorded events of older objects.
	begun time.Time
	// empty returns an object to read into, and emptyCopy a copy.
	empty     func() L
	emptyCopy func() R
	// fields is the field selector of the local objects; empty selects all.
	fields string
	// notCopies is a label that excludes our remote objects that are no copies; empty excludes none.
	notCopies string
	// remoteName returns the name of the copy, nil keeps the name; localName is the reverse.
	remoteName func(t translate.Target, local string) string
	localName  func(t translate.Target, remote string) string
	// allows overrides the policy if decided; nil never does.
	allows func(it *multicluster.Item, obj L) (allowed, decided bool, err error)
	// silent suppresses the event of objects that are not reflected: another component records the event.
	silent bool
	// uses lists the objects of this kind that a pod refers to; nil if pods refer to none.
	uses func(spec *corev1.PodSpec) []string
	// fixed reports whether a copy can be replaced after the provider refused to change it; nil never does.
	fixed func(current, want R, refusal error) bool
	// another reports whether a copy is replaced without trying an update: the provider would silently keep the old value.
	another func(current, want R) bool
	// copyOf returns the wanted copy.
	copyOf func(ctx context.Context, it *multicluster.Item, t translate.Target, obj L) (R, error)
}

// ignoreItem returns a copyOf that needs only the object.
func ignoreItem[L, R client.Object](translated func(t translate.Target, obj L) R) func(context.Context, *multicluster.Item, translate.Target, L) (R, error) {
	return func(_ context.Context, _ *multicluster.Item, t translate.Target, obj L) (R, error) {
		return translated(t, obj), nil
	}
}

// engineKind watches all local objects, but only the copies in the provider: taken names are found before they are used.
func (c *copyKind[L, R]) engineKind() multicluster.Kind {
	t := c.options.targetIn("")
	remoteSource := multicluster.Source{Object: c.emptyCopy(), Labels: ownSelector(c.options)}
	if c.notCopies != "" {
		remoteSource.Labels += ",!" + c.notCopies
	}
	if c.localName != nil {
		remoteSource.Key = func(obj client.Object) string { return c.localName(t, obj.GetName()) }
	}
	k := multicluster.Kind{
		Name: c.name, Workers: c.reflection.Workers, Sync: c.syncItem,
		Local:  []multicluster.Source{{Object: c.empty(), Fields: c.fields}},
		Remote: []multicluster.Source{remoteSource},
	}
	if c.reflection.Type == translate.UsedByPods {
		// The local pods decide about used objects: with the provider's pods, the provider could choose objects to receive.
		k.Local = append(k.Local, multicluster.Source{
			Object: &corev1.Pod{}, Fields: "spec.nodeName!=", Members: true,
			Keys: func(obj client.Object) []string { return c.uses(&obj.(*corev1.Pod).Spec) },
		})
	}
	return k
}

// isUsed reports whether a pod on a virtual node of this provider refers to the local object.
func (c *copyKind[L, R]) isUsed(ctx context.Context, it *multicluster.Item) (bool, error) {
	nodes := map[string]bool{}
	for _, pod := range multicluster.Of[*corev1.Pod](it.Local, it.Name) {
		if !policy.KeptOff(pod) {
			nodes[pod.Spec.NodeName] = true
		}
	}
	if nodes[c.options.Node] || len(nodes) == 0 {
		return nodes[c.options.Node], nil
	}
	// Not from a cache: the cache may lack a virtual node of cached pods, and no later watch event would correct the decision.
	var all offv1beta1.VirtualNodeList
	if err := it.Local.Client().List(ctx, &all, client.InNamespace(c.options.TenantNamespace)); err != nil {
		return false, fmt.Errorf("listing the virtual nodes: %w", err)
	}
	return slices.ContainsFunc(all.Items, func(vn offv1beta1.VirtualNode) bool {
		return nodes[vn.Name] && vn.Spec.ClusterID == c.options.Provider
	}), nil
}

// ownSelector selects the objects that this cluster reflected into the provider.
func ownSelector(o Options) string { return labels.SelectorFromSet(o.targetIn("").Marks()).String() }

func (c *copyKind[L, R]) syncItem(ctx context.Context, it *multicluster.Item) error {
	t := c.options.targetIn(it.Pair.Remote)
	t.Patch = c.patch()
	local, remote := c.empty(), c.emptyCopy()
	exists, err := it.Local.Get(it.Name, local)
	if err != nil {
		return fmt.Errorf("reading the local object: %w", err)
	}
	name := it.Name
	if c.remoteName != nil {
		name = c.remoteName(t, it.Name)
	}
	there, err := it.Remote.Get(name, remote)
	if err != nil {
		return fmt.Errorf("reading the remote object: %w", err)
	}
	switch {
	case !exists && there:
		return c.removeCopy(ctx, it, remote)
	case !exists:
		return nil
	}
	err = c.applyCopy(ctx, it, t, local, remote, there)
	c.events.recordFailure(local, err)
	return err
}

func (c *copyKind[L, R]) applyCopy(ctx context.Context, it *multicluster.Item, t translate.Target, local L, remote R, exists bool) error {
	allowed, err := c.isAllowed(ctx, it, local)
	if err != nil {
		return err
	}
	if !allowed {
		c.recordDisabled(local, exists)
		if exists {
			return c.removeCopy(ctx, it, remote)
		}
		return nil
	}
	want, err := c.copyOf(ctx, it, t, local)
	if err != nil {
		return err
	}
	if !exists {
		if created, err := it.Remote.Make(ctx, want); err != nil {
			return fmt.Errorf("making the remote object: %w", err)
		} else if created {
			c.events.recordNormal(local, reasonReflected, fmt.Sprintf("Successfully reflected object to cluster %q", c.options.Provider))
			return nil
		}
		if owned, err := c.isOwned(ctx, it, t, want); err != nil {
			return err
		} else if !owned {
			return kube.Again(againDelay, nameTaken(it, want.GetName()))
		}
	}
	if exists && c.another != nil && c.another(remote, want) {
		return c.replaceCopy(ctx, it, local, remote)
	}
	_, err = it.Remote.Apply(ctx, want)
	switch {
	case err == nil:
	case exists && apierrors.IsInvalid(err) && c.fixed != nil && c.fixed(remote, want, err):
		return c.replaceCopy(ctx, it, local, remote)
	case exists && apierrors.IsInvalid(err):
		// A new copy would be refused, too: an old one is better than none.
		return kube.Again(againDelay, kube.Invalid(reasonFailed, fmt.Errorf("the copy stays as it was: %w", err)))
	default:
		return fmt.Errorf("applying the remote object: %w", err)
	}
	return nil
}

// replaceCopy deletes a copy whose immutable field changed: the new copy is made, and recorded, when the old one is gone.
func (c *copyKind[L, R]) replaceCopy(ctx context.Context, it *multicluster.Item, local L, remote R) error {
	c.events.forgetFailure(local, reasonReflected)
	return c.removeCopy(ctx, it, remote)
}

func (c *copyKind[L, R]) isAllowed(ctx context.Context, it *multicluster.Item, local L) (bool, error) {
	if c.allows != nil {
		if allowed, decided, err := c.allows(it, local); decided || err != nil {
			return allowed, err
		}
	}
	used := false
	if c.reflection.Type == translate.UsedByPods {
		var err error
		if used, err = c.isUsed(ctx, it); err != nil {
			return false, err
		}
	}
	return c.reflection.Type.Allows(local, used), nil
}

// recordDisabled records that an object is not reflected if the object is new: not for every object at each start, and not if most
// objects are excluded by design.
func (c *copyKind[L, R]) recordDisabled(local L, exists bool) {
	fresh := !local.GetCreationTimestamp().Time.Before(c.begun.Truncate(time.Second))
	if !c.silent && c.reflection.Type != translate.UsedByPods && (exists || fresh) {
		c.events.recordNormal(local, reasonDisabled, "Reflection of this object is disabled by its annotations or by the policy of the virtual node")
	}
}

// isOwned reads the remote object of the same name past the cache and reports whether the object is ours: the cache lacks
// foreign objects, and applying would take over a foreign object.
func (c *copyKind[L, R]) isOwned(ctx context.Context, it *multicluster.Item, t translate.Target, want R) (bool, error) {
	live := c.emptyCopy()
	err := it.Remote.Client().Get(ctx, types.NamespacedName{Namespace: it.Pair.Remote, Name: want.GetName()}, live)
	if apierrors.IsNotFound(err) {
		return false, kube.Wait(unseenDelay, "the remote object went a moment ago")
	}
	if err != nil {
		return false, fmt.Errorf("looking for the remote object: %w", err)
	}
	return t.Owns(live) && (c.notCopies == "" || live.GetLabels()[c.notCopies] == ""), nil
}

// againDelay is the retry interval after the provider refused an object, or if a foreign object has the name: no watch shows
// the end of either.
const againDelay = 30 * time.Second

// removeCopy deletes a copy: an orphan of a deleted local object, a copy not allowed any more, or a copy to replace.
func (c *copyKind[L, R]) removeCopy(ctx context.Context, it *multicluster.Item, remote R) error {
	if !remote.GetDeletionTimestamp().IsZero() {
		return nil
	}
	if err := it.Remote.Delete(ctx, remote); err != nil {
		return fmt.Errorf("deleting the remote object: %w", err)
	}
	return nil
}

func isTrue(b *bool) bool { return b != nil && *b }

func newObject[T any]() *T { return new(T) }

// configMapKindName and secretKindName name the kinds to the engine.
const (
	configMapKindName = "configmaps"
	secretKindName    = "secrets"
)

func configMapKind(o Options) *copyKind[*corev1.ConfigMap, *corev1.ConfigMap] {
	return &copyKind[*corev1.ConfigMap, *corev1.ConfigMap]{
		name: configMapKindName, component: "liqo-configmap-reflection", options: o, reflection: o.ConfigMaps,
		empty: newObject[corev1.ConfigMap], emptyCopy: newObject[corev1.ConfigMap],
		remoteName: translate.Target.ConfigMapName,
		localName:  translate.Target.LocalConfigMapName,
		copyOf:     ignoreItem(translate.Target.ConfigMap),
		fixed: func(current, want *corev1.ConfigMap, _ error) bool {
			return isTrue(current.Immutable) && (!isTrue(want.Immutable) || !equality.Semantic.DeepEqual(current.Data, want.Data) ||
				!equality.Semantic.DeepEqual(current.BinaryData, want.BinaryData))
		},
		allows: func(_ *multicluster.Item, cm *corev1.ConfigMap) (allowed, decided bool, err error) {
			return translate.AllowsRootCA(cm), translate.IsRootCA(cm), nil
		},
		uses: func(spec *corev1.PodSpec) []string {
			used, _ := translate.References(spec)
			return used
		},
	}
}

func secretKind(o Options) *copyKind[*corev1.Secret, *corev1.Secret] {
	return &copyKind[*corev1.Secret, *corev1.Secret]{
		name: secretKindName, component: "liqo-secret-reflection", options: o, reflection: o.Secrets,
		empty: newObject[corev1.Secret], emptyCopy: newObject[corev1.Secret],
		// ServiceAccount tokens never leave this cluster: they are not even cached.
		fields: "type!=" + string(corev1.SecretTypeServiceAccountToken),
		// Tokens of pods are sent separately.
		notCopies: names.ServiceAccountName,
		copyOf:    ignoreItem(translate.Target.Secret),
		fixed: func(current, want *corev1.Secret, _ error) bool {
			return cmp.Or(current.Type, corev1.SecretTypeOpaque) != cmp.Or(want.Type, corev1.SecretTypeOpaque) ||
				isTrue(current.Immutable) && (!isTrue(want.Immutable) || !equality.Semantic.DeepEqual(current.Data, want.Data))
		},
		allows: func(_ *multicluster.Item, s *corev1.Secret) (allowed, decided bool, err error) {
			return false, translate.IsToken(s), nil
		},
		uses: func(spec *corev1.PodSpec) []string {
			_, used := translate.References(spec)
			return used
		},
	}
}

func ingressKind(o Options) *copyKind[*networkingv1.Ingress, *networkingv1.Ingress] {
	return &copyKind[*networkingv1.Ingress, *networkingv1.Ingress]{
		name: "ingresses", component: "liqo-ingress-reflection", options: o, reflection: o.Ingresses,
		empty: newObject[networkingv1.Ingress], emptyCopy: newObject[networkingv1.Ingress],
		copyOf: ignoreItem(func(t translate.Target, local *networkingv1.Ingress) *networkingv1.Ingress {
			return t.Ingress(local, o.IngressClass)
		}),
	}
}
