// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/policy"
)

// claimValidator bounds the claims of consumers by their grants: the storage classes and the amounts of all slices of one consumer
// together, because one virtual kubelet makes the claims for all virtual nodes of a provider. The policy liqo-claims has the rules
// that need no other object.
type claimValidator struct {
	cachedReader
	// enforce is false if Quotas are not enforced.
	enforce bool
	usage   *claimUsage
}

func setupClaimValidator(mgr ctrl.Manager, in cachedReader, o Options) (*claimValidator, error) {
	if _, err := mgr.GetCache().GetInformer(context.Background(), &authv1beta1.ResourceSlice{}); err != nil {
		return nil, fmt.Errorf("caching the slices: %w", err)
	}
	informer, err := mgr.GetCache().GetInformer(context.Background(), &corev1.PersistentVolumeClaim{})
	if err != nil {
		return nil, fmt.Errorf("caching the claims: %w", err)
	}
	usage := &claimUsage{now: o.Clock, of: map[client.ObjectKey]*claimSize{}}
	if _, err := informer.AddEventHandler(usage); err != nil {
		return nil, fmt.Errorf("counting the claims: %w", err)
	}
	return &claimValidator{cachedReader: in, enforce: o.EnforceResources, usage: usage}, nil
}

func (v *claimValidator) validateObject(ctx context.Context, req *admission.Request, old, claim *corev1.PersistentVolumeClaim) ([]string, error) {
	grown := old == nil || storageOf(claim).Cmp(*storageOf(old)) > 0
	if !grown {
		return nil, nil
	}
	namespace := &corev1.Namespace{}
	if err := v.getObject(ctx, client.ObjectKey{Name: req.Namespace}, namespace); err != nil {
		return nil, fmt.Errorf("reading the namespace: %w", err)
	}
	granted, err := v.gatherGrant(ctx, namespace.Labels[names.RemoteClusterID])
	if err != nil {
		return nil, err
	}
	class := ""
	if claim.Spec.StorageClassName != nil {
		class = *claim.Spec.StorageClassName
	}
	if old == nil && !slices.Contains(granted.classes, class) {
		return nil, newRefusal(fmt.Errorf("StorageClass %q is not offered to cluster %q: %s", class, granted.consumer, strings.Join(granted.classes, ", ")))
	}
	if old == nil && granted.cordoned {
		return nil, newRefusal(fmt.Errorf("cluster %q is cordoned: its claims stay, and new ones are refused", granted.consumer))
	}
	if !v.enforce {
		return nil, nil
	}
	key := client.ObjectKey{Namespace: req.Namespace, Name: claim.Name}
	return nil, newRefusal(v.usage.reserveStorage(key, *storageOf(claim), granted, req.DryRun != nil && *req.DryRun))
}

func storageOf(claim *corev1.PersistentVolumeClaim) *resource.Quantity {
	return claim.Spec.Resources.Requests.Storage()
}

// grant is what the slices of a consumer were granted together.
type grant struct {
	consumer string
	classes  []string
	amounts  corev1.ResourceList
	// cordoned is set if all slices are.
	cordoned bool
	// namespaces are those of the consumer.
	namespaces map[string]bool
}

func (v *claimValidator) gatherGrant(ctx context.Context, consumer string) (grant, error) {
	out := grant{consumer: consumer, amounts: corev1.ResourceList{}, cordoned: true, namespaces: map[string]bool{}}
	if consumer == "" {
		return out, nil
	}
	var quotas offv1beta1.QuotaList
	if err := v.cached.List(ctx, &quotas, client.MatchingLabels{names.RemoteClusterID: consumer}); err != nil {
		return out, fmt.Errorf("listing the quotas of cluster %s: %w", consumer, err)
	}
	for i := range quotas.Items {
		quota := &quotas.Items[i]
		out.cordoned = out.cordoned && quota.Spec.Cordoned != nil && *quota.Spec.Cordoned
		for _, name := range []corev1.ResourceName{corev1.ResourceRequestsStorage, corev1.ResourcePersistentVolumeClaims} {
			if amount, ok := quota.Spec.Resources[name]; ok {
				sum := out.amounts[name]
				sum.Add(amount)
				out.amounts[name] = sum
			}
		}
		slice := &authv1beta1.ResourceSlice{}
		if err := v.getObject(ctx, client.ObjectKey{Namespace: quota.Namespace, Name: quota.Labels[names.ResourceSliceName]}, slice); client.IgnoreNotFound(err) != nil {
			return out, fmt.Errorf("reading the slice of quota %s: %w", quota.Name, err)
		}
		for _, class := range slice.Status.StorageClasses {
			out.classes = append(out.classes, class.StorageClassName)
		}
	}
	slices.Sort(out.classes)
	out.classes = slices.Compact(out.classes)
	var namespaces corev1.NamespaceList
	if err := v.cached.List(ctx, &namespaces, client.MatchingLabels{names.RemoteClusterID: consumer}); err != nil {
		return out, fmt.Errorf("listing the namespaces of cluster %s: %w", consumer, err)
	}
	for i := range namespaces.Items {
		out.namespaces[namespaces.Items[i].Name] = true
	}
	return out, nil
}

// claimUsage counts the claims of consumers, also admitted claims missing in the cache. Each replica counts its own
// admissions.
type claimUsage struct {
	now func() time.Time

	mu sync.Mutex
	of map[client.ObjectKey]*claimSize
}

// claimSize is the storage that a claim counts with: the larger of both amounts.
type claimSize struct {
	exists bool
	seen   resource.Quantity
	// admitted is the amount of a request whose outcome the cache does not show yet, until it expires.
	admitted resource.Quantity
	expires  time.Time
}

// admissionLimit is the time after which a request that never shows up in the cache is over.
const admissionLimit = time.Minute

// countedAmount returns the storage, and whether the claim counts.
func (c *claimSize) countedAmount(now time.Time) (resource.Quantity, bool) {
	pending := now.Before(c.expires)
	if pending && (!c.exists || c.admitted.Cmp(c.seen) > 0) {
		return c.admitted, true
	}
	return c.seen, c.exists
}

// reserveStorage returns why a claim of this size exceeds the grant, or counts it from now on.
func (u *claimUsage) reserveStorage(key client.ObjectKey, size resource.Quantity, granted grant, dryRun bool) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	now, claims, storage := u.now(), int64(0), resource.Quantity{}
	for other, c := range u.of {
		amount, counts := c.countedAmount(now)
		switch {
		case !counts && !c.exists:
			delete(u.of, other)
		case other != key && granted.namespaces[other.Namespace]:
			claims++
			storage.Add(amount)
		}
	}
	used := corev1.ResourceList{corev1.ResourceRequestsStorage: storage, corev1.ResourcePersistentVolumeClaims: *resource.NewQuantity(claims, resource.DecimalSI)}
	need := corev1.ResourceList{corev1.ResourceRequestsStorage: size}
	if _, limited := granted.amounts[corev1.ResourcePersistentVolumeClaims]; limited {
		need[corev1.ResourcePersistentVolumeClaims] = *resource.NewQuantity(1, resource.DecimalSI)
	}
	if short := policy.FindShortages(need, used, granted.amounts); short != nil {
		return short
	}
	if dryRun {
		return nil
	}
	c := u.of[key]
	if c == nil {
		c = &claimSize{}
		u.of[key] = c
	}
	if !now.Before(c.expires) || size.Cmp(c.admitted) > 0 {
		c.admitted = size
	}
	c.expires = now.Add(admissionLimit)
	return nil
}

// OnAdd counts a claim that the cache shows.
func (u *claimUsage) OnAdd(obj any, _ bool) { u.OnUpdate(nil, obj) }

// OnUpdate counts the present size of a claim.
func (u *claimUsage) OnUpdate(_, obj any) {
	claim, ok := obj.(*corev1.PersistentVolumeClaim)
	if !ok || claim.Labels[names.OffloadingOrigin] == "" {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	key := client.ObjectKeyFromObject(claim)
	c := u.of[key]
	if c == nil {
		c = &claimSize{}
		u.of[key] = c
	}
	if c.exists, c.seen = true, *storageOf(claim); c.seen.Cmp(c.admitted) >= 0 {
		c.expires = time.Time{}
	}
}

// OnDelete forgets a claim, but not the admission of a new claim of the same name.
func (u *claimUsage) OnDelete(obj any) {
	if gone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	claim, ok := obj.(*corev1.PersistentVolumeClaim)
	if !ok {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if c := u.of[client.ObjectKeyFromObject(claim)]; c != nil {
		c.exists, c.seen = false, resource.Quantity{}
	}
}
