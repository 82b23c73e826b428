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

// copyKind is one kind whose objects are copied: L is the kind here and R that of the copies, mostly the same one. The
// functions are what is particular to it.
type copyKind[L, R client.Object] struct {
	// name of the kind, for logs and metrics; component is who tells of it in events.
	name, component string

	options    Options
	reflection Reflection
	patch      func() *offv1beta1.OffloadingPatch
	events     *eventLog
	// begun is when this process began to copy: what is older was told of by an earlier one.
	begun time.Time
	// empty makes an object to read into, and emptyCopy a copy.
	empty     func() L
	emptyCopy func() R
	// fields select the local objects; empty for all.
	fields string
	// notCopies selects out what of ours in the provider is no copy; empty for nothing.
	notCopies string
	// remoteName is the name of the copy, nil for the same one; localName is the reverse.
	remoteName func(t translate.Target, local string) string
	localName  func(t translate.Target, remote string) string
	// allows decides instead of the policy, if it answers; nil never does.
	allows func(it *multicluster.Item, obj L) (allowed, decided bool, err error)
	// silent: what stays at home is told of elsewhere.
	silent bool
	// uses lists the objects of this kind that a pod refers to; nil where pods refer to none.
	uses func(spec *corev1.PodSpec) []string
	// fixed tells whether a copy that the provider refuses to change can be made anew; nil never does.
	fixed func(have, want R, refusal error) bool
	// another tells whether a copy is made anew without asking: the provider would keep it as it is, and not say so.
	another func(have, want R) bool
	// copyOf is the wanted copy.
	copyOf func(ctx context.Context, it *multicluster.Item, t translate.Target, obj L) (R, error)
}

// ignoreItem makes a copyOf that needs nothing but the object.
func ignoreItem[L, R client.Object](translated func(t translate.Target, obj L) R) func(context.Context, *multicluster.Item, translate.Target, L) (R, error) {
	return func(_ context.Context, _ *multicluster.Item, t translate.Target, obj L) (R, error) {
		return translated(t, obj), nil
	}
}

// engineKind watches all objects here, but there only the copies: names that are taken are found before they are used.
func (c *copyKind[L, R]) engineKind() multicluster.Kind {
	t := c.options.targetIn("")
	there := multicluster.Source{Object: c.emptyCopy(), Labels: ownSelector(c.options)}
	if c.notCopies != "" {
		there.Labels += ",!" + c.notCopies
	}
	if c.localName != nil {
		there.Key = func(obj client.Object) string { return c.localName(t, obj.GetName()) }
	}
	k := multicluster.Kind{
		Name: c.name, Workers: c.reflection.Workers, Sync: c.syncItem,
		Local:  []multicluster.Source{{Object: c.empty(), Fields: c.fields}},
		Remote: []multicluster.Source{there},
	}
	if c.reflection.Type == translate.UsedByPods {
		// The pods of this cluster say what is used: what the provider says of them would let it choose what it gets.
		k.Local = append(k.Local, multicluster.Source{
			Object: &corev1.Pod{}, Fields: "spec.nodeName!=", Members: true,
			Keys: func(obj client.Object) []string { return c.uses(&obj.(*corev1.Pod).Spec) },
		})
	}
	return k
}

// isUsed tells whether a pod refers to the local object that runs on a virtual node of this provider.
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
	// Not from a cache, which may not know a virtual node whose pods are known already: no watch tells of it later.
	var all offv1beta1.VirtualNodeList
	if err := it.Local.Client().List(ctx, &all, client.InNamespace(c.options.TenantNamespace)); err != nil {
		return false, fmt.Errorf("listing the virtual nodes: %w", err)
	}
	return slices.ContainsFunc(all.Items, func(vn offv1beta1.VirtualNode) bool {
		return nodes[vn.Name] && vn.Spec.ClusterID == c.options.Provider
	}), nil
}

// ownSelector selects what this cluster reflected into the provider.
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

func (c *copyKind[L, R]) applyCopy(ctx context.Context, it *multicluster.Item, t translate.Target, local L, remote R, there bool) error {
	allowed, err := c.isAllowed(ctx, it, local)
	if err != nil {
		return err
	}
	if !allowed {
		c.recordDisabled(local, there)
		if there {
			return c.removeCopy(ctx, it, remote)
		}
		return nil
	}
	want, err := c.copyOf(ctx, it, t, local)
	if err != nil {
		return err
	}
	if !there {
		if made, err := it.Remote.Make(ctx, want); err != nil {
			return fmt.Errorf("making the remote object: %w", err)
		} else if made {
			c.events.recordNormal(local, reasonReflected, fmt.Sprintf("Successfully reflected object to cluster %q", c.options.Provider))
			return nil
		}
		if ours, err := c.isOwned(ctx, it, t, want); err != nil {
			return err
		} else if !ours {
			return kube.Again(againDelay, nameTaken(it, want.GetName()))
		}
	}
	if there && c.another != nil && c.another(remote, want) {
		return c.replaceCopy(ctx, it, local, remote)
	}
	_, err = it.Remote.Apply(ctx, want)
	switch {
	case err == nil:
	case there && apierrors.IsInvalid(err) && c.fixed != nil && c.fixed(remote, want, err):
		return c.replaceCopy(ctx, it, local, remote)
	case there && apierrors.IsInvalid(err):
		// A new copy would be refused, too: an old one is better than none.
		return kube.Again(againDelay, kube.Invalid(reasonFailed, fmt.Errorf("the copy stays as it was: %w", err)))
	default:
		return fmt.Errorf("applying the remote object: %w", err)
	}
	return nil
}

// replaceCopy removes a copy of which something was changed that never changes: another one is made, and told of, when it is gone.
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

// recordDisabled tells that an object stays at home, when that is news: not of everything at each start, and not where most
// objects are not meant to be copied.
func (c *copyKind[L, R]) recordDisabled(local L, there bool) {
	fresh := !local.GetCreationTimestamp().Time.Before(c.begun.Truncate(time.Second))
	if !c.silent && c.reflection.Type != translate.UsedByPods && (there || fresh) {
		c.events.recordNormal(local, reasonDisabled, "Reflection of this object is disabled by its annotations or by the policy of the virtual node")
	}
}

// isOwned looks past the cache, which holds no objects of others, whose the object of that name is: applying would take it
// over.
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

// againDelay is how often to try again what the provider does not accept, or where somebody else has the name: no watch
// tells when that ends.
const againDelay = 30 * time.Second

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

// configMapsKind and secretsKind name the kinds to the engine.
const (
	configMapsKind = "configmaps"
	secretsKind    = "secrets"
)

func configMaps(o Options) *copyKind[*corev1.ConfigMap, *corev1.ConfigMap] {
	return &copyKind[*corev1.ConfigMap, *corev1.ConfigMap]{
		name: configMapsKind, component: "liqo-configmap-reflection", options: o, reflection: o.ConfigMaps,
		empty: newObject[corev1.ConfigMap], emptyCopy: newObject[corev1.ConfigMap],
		remoteName: translate.Target.ConfigMapName,
		localName:  translate.Target.LocalConfigMapName,
		copyOf:     ignoreItem(translate.Target.ConfigMap),
		fixed: func(have, want *corev1.ConfigMap, _ error) bool {
			return isTrue(have.Immutable) && (!isTrue(want.Immutable) || !equality.Semantic.DeepEqual(have.Data, want.Data) ||
				!equality.Semantic.DeepEqual(have.BinaryData, want.BinaryData))
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
		name: secretsKind, component: "liqo-secret-reflection", options: o, reflection: o.Secrets,
		empty: newObject[corev1.Secret], emptyCopy: newObject[corev1.Secret],
		// Tokens of service accounts never leave this cluster: they do not even get here.
		fields: "type!=" + string(corev1.SecretTypeServiceAccountToken),
		// Those of pods go there by themselves.
		notCopies: names.ServiceAccountName,
		copyOf:    ignoreItem(translate.Target.Secret),
		fixed: func(have, want *corev1.Secret, _ error) bool {
			return cmp.Or(have.Type, corev1.SecretTypeOpaque) != cmp.Or(want.Type, corev1.SecretTypeOpaque) ||
				isTrue(have.Immutable) && (!isTrue(want.Immutable) || !equality.Semantic.DeepEqual(have.Data, want.Data))
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
