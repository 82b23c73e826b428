// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/policy"
	"liqo.io/liqo/internal/virtualkubelet/translate"
)

// The following parts of an existing Pod are updated after a change of its ShadowPod: images, the deadline, added tolerations,
// resources and added ephemeral containers. All other fields of a Pod are immutable.
//
// An annotation of the Pod stores a digest of each applied part. Only a part with a new digest is compared with the Pod and written.
// Therefore a part changed by admission or an autoscaler of this cluster stays until the consumer changes that very part, and a part
// refused by the API server is not retried before the consumer changes it. If several parts are refused together, each is tried
// separately.

const (
	followedParts      = names.AppliedHash + ".spec"
	reasonFailedUpdate = "FailedUpdatePod"
)

// podParts are the digests of the mutable parts, by name.
type podParts map[string]string

func partsOf(spec *corev1.PodSpec) podParts {
	out := podParts{}
	out.setPart("deadline", spec.ActiveDeadlineSeconds, spec.ActiveDeadlineSeconds != nil)
	out.setPart("tolerations", spec.Tolerations, len(spec.Tolerations) > 0)
	for _, c := range spec.EphemeralContainers {
		out.setPart("ephemeral/"+c.Name, c, true)
	}
	if r := spec.Resources; r != nil {
		out.putResources("resources", *r)
	}
	for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
		out.setPart("image/"+c.Name, c.Image, true)
		out.putResources("resources/"+c.Name, c.Resources)
	}
	return out
}

// shadowParts returns the parts of a ShadowPod: of the spec, and the tolerations in its annotation.
func shadowParts(sp *offv1beta1.ShadowPod) podParts {
	out := partsOf(&sp.Spec.Pod)
	if offered := sp.Annotations[names.RoleTolerations]; offered != "" {
		out.setPart("tolerations", []any{sp.Spec.Pod.Tolerations, offered}, true)
	}
	return out
}

func (p podParts) putResources(name string, r corev1.ResourceRequirements) {
	p.setPart(name, []corev1.ResourceList{r.Limits, r.Requests}, len(r.Limits)+len(r.Requests) > 0)
}

// setPart adds a part if it is set, to keep the annotation short.
func (p podParts) setPart(name string, value any, set bool) {
	if set {
		p[name] = hashOf(value)[:8]
	}
}

func (p podParts) String() string {
	encoded, err := json.Marshal(p)
	if err != nil {
		panic(err) // strings always encode
	}
	return string(encoded)
}

// changedSince returns the parts whose digest differs from that in the annotation of a Pod. A Pod without the annotation was
// created by an earlier version: all parts are compared.
func (p podParts) changedSince(annotation string) podParts {
	before := podParts{}
	if annotation == "" || json.Unmarshal([]byte(annotation), &before) != nil {
		return p
	}
	out := maps.Clone(p)
	maps.DeleteFunc(out, func(name, value string) bool { return before[name] == value })
	return out
}

func (p podParts) hasPart(name string) bool { return p[name] != "" }

// isResources reports whether a resize changes the part.
func isResources(name string) bool {
	return name == "resources" || strings.HasPrefix(name, "resources/")
}

func isEphemeral(name string) bool { return strings.HasPrefix(name, "ephemeral/") }

// podChange is one kind of change of a Pod: its subresource, "" for the Pod itself, its parts, and the function that applies
// them.
type podChange struct {
	subresource string
	changes     func(part string) bool
	make        func(pod, want *corev1.PodSpec, changed podParts)
}

var podChanges = []podChange{
	{"resize", isResources, applyResources},
	{"ephemeralcontainers", isEphemeral, addEphemeral},
	{"", func(part string) bool { return !isResources(part) && !isEphemeral(part) }, changeSpec},
}

// partsOf returns the parts that a change includes.
func (p podParts) partsOf(change podChange) podParts {
	out := maps.Clone(p)
	maps.DeleteFunc(out, func(part, _ string) bool { return !change.changes(part) })
	return out
}

// eachPart returns the parts that are tried separately after they were refused together: all but resources, whose limits and
// requests may be valid only together.
func (p podParts) eachPart(change podChange) []podParts {
	if change.subresource == "resize" || len(p) < 2 {
		return nil
	}
	out := make([]podParts, 0, len(p))
	for _, name := range slices.Sorted(maps.Keys(p)) {
		out = append(out, podParts{name: p[name]})
	}
	return out
}

// withoutParts returns the parts to store on a Pod when some are to be retried: for those, the digests stored before.
func (p podParts) withoutParts(undone podParts, before string) podParts {
	out, remembered := maps.Clone(p), podParts{}
	_ = json.Unmarshal([]byte(before), &remembered) // an earlier version stored nothing
	for name := range undone {
		delete(out, name)
		if digest, ok := remembered[name]; ok {
			out[name] = digest
		}
	}
	return out
}

func changeSpec(pod, want *corev1.PodSpec, changed podParts) {
	eachContainer(pod, want, func(current, want *corev1.Container) {
		if changed.hasPart("image/" + want.Name) {
			current.Image = want.Image
		}
	})
	if changed.hasPart("deadline") {
		pod.ActiveDeadlineSeconds = want.ActiveDeadlineSeconds
	}
	if !changed.hasPart("tolerations") {
		return
	}
	for _, t := range want.Tolerations {
		if !slices.ContainsFunc(pod.Tolerations, func(current corev1.Toleration) bool { return equality.Semantic.DeepEqual(current, t) }) {
			pod.Tolerations = append(pod.Tolerations, t)
		}
	}
}

// applyResources sets the resources of the ShadowPod; others in the Pod, from a LimitRange for example, stay.
func applyResources(pod, want *corev1.PodSpec, changed podParts) {
	eachContainer(pod, want, func(current, want *corev1.Container) {
		if changed.hasPart("resources/" + want.Name) {
			overlayResources(&current.Resources, want.Resources)
		}
	})
	if changed.hasPart("resources") {
		if pod.Resources == nil {
			pod.Resources = &corev1.ResourceRequirements{}
		}
		overlayResources(pod.Resources, *want.Resources)
	}
}

func overlayResources(current *corev1.ResourceRequirements, want corev1.ResourceRequirements) {
	current.Limits, current.Requests = mergeLists(current.Limits, want.Limits), mergeLists(current.Requests, want.Requests)
}

func mergeLists(current, want corev1.ResourceList) corev1.ResourceList {
	if len(want) == 0 {
		return current
	}
	out := current.DeepCopy()
	if out == nil {
		out = corev1.ResourceList{}
	}
	maps.Copy(out, want)
	return out
}

func addEphemeral(pod, want *corev1.PodSpec, changed podParts) {
	for _, c := range want.EphemeralContainers {
		if changed.hasPart("ephemeral/"+c.Name) && !slices.ContainsFunc(pod.EphemeralContainers, func(current corev1.EphemeralContainer) bool { return current.Name == c.Name }) {
			pod.EphemeralContainers = append(pod.EphemeralContainers, c)
		}
	}
}

func eachContainer(pod, want *corev1.PodSpec, do func(current, want *corev1.Container)) {
	for _, lists := range [][2][]corev1.Container{{pod.InitContainers, want.InitContainers}, {pod.Containers, want.Containers}} {
		for i := range lists[0] {
			for j := range lists[1] {
				if lists[0][i].Name == lists[1][j].Name {
					do(&lists[0][i], &lists[1][j])
				}
			}
		}
	}
}

// desiredSpec returns the spec that an existing Pod follows.
func (s *shadowPods) desiredSpec(sp *offv1beta1.ShadowPod) *corev1.PodSpec {
	out := sp.Spec.Pod.DeepCopy()
	out.Tolerations = s.allowed.PodTolerations(sp)
	return out
}

// podUpdateError is the error of a change of a ShadowPod that did not reach the Pod.
type podUpdateError struct{ err error }

func (e *podUpdateError) Error() string { return fmt.Sprintf("updating the pod: %v", e.err) }
func (e *podUpdateError) Unwrap() error { return e.err }

// failureReason returns the reason of the event about err.
func failureReason(err error) string {
	if _, ok := errors.AsType[*podUpdateError](err); ok {
		return reasonFailedUpdate
	}
	return reasonFailed
}

// followChanges applies changes of a ShadowPod to its Pod: first the spec, then the metadata with the digests of applied
// parts.
func (s *shadowPods) followChanges(ctx context.Context, sp *offv1beta1.ShadowPod, pod *corev1.Pod) error {
	if !pod.DeletionTimestamp.IsZero() {
		s.quotas.Withdraw(sp)
		return nil
	}
	reached, err := s.updatePod(ctx, sp, pod, shadowParts(sp))
	return errors.Join(err, s.updateMetadata(ctx, sp, pod, reached))
}

// updatePod returns the parts of the spec to store on the pod: all of them if none is to be retried, even if the API server
// refused some.
func (s *shadowPods) updatePod(ctx context.Context, sp *offv1beta1.ShadowPod, pod *corev1.Pod, want podParts) (reached string, err error) {
	reached = pod.Annotations[followedParts]
	if len(want.changedSince(reached)) == 0 || hasEnded(pod.Status.Phase) {
		s.quotas.Withdraw(sp)
		return want.String(), nil
	}
	// The cache has no specs.
	live := &corev1.Pod{}
	if err := s.live.Get(ctx, client.ObjectKeyFromObject(pod), live); err != nil {
		return reached, client.IgnoreNotFound(fmt.Errorf("reading the pod: %w", err))
	}
	if live.UID != pod.UID {
		return reached, kube.Wait(0, "the pod was replaced")
	}
	// The cached annotation may be old, too: parts applied since may have been changed by this cluster already.
	reached = live.Annotations[followedParts]
	changed := want.changedSince(reached)
	if !asksForMore(&live.Spec, &sp.Spec.Pod, changed) {
		s.quotas.Withdraw(sp)
	}
	tried := &attempts{live: live, undone: podParts{}}
	for _, change := range podChanges {
		if err := s.tryChange(ctx, sp, tried, change, changed.partsOf(change)); err != nil {
			return reached, &podUpdateError{err}
		}
	}
	return want.withoutParts(tried.undone, reached).String(), tried.joinedError()
}

// attempts is the result of the changes of one Pod.
type attempts struct {
	// live is the Pod with the changes that succeeded.
	live *corev1.Pod
	// undone are the parts to retry.
	undone podParts
	// refused are the reasons of refused changes; later are the reasons of changes to retry.
	refused, later []error
}

// joinedError returns nil, an error to retry, or an error that is only reported.
func (a *attempts) joinedError() error {
	switch all := errors.Join(append(a.refused, a.later...)...); {
	case all == nil:
		return nil
	case len(a.later) > 0:
		return &podUpdateError{all}
	default:
		return kube.Invalid(reasonFailedUpdate, &podUpdateError{all})
	}
}

// tryChange applies one change of a Pod. If the change is refused, each part is tried separately. An error means that the
// change itself was not judged.
func (s *shadowPods) tryChange(ctx context.Context, sp *offv1beta1.ShadowPod, tried *attempts, change podChange, some podParts) error {
	next := tried.live.DeepCopy()
	change.make(&next.Spec, s.desiredSpec(sp), some)
	if equality.Semantic.DeepEqual(tried.live.Spec, next.Spec) {
		return nil
	}
	err := s.reserveIncrease(ctx, sp, tried.live, next)
	if err == nil {
		err = s.patchPod(ctx, tried.live, next, change.subresource)
	}
	_, short := errors.AsType[*shortage](err)
	switch {
	case err == nil:
		tried.live = next
	case short:
		maps.Copy(tried.undone, some)
		tried.refused = append(tried.refused, err) // the quota cache wakes the ShadowPod
	case !refusesChange(err):
		return err
	case len(some.eachPart(change)) > 0:
		for _, one := range some.eachPart(change) {
			if err := s.tryChange(ctx, sp, tried, change, one); err != nil {
				return err
			}
		}
	case apierrors.IsForbidden(err) && change.subresource == "resize": // a ResourceQuota may have capacity later
		maps.Copy(tried.undone, some)
		tried.later = append(tried.later, err)
	default:
		tried.refused = append(tried.refused, err)
	}
	return nil
}

// refusesChange reports whether the API server or admission refused the change itself.
func refusesChange(err error) bool {
	return (apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsForbidden(err)) &&
		!apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

// asksForMore reports whether the change increases the requests of a pod. A pending increase may be withdrawn.
func asksForMore(pod, want *corev1.PodSpec, changed podParts) bool {
	next := pod.DeepCopy()
	applyResources(next, want.DeepCopy(), changed)
	return policy.FindShortages(policy.PodRequests(next), nil, policy.PodRequests(pod)) != nil
}

// shortage is the error of an increase that exceeds the Quota.
type shortage struct{ error }

// reserveIncrease reserves quota for increased requests of a pod.
func (s *shadowPods) reserveIncrease(ctx context.Context, sp *offv1beta1.ShadowPod, live, next *corev1.Pod) error {
	if policy.FindShortages(policy.PodRequests(&next.Spec), nil, policy.PodRequests(&live.Spec)) == nil {
		return nil
	}
	q, err := s.quotaOf(ctx, accountOf(sp))
	if err != nil {
		return err
	}
	asking := &offv1beta1.ShadowPod{ObjectMeta: sp.ObjectMeta, Spec: offv1beta1.ShadowPodSpec{Pod: next.Spec}}
	if err := s.quotas.Reserve(asking, q, true); err != nil {
		return &shortage{err}
	}
	return nil
}

// patchPod patches the difference, and sets next to the response.
func (s *shadowPods) patchPod(ctx context.Context, live, next *corev1.Pod, subresource string) error {
	patch, owner := client.StrategicMergeFrom(live, client.MergeFromWithOptimisticLock{}), client.FieldOwner(names.ShadowPodFieldManager)
	if subresource == "" {
		return s.client.Patch(ctx, next, patch, owner)
	}
	err := s.client.SubResource(subresource).Patch(ctx, next, patch, owner)
	if err == nil {
		s.quotas.Made(next, live.ResourceVersion)
	} else if _, certain := classifyAnswer(err); certain {
		s.quotas.Release(client.ObjectKeyFromObject(live))
	} else {
		s.quotas.Lost(client.ObjectKeyFromObject(live), live.ResourceVersion)
	}
	return err
}

// phaseToReport returns the phase for the status of the ShadowPod, "" for none: a pod that was deleted did not end by itself,
// and is created again.
func phaseToReport(pod *corev1.Pod) corev1.PodPhase {
	if translate.Replaceable(pod) {
		return ""
	}
	return pod.Status.Phase
}
