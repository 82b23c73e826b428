// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/multicluster"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/policy"
	"liqo.io/liqo/internal/virtualkubelet/translate"
)

// podKind runs the pods of this node in the provider.
type podKind struct {
	options Options
	// patch returns the present offloading patch.
	patch func() *offv1beta1.OffloadingPatch
	// tooOld returns why the provider's version of Kubernetes does not suffice for a pod, or "".
	tooOld func(*corev1.Pod) string
	// generation returns the generation of the VirtualNode that the patch is from.
	generation func() int64
	// user returns the label value of this process's user in the provider; empty is unknown.
	user func() string
	// ips returns the local addresses of the provider's addresses.
	ips func(context.Context) (translate.PodIPs, error)
	// route returns how pods reach the API server of this cluster, nil for not at all, and whether the path works at the moment.
	route  func(context.Context) (route *translate.APIServerRoute, works bool, err error)
	events *eventLog
	// available tracks whether the provider can be reached.
	available *availability
	states    *podStates
	roots     rootCAs
	audiences apiAudiences
	// references tracks the referenced objects of pods in the provider; prioritize has a referenced object copied before others.
	references referenceWaits
	prioritize func(kind string, pair multicluster.Pair, name string)
}

// nameTaken returns the error of a pod whose name a foreign object has in the provider.
func nameTaken(it *multicluster.Item, name string) error {
	return kube.Invalid(reasonFailed, fmt.Errorf("NameTaken: remote object %s/%s already exists", it.Pair.Remote, name))
}

// podsKind names the kind to the engine.
const podsKind = "pods"

func (k *podKind) engineKind() multicluster.Kind {
	return multicluster.Kind{
		Name:    podsKind,
		Local:   []multicluster.Source{{Object: &corev1.Pod{}, Fields: "spec.nodeName=" + k.options.Node, Pack: true}},
		Remote:  []multicluster.Source{{Object: &offv1beta1.ShadowPod{}, Transform: slimShadow}, {Object: &corev1.Pod{}, Transform: slimRemote, Pack: true}, sentTokens(k.options)},
		Workers: k.options.Pods.Workers,
		Sync:    k.syncItem,
	}
}

// podItem is one pod in both clusters. Absent objects are nil.
type podItem struct {
	*multicluster.Item
	target translate.Target
	// generation is the lowest generation of the VirtualNode that the patch may be from.
	generation int64
	local      *corev1.Pod
	shadow     *offv1beta1.ShadowPod // without its spec
	remote     *corev1.Pod
	// tokens is the Secret with the tokens of the pod, without their values.
	tokens *corev1.Secret
	// route is how the pod reaches the API server of this cluster; routeDown is set if the path does not work at the moment.
	route     *translate.APIServerRoute
	routeDown bool
	// claims are the claims in the provider of a pod that is about to be sent, by volume.
	claims map[string]string
	// projected are the keys of the tokens that the ShadowPod has a projection for; nil is all.
	projected sets.Set[string]
	// made is the ShadowPod that was just created.
	made metav1.Object
}

func (k *podKind) syncItem(ctx context.Context, item *multicluster.Item) error {
	it, err := k.gatherPod(item)
	if err != nil {
		return err
	}
	err = k.reconcilePod(ctx, it)
	if it.local != nil {
		k.events.recordFailure(it.local, err)
	}
	return err
}

func (k *podKind) gatherPod(item *multicluster.Item) (*podItem, error) {
	it := &podItem{Item: item, target: k.options.targetIn(item.Pair.Remote)}
	it.generation, it.target.Patch = k.desiredPatch()
	it.target.Creator = k.user()
	it.target.Audiences = slices.Concat(it.target.Audiences, k.audiences.knownNames())
	local, shadow, remote := &corev1.Pod{}, &offv1beta1.ShadowPod{}, &corev1.Pod{}
	if ok, err := item.Local.Get(item.Name, local); err != nil {
		return nil, fmt.Errorf("reading the local pod: %w", err)
	} else if ok {
		it.local = local
	}
	if ok, err := item.Remote.Get(item.Name, shadow); err != nil {
		return nil, fmt.Errorf("reading the shadow pod: %w", err)
	} else if ok {
		it.shadow = shadow
	}
	if ok, err := item.Remote.Get(item.Name, remote); err != nil {
		return nil, fmt.Errorf("reading the remote pod: %w", err)
	} else if ok {
		it.remote = remote
	}
	return it, k.gatherTokens(it)
}

// desiredPatch returns the patch of the VirtualNode, and the generation of the patch or an earlier one: a generation too old costs one more
// comparison of the ShadowPod, a generation too new would miss a change for good.
func (k *podKind) desiredPatch() (generation int64, patch *offv1beta1.OffloadingPatch) {
	generation = k.generation()
	return generation, k.patch()
}

func (k *podKind) reconcilePod(ctx context.Context, it *podItem) error {
	if it.local == nil {
		k.states.forgetPod(types.NamespacedName{Namespace: it.Pair.Local, Name: it.Name})
	}
	switch taken, owned := k.findCollision(it); {
	case it.local == nil && (taken || !owned):
		return nil
	case taken:
		return nameTaken(it.Item, it.Name)
	case !owned:
		// The remote pod belongs to another virtual node of the same provider, where a pod of this name ran before.
		return kube.Wait(0, "the remote pod of another virtual node is going")
	}
	switch {
	case it.local == nil:
		return k.abandonPod(ctx, it) // objects that the caches lack yet are removed when cached
	case policy.KeptOff(it.local):
		return nil // the fallback handles it
	case it.isOfAnotherPod():
		if err := k.abandonPod(ctx, it); err != nil {
			return err
		}
		return kube.Wait(0, "the remote pod of an earlier pod of this name is going")
	case !it.local.DeletionTimestamp.IsZero():
		return k.terminatePod(ctx, it)
	case hasEnded(it.local):
		return k.finishPod(ctx, it)
	}
	return k.offloadPod(ctx, it)
}

// findCollision reports whether the remote objects of this name are foreign, and whether they belong to this node.
func (k *podKind) findCollision(it *podItem) (taken, owned bool) {
	owned = true
	for _, obj := range []client.Object{it.shadow, it.remote} {
		if isNil(obj) {
			continue
		}
		taken = taken || !it.target.Owns(obj)
		owned = owned && it.target.OwnsPod(obj)
	}
	return taken, owned
}

// isOfAnotherPod reports whether the remote objects were made for an earlier local pod of this name.
func (it *podItem) isOfAnotherPod() bool {
	return it.shadow != nil && translate.IsOfAnother(it.shadow, it.local) || it.remote != nil && translate.IsOfAnother(it.remote, it.local)
}

func isNil(obj client.Object) bool {
	switch o := obj.(type) {
	case *offv1beta1.ShadowPod:
		return o == nil
	case *corev1.Pod:
		return o == nil
	}
	return obj == nil
}

func hasEnded(pod *corev1.Pod) bool { return policy.Ended(pod.Status.Phase) }

func (k *podKind) removeShadow(ctx context.Context, it *podItem) error {
	if it.shadow == nil || !it.shadow.DeletionTimestamp.IsZero() {
		return nil
	}
	if err := it.Remote.Delete(ctx, it.shadow); err != nil {
		return fmt.Errorf("deleting the shadow pod: %w", err)
	}
	return nil
}

// abandonPod removes the ShadowPod of a deleted local pod. Or only the cache lacks the pod, if another process created
// the ShadowPod a moment ago.
func (k *podKind) abandonPod(ctx context.Context, it *podItem) error {
	if it.shadow == nil {
		return k.dropTokens(ctx, it)
	}
	if !it.shadow.DeletionTimestamp.IsZero() {
		return nil
	}
	live := &corev1.Pod{}
	err := it.Local.Client().Get(ctx, types.NamespacedName{Namespace: it.Pair.Local, Name: it.Name}, live)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("looking for the local pod: %w", err)
	}
	if err == nil && live.Spec.NodeName == k.options.Node && !translate.IsOfAnother(it.shadow, live) {
		return kube.Wait(unseenDelay, "the cache does not have the local pod yet")
	}
	return k.removeShadow(ctx, it)
}

// terminatePod lets the remote pod terminate gracefully; the local pod is removed when nothing is left in the provider.
func (k *podKind) terminatePod(ctx context.Context, it *podItem) error {
	if it.shadow == nil && it.remote == nil {
		// The caches may lack objects that were created in the provider a moment ago.
		if err := ensureRemoteGone(ctx, it.Remote.Client(), it.target, it.local, false); err != nil {
			return err
		}
		if end := k.states.endOf(it.local); end != nil && !hasEnded(it.local) {
			return k.writeStatus(ctx, it, it.local.DeepCopy(), *end) // the pod is removed when the cache shows its end
		}
		if err := writeEnd(ctx, it.Local.Client(), it.local); err != nil {
			return err
		}
		if err := it.Local.Delete(ctx, it.local, client.GracePeriodSeconds(0)); err != nil {
			return fmt.Errorf("deleting the local pod: %w", err)
		}
		return nil
	}
	// The grace period of a terminating pod cannot be extended: an extension comes before the deletion. Otherwise the ShadowPod is deleted first:
	// the provider would recreate the pod of a remaining ShadowPod.
	grace, change := translate.Grace(it.local, it.remote)
	steps := []func(context.Context, *podItem) error{k.removeShadow}
	forward := func(ctx context.Context, it *podItem) error { return forwardGrace(ctx, it, grace) }
	switch {
	case change > 0:
		steps = append([]func(context.Context, *podItem) error{forward}, steps...)
	case change < 0:
		steps = append(steps, forward)
	}
	for _, step := range append(steps, k.reflectStatus) {
		if err := step(ctx, it); err != nil {
			return err
		}
	}
	return nil
}

// writeEnd gives a pod its final phase before the removal: without a final phase, finalizers may never be removed.
func writeEnd(ctx context.Context, c client.Client, local *corev1.Pod) error {
	want := local.DeepCopy()
	want.Status = translate.Deleted(local)
	return writeStatus(ctx, c, local, want)
}

// unseenDelay is the retry interval for objects that the caches lack.
const unseenDelay = time.Second

// forwardGrace gives the remote pod the grace period of the local one.
func forwardGrace(ctx context.Context, it *podItem, grace int64) error {
	err := it.Remote.Delete(ctx, it.remote, client.GracePeriodSeconds(grace))
	if err != nil && !apierrors.IsForbidden(err) { // older providers forbid other grace periods
		return fmt.Errorf("deleting the remote pod: %w", err)
	}
	return nil
}

// finishPod handles ended pods, to be never run again: in the provider nothing may continue or start again either. The
// provider would restart a pod removed before its end was written into the ShadowPod.
func (k *podKind) finishPod(ctx context.Context, it *podItem) error {
	k.states.withState(it.local, func(m *podState) { m.tokens, m.end = tokenMemory{}, nil })
	switch {
	case it.local.Status.Reason == translate.ReasonAborted:
	case it.remote != nil && hasEnded(it.remote):
		return k.reflectStatus(ctx, it)
	case it.shadow != nil && policy.Ended(it.shadow.Status.Phase):
		return nil
	case it.shadow != nil:
		if err := it.goesOn(ctx); err != nil {
			return err
		}
	}
	return k.removeShadow(ctx, it)
}

// goesOn waits for the cache if the remote pod has ended: deleting the ShadowPod would delete the pod and its logs.
func (it *podItem) goesOn(ctx context.Context) error {
	live := &corev1.Pod{}
	err := it.Remote.Client().Get(ctx, types.NamespacedName{Namespace: it.Pair.Remote, Name: it.Name}, live)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("looking for the remote pod: %w", err)
	}
	if err == nil && hasEnded(live) {
		return kube.Wait(unseenDelay, "the cache does not have the end of the remote pod yet")
	}
	return nil
}

func (k *podKind) offloadPod(ctx context.Context, it *podItem) error {
	if k.states.endOf(it.local) != nil {
		return k.reflectStatus(ctx, it)
	}
	if it.shadow != nil && !it.shadow.DeletionTimestamp.IsZero() {
		if err := k.reflectStatus(ctx, it); err != nil {
			return err
		}
		return kube.Wait(0, "the previous shadow pod is going")
	}
	if err := k.renewLate(ctx, it); err != nil {
		return err
	}
	applied := k.applyShadow(ctx, it)
	if applied != nil && (it.shadow == nil || !isRefused(applied)) {
		return applied
	}
	tokens := k.sendTokens(ctx, it) // also for a pod of which a change is refused
	return errors.Join(k.reflectStatus(ctx, it), tokens, applied)
}

func (k *podKind) applyShadow(ctx context.Context, it *podItem) error {
	if it.shadow != nil {
		k.states.restartWait(it.local) // the ShadowPod may be recreated, for example with its namespace
		if k.isUpToDate(it, it.shadow) {
			return nil
		}
	}
	if it.shadow == nil {
		if why := k.tooOld(it.local); why != "" {
			return k.refuseVersion(ctx, it, why)
		}
		if err := k.awaitRootCA(ctx, it); err != nil {
			return err
		}
		if err := k.awaitReferences(ctx, it); err != nil {
			return err
		}
		if err := k.awaitClaims(ctx, it); err != nil {
			return err
		}
		if err := k.readRoute(ctx, it); err != nil {
			return k.refuseToken(ctx, it, err)
		}
	} else {
		it.route = translate.RouteOf(it.shadow)
	}
	now, err := it.applyShadowPod(ctx)
	if err != nil {
		if it.shadow == nil && isRefused(err) {
			return k.refusePod(ctx, it, err)
		}
		return fmt.Errorf("applying the shadow pod: %w", err)
	}
	if now == nil {
		k.setComparisonBasis(it, it.shadow)
		return nil
	}
	if it.shadow != nil || !hasLater(it.local) {
		k.setComparisonBasis(it, now)
	}
	k.recordOmitted(it)
	if it.shadow != nil {
		return nil
	}
	it.made = now
	k.events.recordNormal(it.local, reasonReflected, fmt.Sprintf("Successfully reflected object to cluster %q", k.options.Provider))
	if wrong := translate.Meaningless(it.local); len(wrong) > 0 {
		k.events.ofOwner(it.local, corev1.EventTypeWarning, reasonMeaningless, fmt.Sprintf("The pod runs in cluster %q with the default, because %s",
			k.options.Provider, strings.Join(wrong, "; ")))
	}
	if lost := translate.Lost(it.local); len(lost) > 0 {
		k.events.ofOwner(it.local, corev1.EventTypeNormal, reasonFieldsLost, fmt.Sprintf("The pod runs in cluster %q without %s", k.options.Provider, strings.Join(lost, ", ")))
	}
	k.recordAccess(it)
	return nil
}

// recordOmitted records omissions in files of the downward API when they change.
func (k *podKind) recordOmitted(it *podItem) {
	in := translate.Input{Target: it.target, Pod: it.local, Route: it.route}
	omitted := in.OmittedInFiles()
	if len(omitted) == 0 {
		k.events.forgetFailure(it.local, reasonOmitted)
		return
	}
	k.events.record(it.local, corev1.EventTypeWarning, reasonOmitted, fmt.Sprintf("Files of the downward API in cluster %q leave out what has no place "+
		"beside the annotations of the pod, of which there may be 256 KiB: %s", k.options.Provider, abbreviateKeys(omitted)))
}

// abbreviateKeys returns the first few of many keys.
func abbreviateKeys(keys []string) string {
	const few = 5
	if len(keys) <= few {
		return strings.Join(keys, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(keys[:few], ", "), len(keys)-few)
}

// recordAccess records the API server access of a pod that was just created.
func (k *podKind) recordAccess(it *podItem) {
	if !translate.UsesToken(it.local) {
		return
	}
	access := translate.AccessOf(it.local, it.route)
	if kept := it.target.AudiencesKept(it.local); len(kept) > 0 && access == translate.AccessConsumer {
		k.events.ofOwner(it.local, corev1.EventTypeWarning, reasonAudienceKept, fmt.Sprintf("The pod runs in cluster %q without its tokens for the audiences %s: "+
			"the annotation %s of the pod, or the value offloading.tokenAudiences, lets them go there", k.options.Provider, abbreviateKeys(kept), names.TokenAudiences))
	}
	switch {
	case access == translate.AccessNone:
		k.events.ofOwner(it.local, corev1.EventTypeNormal, reasonNoAPIServer, fmt.Sprintf("The pod runs in cluster %q without an API server: "+
			"its service account tokens and the address of the API server stay here", k.options.Provider))
	case access == translate.AccessConsumer && it.routeDown:
		k.events.ofOwner(it.local, corev1.EventTypeWarning, reasonNoWay, fmt.Sprintf("The pod reaches the API server of this cluster as soon as "+
			"the tunnel to cluster %q is up, which it is not at the moment", k.options.Provider))
	}
}

// hasLater reports whether a pod has fields that are not part of a new ShadowPod and applied afterwards.
func hasLater(local *corev1.Pod) bool { return len(local.Spec.EphemeralContainers) > 0 }

// applyShadowPod makes the ShadowPod match the local pod, and returns the resulting metadata, nil if it matched already.
func (it *podItem) applyShadowPod(ctx context.Context) (*metav1.PartialObjectMetadata, error) {
	in := translate.Input{Target: it.target, Pod: it.local, Route: it.route, Claims: it.claims}
	if it.shadow == nil {
		return it.Remote.ApplyOver(ctx, translate.ShadowPod(in), nil)
	}
	in.Creator = translate.Creator(in.Creator, it.shadow)
	if !hasLater(it.local) {
		if right, err := it.Remote.AsMade(translate.ShadowPod(in), it.shadow); err != nil || right {
			return nil, err
		}
	}
	in.Existing = &offv1beta1.ShadowPod{}
	if err := it.Remote.Client().Get(ctx, client.ObjectKeyFromObject(it.shadow), in.Existing); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading the whole shadow pod: %w", err)
	} else if err != nil || in.Existing.UID != it.shadow.UID {
		return nil, kube.Wait(unseenDelay, "the cache has a shadow pod that is gone")
	}
	now, err := it.Remote.ApplyOver(ctx, translate.ShadowPod(in), in.Existing)
	if isRefused(err) {
		return it.bringEach(ctx, in, err)
	}
	return now, err
}

// bringEach applies each kind of change separately to a ShadowPod whose provider refuses all of them together.
func (it *podItem) bringEach(ctx context.Context, in translate.Input, why error) (last *metav1.PartialObjectMetadata, err error) {
	changes := translate.Changes(in)
	if len(changes) == 0 {
		return nil, why
	}
	var failed []error
	for _, in.Only = range slices.Concat([]translate.Change{translate.ChangeMetadata}, changes) {
		want := translate.ShadowPod(in)
		now, err := it.Remote.ApplyOver(ctx, want, in.Existing)
		switch {
		case isRefused(err):
			failed = append(failed, fmt.Errorf("changing its %s: %w", in.Only, err))
		case err != nil:
			return last, err
		default:
			in.Existing.Labels, in.Existing.Annotations, in.Existing.Spec, last = want.Labels, want.Annotations, want.Spec, now
		}
	}
	return last, errors.Join(failed...)
}

func (k *podKind) reflectStatus(ctx context.Context, it *podItem) error {
	if end := k.states.endOf(it.local); end != nil { // the remote pod may have changed or vanished since
		return k.writeStatus(ctx, it, it.local.DeepCopy(), *end)
	}
	switch {
	case it.remote != nil:
		ips := translate.PodIPs{}
		if !k.options.DisableIPReflection {
			var err error
			if ips, err = k.ips(ctx); err != nil {
				return err
			}
		}
		k.recordProblems(it)
		if isStarting(it.local, it.remote) && !isScheduled(it.remote) {
			return nil // nothing is known of the remote pod yet
		}
		local := it.local.DeepCopy()
		k.available.setLabel(local)
		return k.writeStatus(ctx, it, local, translate.PodStatus(translate.StatusInput{
			Local: local, Remote: it.remote, HostIPs: []string{k.options.NodeIP.String()},
			IPs: ips, Restarts: k.states.countRestarts(it.local, it.remote),
		}))
	case it.shadow == nil:
		return nil
	case policy.Ended(it.shadow.Status.Phase):
		return k.writeStatus(ctx, it, it.local.DeepCopy(), translate.Ended(it.local, it.shadow.Status.Phase))
	case !it.local.DeletionTimestamp.IsZero():
		return nil
	}
	if no := refusalOf(it.shadow); no != nil {
		return k.showRefusal(ctx, it, no.Reason, no.Message)
	}
	return k.writeStatus(ctx, it, it.local.DeepCopy(), translate.Missing(it.local))
}

// writeStatus writes want, a copy of the local pod, with the given status, or queues the pod for the time when that is due.
func (k *podKind) writeStatus(ctx context.Context, it *podItem, want *corev1.Pod, status corev1.PodStatus) error {
	want.Status = withoutRefusal(status)
	if it.remote != nil { // the label marks that this pod runs remotely; a status update writes labels too
		metav1.SetMetaDataLabel(&want.ObjectMeta, names.ShadowPod, "true")
	}
	if policy.Ended(status.Phase) {
		delete(want.Labels, names.RemoteUnavailable)
		if !hasEnded(it.local) {
			k.states.withState(it.local, func(m *podState) { m.end = &status })
		}
	}
	after, err := k.states.writeStatus(ctx, it.Local.Client(), it.local, want, it.remote != nil && isStarting(it.local, it.remote))
	if after > 0 {
		it.RequeueAfter(after)
	}
	return err
}
