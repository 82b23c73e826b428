// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package resourceslice

import (
	"cmp"
	"context"
	"crypto"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/peer"
	"liqo.io/liqo/internal/pki"
	"liqo.io/liqo/internal/policy"
)

// LocalOptions configure the use of grants of providers.
type LocalOptions struct {
	// ClusterID of this cluster.
	ClusterID liqov1beta1.ClusterID
	// LiqoNamespace holds the key pairs.
	LiqoNamespace string
	// NodeLabels lists the labels of providers that virtual nodes adopt; nil selects the default list. See
	// policy.OfferedNodeLabels.
	NodeLabels []string
	// DisableOffloading makes no VirtualNodes.
	DisableOffloading bool
	// FollowInterval is the minimum time between two adopted offers of credentials; 0 is 30 s.
	FollowInterval time.Duration
}

// followInterval is the minimum lifetime of a certificate: more frequent changes would keep virtual nodes from working.
const followInterval = 30 * time.Second

// localSlices reconciles the ResourceSlices created in this cluster.
type localSlices struct {
	client  client.Client
	direct  client.Client
	notes   *eventRecorder
	options LocalOptions
	// followed is when the credentials of a slice were last replaced.
	followed kube.Table[types.UID, time.Time]
}

// SetupLocal registers the controller of the consumer.
func SetupLocal(mgr ctrl.Manager, o LocalOptions) error {
	direct, err := kube.DirectClient(mgr)
	if err != nil {
		return err
	}
	l := &localSlices{client: mgr.GetClient(), direct: direct, notes: newNotes(), options: o}
	isLocal := predicate.NewPredicateFuncs(func(obj client.Object) bool { return !peer.IsReplica(obj) })
	c := kube.NewController[*authv1beta1.ResourceSlice](mgr, kube.Options{
		Name:           "resourceslice_local",
		Finalizer:      names.ResourceSliceFinalizer,
		NeedsFinalizer: func(obj client.Object) bool { return !o.DisableOffloading && !peer.IsReplica(obj) },
	}, l)
	b := c.Builder(isLocal).
		Owns(&authv1beta1.Identity{}).
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(l.inNamespace), builder.WithPredicates(kube.NamespaceChanged)).
		Watches(&liqov1beta1.ForeignCluster{}, handler.EnqueueRequestsFromMapFunc(l.allRequests), builder.WithPredicates(versionJudged())).
		// The next ResourceSlice of the same name takes over once this one is deleted.
		Watches(&authv1beta1.ResourceSlice{}, handler.EnqueueRequestsFromMapFunc(l.requestsForDuplicates), builder.WithPredicates(isLocal))
	if !o.DisableOffloading {
		b.Owns(&offv1beta1.VirtualNode{})
	}
	return c.Complete(b)
}

// Sync fills in the request of one ResourceSlice and uses the grant.
func (l *localSlices) Sync(ctx context.Context, slice *authv1beta1.ResourceSlice) error {
	if peer.IsReplica(slice) {
		return nil
	}
	provider, err := peerOf(ctx, l.client, slice.Namespace)
	if err != nil {
		return err
	}
	if err := l.checkSlice(ctx, slice, provider); err != nil {
		return err
	}
	key, err := peer.Key(ctx, l.direct, l.options.LiqoNamespace, provider)
	if err != nil {
		return err
	}
	if err := l.fillIn(ctx, slice, provider, key); err != nil {
		return err
	}
	vn, err := l.existingNode(ctx, slice)
	if err != nil {
		return err
	}
	version, err := peer.FindVersionRefused(ctx, l.client, provider)
	if err != nil {
		return err
	}
	if err := l.tellNode(ctx, slice, vn, version); err != nil {
		return err
	}
	identity, err := l.ensureIdentity(ctx, slice, provider, vn)
	if err != nil || identity == nil {
		return err
	}
	if vn == nil && version != nil && policy.AsksForVirtualNode(slice) && !l.options.DisableOffloading {
		return kube.Invalid("VersionRefused", errors.New("no VirtualNode is created for the slice: "+version.Message))
	}
	return l.virtualNode(ctx, slice, provider, identity, vn)
}

// Cleanup deletes the VirtualNode of the ResourceSlice and waits for the drain. Manual VirtualNodes with the same credentials, if
// under deletion, are awaited, too: once the replica of the ResourceSlice is gone, the provider revokes the permissions needed to end
// their pods.
func (l *localSlices) Cleanup(ctx context.Context, slice *authv1beta1.ResourceSlice) error {
	if l.options.DisableOffloading {
		return nil
	}
	// Live: a node made a moment ago counts.
	var all offv1beta1.VirtualNodeList
	identity := &authv1beta1.Identity{}
	var reads errgroup.Group
	reads.Go(func() error {
		if err := l.direct.List(ctx, &all, client.InNamespace(slice.Namespace)); err != nil {
			return fmt.Errorf("looking for VirtualNodes that use the slice: %w", err)
		}
		return nil
	})
	reads.Go(func() error {
		err := l.direct.Get(ctx, types.NamespacedName{Namespace: slice.Namespace, Name: names.SliceIdentity(slice.Name)}, identity)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("reading the Identity of the slice: %w", err)
		}
		return nil
	})
	if err := reads.Wait(); err != nil {
		return err
	}
	for i := range all.Items {
		vn := &all.Items[i]
		if vn.Name != slice.Name || !metav1.IsControlledBy(vn, slice) {
			continue
		}
		if vn.DeletionTimestamp.IsZero() {
			if err := kube.DeleteObject(ctx, l.client, vn, "removing the VirtualNode of the slice"); err != nil {
				return err
			}
		}
		return kube.Wait(0, "the VirtualNode of the slice is being drained")
	}
	return awaitUsers(all.Items, identity)
}

// awaitUsers waits for the VirtualNodes that are drained with the credentials of a ResourceSlice.
func awaitUsers(all []offv1beta1.VirtualNode, identity *authv1beta1.Identity) error {
	secret := identity.Status.KubeconfigSecretRef
	for i := range all {
		uses := all[i].Spec.KubeconfigSecretRef
		if secret != nil && uses != nil && uses.Name == secret.Name && !all[i].DeletionTimestamp.IsZero() {
			return kube.Wait(usersDelay, "the VirtualNode "+all[i].Name+", which uses the credentials of the slice, is being drained")
		}
	}
	return nil
}

// usersDelay is the retry interval for VirtualNodes that use a ResourceSlice: no watch maps them to the ResourceSlice.
const usersDelay = time.Second

// Report emits the results of the ResourceSlice, and the problems for its author to fix.
func (l *localSlices) Report(slice *authv1beta1.ResourceSlice, err error) []kube.Event {
	return l.notes.takeEvents(slice, err)
}

// checkSlice returns why the ResourceSlice is unusable. The name becomes the name of a node, and must be unique in the
// cluster: the oldest takes precedence.
func (l *localSlices) checkSlice(ctx context.Context, slice *authv1beta1.ResourceSlice, provider liqov1beta1.ClusterID) error {
	if id := slice.Spec.ProviderClusterID; id != nil && *id != provider {
		return kube.Invalid("WrongProvider", fmt.Errorf("spec.providerClusterID is %q, but namespace %s is for %q", *id, slice.Namespace, provider))
	}
	if id := slice.Spec.ConsumerClusterID; id != nil && *id != l.options.ClusterID {
		return kube.Invalid("WrongConsumer", fmt.Errorf("spec.consumerClusterID is %q, but this cluster is %q", *id, l.options.ClusterID))
	}
	if problems := validation.IsValidLabelValue(slice.Name); len(problems) > 0 {
		return kube.Invalid("WrongName", fmt.Errorf("%q cannot become the name of a node: %s", slice.Name, strings.Join(problems, ", ")))
	}
	var all authv1beta1.ResourceSliceList
	if err := l.client.List(ctx, &all); err != nil {
		return fmt.Errorf("listing slices: %w", err)
	}
	for i := range all.Items {
		other := &all.Items[i]
		if other.Name == slice.Name && other.UID != slice.UID && !peer.IsReplica(other) && policy.IsOlder(other, slice) {
			return kube.Invalid("NameTaken", fmt.Errorf("the ResourceSlice %s/%s has this name already, and names of slices become names of nodes", other.Namespace, other.Name))
		}
	}
	return nil
}

// fillIn completes the spec. A request for another key, or for another subject, is useless and gets replaced.
func (l *localSlices) fillIn(ctx context.Context, slice *authv1beta1.ResourceSlice, provider liqov1beta1.ClusterID, key crypto.Signer) error {
	before := slice.DeepCopy()
	slice.Spec.ConsumerClusterID = new(l.options.ClusterID)
	slice.Spec.ProviderClusterID = new(provider)
	subject := pki.SliceSubject(slice.Name, string(l.options.ClusterID))
	changed := before.Spec.ConsumerClusterID == nil || before.Spec.ProviderClusterID == nil
	if pki.CheckCSR(slice.Spec.CSR, subject, key.Public()) != nil {
		csr, err := pki.NewCSR(key, subject)
		if err != nil {
			return err
		}
		slice.Spec.CSR, changed = csr, true
	}
	if !changed {
		return nil
	}
	if err := l.client.Patch(ctx, slice, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("completing the slice: %w", err)
	}
	return nil
}

// ensureIdentity maintains the Identity of an accepted ResourceSlice, and deletes the Identity of a denied one. The
// Identity outlives the ResourceSlice until the VirtualNode is gone, because draining the node's pods needs the Identity.
func (l *localSlices) ensureIdentity(ctx context.Context, slice *authv1beta1.ResourceSlice, provider liqov1beta1.ClusterID, vn *offv1beta1.VirtualNode) (*authv1beta1.Identity, error) {
	current := &authv1beta1.Identity{}
	err := l.client.Get(ctx, types.NamespacedName{Namespace: slice.Namespace, Name: names.SliceIdentity(slice.Name)}, current)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading the Identity of the slice: %w", err)
	}
	exists := err == nil
	if exists && !metav1.IsControlledBy(current, slice) {
		if owner := metav1.GetControllerOf(current); owner != nil && owner.Kind == "ResourceSlice" && owner.Name == slice.Name {
			return nil, kube.Wait(2*time.Second, "the Identity of an earlier slice of this name is being removed")
		}
		return nil, kube.Invalid("IdentityTaken", fmt.Errorf("an Identity %q exists that does not belong to the slice", current.Name))
	}
	switch {
	case policy.IsDenied(slice, authv1beta1.ResourceSliceConditionTypeAuthentication):
		if !exists {
			return nil, nil
		}
		if err := kube.DeleteObject(ctx, l.client, current, "removing the Identity of a denied slice"); err != nil {
			return nil, err
		}
		l.notes.recordNormal(slice, "IdentityDeleted", "the provider denied the slice: its Identity was removed")
		return nil, nil
	case !policy.IsAccepted(slice, authv1beta1.ResourceSliceConditionTypeAuthentication) || slice.Status.AuthParams == nil:
		return nil, nil
	}
	identity := policy.NewIdentity(slice, provider)
	if vn != nil {
		identity.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: offv1beta1.GroupVersion.String(), Kind: "VirtualNode", Name: vn.Name, UID: vn.UID,
		}}
	}
	replaces := exists && !equality.Semantic.DeepEqual(current.Spec.AuthParams, identity.Spec.AuthParams)
	if last, ok := l.followed.Get(slice.UID); replaces && ok {
		if remaining := time.Until(last.Add(cmp.Or(l.options.FollowInterval, followInterval))); remaining > 0 {
			return nil, kube.Wait(remaining, "other credentials of the slice were taken over a moment ago")
		}
	}
	changed, err := kube.Ensure(ctx, l.client, identity, kube.AsSeen(), kube.OwnedBy(slice, l.client.Scheme()))
	if err != nil {
		return nil, fmt.Errorf("making the Identity of the slice: %w", err)
	}
	if changed && replaces {
		l.followed.Put(slice.UID, time.Now())
	}
	if changed {
		l.notes.recordNormal(slice, "IdentityEnsured", fmt.Sprintf("Identity %s follows the slice", identity.Name))
	}
	return current, nil
}

// existingNode returns the VirtualNode of the ResourceSlice, or nil.
func (l *localSlices) existingNode(ctx context.Context, slice *authv1beta1.ResourceSlice) (*offv1beta1.VirtualNode, error) {
	if l.options.DisableOffloading {
		return nil, nil
	}
	var vn offv1beta1.VirtualNode
	if err := l.client.Get(ctx, client.ObjectKeyFromObject(slice), &vn); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("reading the VirtualNode of the slice: %w", err)
	}
	if !metav1.IsControlledBy(&vn, slice) {
		return nil, nil
	}
	return &vn, nil
}

// virtualNode maintains the VirtualNode of a granted ResourceSlice. An existing VirtualNode follows the grant, even
// after removal of the requesting annotation.
func (l *localSlices) virtualNode(ctx context.Context, slice *authv1beta1.ResourceSlice, provider liqov1beta1.ClusterID, identity *authv1beta1.Identity, current *offv1beta1.VirtualNode) error {
	switch {
	case l.options.DisableOffloading:
		return nil
	case current == nil && !policy.AsksForVirtualNode(slice):
		return nil
	case !policy.IsAccepted(slice, authv1beta1.ResourceSliceConditionTypeResources):
		return nil
	case identity.Status.KubeconfigSecretRef == nil:
		return kube.Wait(0, "the kubeconfig of the slice does not exist yet")
	}
	if err := l.nodeNameFree(ctx, slice, current); err != nil {
		return err
	}
	labels := policy.OfferedNodeLabels(slice.Status.NodeLabels, l.options.NodeLabels)
	vn := policy.NewVirtualNode(slice, provider, identity.Status.KubeconfigSecretRef.Name, labels)
	if _, err := kube.Ensure(ctx, l.client, vn, kube.AsSeen(), kube.OwnedBy(slice, l.client.Scheme())); err != nil {
		return fmt.Errorf("making the VirtualNode of the slice: %w", err)
	}
	if current == nil {
		l.notes.recordNormal(slice, "VirtualNodeCreated", fmt.Sprintf("VirtualNode %s was created for the slice", vn.Name))
	}
	return nil
}

// tellNode sets the condition of the VirtualNode if the provider denies the ResourceSlice, or if its version is incompatible: running
// pods keep their grant, but no new pod is scheduled.
func (l *localSlices) tellNode(ctx context.Context, slice *authv1beta1.ResourceSlice, vn *offv1beta1.VirtualNode, version *liqov1beta1.Condition) error {
	reason := kube.Note(policy.DenialReason(slice)) // of the provider's making, and shown in a condition of the Node
	if reason == "" && version != nil {
		reason = version.Message
	}
	if vn == nil || vn.Annotations[names.Withdrawn] == reason {
		return nil
	}
	updated := vn.DeepCopy()
	delete(updated.Annotations, names.Withdrawn)
	if reason != "" {
		metav1.SetMetaDataAnnotation(&updated.ObjectMeta, names.Withdrawn, reason)
	}
	if err := l.client.Patch(ctx, updated, client.MergeFrom(vn)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("updating the VirtualNode of the slice: %w", err)
	}
	return nil
}

// nodeNameFree rejects the name of a VirtualNode with another creator.
func (l *localSlices) nodeNameFree(ctx context.Context, slice *authv1beta1.ResourceSlice, current *offv1beta1.VirtualNode) error {
	if current != nil {
		return nil
	}
	var other offv1beta1.VirtualNode
	if err := l.client.Get(ctx, client.ObjectKeyFromObject(slice), &other); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("looking for a VirtualNode of that name: %w", err)
	}
	if !other.DeletionTimestamp.IsZero() {
		return kube.BeingDeleted("VirtualNode", other.Name)
	}
	return kube.Invalid("VirtualNodeTaken", fmt.Errorf("a VirtualNode %q exists that does not belong to the slice", other.Name))
}

func (l *localSlices) inNamespace(ctx context.Context, obj client.Object) []reconcile.Request {
	return requestsFor(ctx, l.client, client.InNamespace(obj.GetName()))
}

// allRequests wakes all slices.
func (l *localSlices) allRequests(ctx context.Context, _ client.Object) []reconcile.Request {
	return requestsFor(ctx, l.client)
}

// requestsForDuplicates returns requests for the other ResourceSlices of the same name.
func (l *localSlices) requestsForDuplicates(ctx context.Context, obj client.Object) []reconcile.Request {
	return kube.Requests(ctx, l.client, &authv1beta1.ResourceSliceList{}, func(other *authv1beta1.ResourceSlice) bool {
		return other.Name == obj.GetName() && other.Namespace != obj.GetNamespace()
	})
}
