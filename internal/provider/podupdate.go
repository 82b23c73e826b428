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
	"liqo.io/liqo/internal/quota"
	"liqo.io/liqo/internal/virtualkubelet/translate"
)

// Of an existing Pod these parts follow a later change of its ShadowPod: images, the deadline, added tolerations,
// resources and added ephemeral containers. Nothing else of a Pod can change.
//
// The Pod remembers, as an annotation, a digest of each part that was brought to it. Only what has another digest now is
// compared with the Pod and written. So what admission or an autoscaler of this cluster made of a part stays, until the
// consumer changes that very part, and what the API server refused is not tried again before the consumer changes it. Each part
// is tried by itself where several are refused together.

const (
	followedParts      = names.AppliedHash + ".spec"
	reasonFailedUpdate = "FailedUpdatePod"
)

// podParts are the digests of what follows, by name.
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

func (p podParts) putResources(name string, r corev1.ResourceRequirements) {
	p.setPart(name, []corev1.ResourceList{r.Limits, r.Requests}, len(r.Limits)+len(r.Requests) > 0)
}

// setPart leaves out what is not set, to keep the annotation short.
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

// changedSince names the parts that differ from what the annotation of a Pod remembers. A Pod that remembers nothing was
// made by an earlier version: all of it is compared.
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

// isResources reports whether a part is one of those that a resize changes.
func isResources(name string) bool {
	return name == "resources" || strings.HasPrefix(name, "resources/")
}

func isEphemeral(name string) bool { return strings.HasPrefix(name, "ephemeral/") }

// podChange is one way to change a Pod: a subresource, "" for the Pod itself, the parts that it changes, and how.
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

// partsOf returns the parts that a change is about.
func (p podParts) partsOf(change podChange) podParts {
	out := maps.Clone(p)
	maps.DeleteFunc(out, func(part, _ string) bool { return !change.changes(part) })
	return out
}

// eachPart returns the parts that are tried by themselves when they are refused together: all but resources, whose limits and requests
// may be good together only.
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

// withoutParts returns the parts that a Pod is to remember where some are to be tried again: of those what it remembered before.
func (p podParts) withoutParts(undone podParts, before string) podParts {
	out, remembered := maps.Clone(p), podParts{}
	_ = json.Unmarshal([]byte(before), &remembered) // of an earlier version: it remembers nothing
	for name := range undone {
		delete(out, name)
		if digest, ok := remembered[name]; ok {
			out[name] = digest
		}
	}
	return out
}

func changeSpec(pod, want *corev1.PodSpec, changed podParts) {
	eachContainer(pod, want, func(have, want *corev1.Container) {
		if changed.hasPart("image/" + want.Name) {
			have.Image = want.Image
		}
	})
	if changed.hasPart("deadline") {
		pod.ActiveDeadlineSeconds = want.ActiveDeadlineSeconds
	}
	if !changed.hasPart("tolerations") {
		return
	}
	for _, t := range want.Tolerations {
		if !slices.ContainsFunc(pod.Tolerations, func(have corev1.Toleration) bool { return equality.Semantic.DeepEqual(have, t) }) {
			pod.Tolerations = append(pod.Tolerations, t)
		}
	}
}

// applyResources sets what the ShadowPod asks for; what else the Pod has, by a LimitRange for example, it keeps.
func applyResources(pod, want *corev1.PodSpec, changed podParts) {
	eachContainer(pod, want, func(have, want *corev1.Container) {
		if changed.hasPart("resources/" + want.Name) {
			overlayResources(&have.Resources, want.Resources)
		}
	})
	if changed.hasPart("resources") {
		if pod.Resources == nil {
			pod.Resources = &corev1.ResourceRequirements{}
		}
		overlayResources(pod.Resources, *want.Resources)
	}
}

func overlayResources(have *corev1.ResourceRequirements, want corev1.ResourceRequirements) {
	have.Limits, have.Requests = mergeLists(have.Limits, want.Limits), mergeLists(have.Requests, want.Requests)
}

func mergeLists(have, want corev1.ResourceList) corev1.ResourceList {
	if len(want) == 0 {
		return have
	}
	out := have.DeepCopy()
	if out == nil {
		out = corev1.ResourceList{}
	}
	maps.Copy(out, want)
	return out
}

func addEphemeral(pod, want *corev1.PodSpec, changed podParts) {
	for _, c := range want.EphemeralContainers {
		if changed.hasPart("ephemeral/"+c.Name) && !slices.ContainsFunc(pod.EphemeralContainers, func(have corev1.EphemeralContainer) bool { return have.Name == c.Name }) {
			pod.EphemeralContainers = append(pod.EphemeralContainers, c)
		}
	}
}

func eachContainer(pod, want *corev1.PodSpec, do func(have, want *corev1.Container)) {
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

// desiredSpec returns what an existing Pod follows.
func (s *shadowPods) desiredSpec(sp *offv1beta1.ShadowPod) *corev1.PodSpec {
	out := sp.Spec.Pod.DeepCopy()
	out.Tolerations = s.allowed.NarrowTolerations(out.Tolerations)
	return out
}

// podUpdateError is a change of a ShadowPod that did not reach its Pod.
type podUpdateError struct{ err error }

func (e *podUpdateError) Error() string { return fmt.Sprintf("updating the pod: %v", e.err) }
func (e *podUpdateError) Unwrap() error { return e.err }

// failureReason is the reason of the event about err.
func failureReason(err error) string {
	if _, ok := errors.AsType[*podUpdateError](err); ok {
		return reasonFailedUpdate
	}
	return reasonFailed
}

// followChanges brings later changes of a ShadowPod to its Pod: to its spec, then to its metadata, which remember that.
func (s *shadowPods) followChanges(ctx context.Context, sp *offv1beta1.ShadowPod, pod *corev1.Pod) error {
	if !pod.DeletionTimestamp.IsZero() {
		s.ledger.Withdraw(sp)
		return nil
	}
	reached, err := s.updatePod(ctx, sp, pod, partsOf(&sp.Spec.Pod))
	return errors.Join(err, s.updateMetadata(ctx, sp, pod, reached))
}

// updatePod returns what of the spec the pod is to remember: all of it when nothing is to be tried again, even if the API server
// refused something.
func (s *shadowPods) updatePod(ctx context.Context, sp *offv1beta1.ShadowPod, pod *corev1.Pod, want podParts) (reached string, err error) {
	reached = pod.Annotations[followedParts]
	if len(want.changedSince(reached)) == 0 || hasEnded(pod.Status.Phase) {
		s.ledger.Withdraw(sp)
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
	// Nor may it know yet what the pod remembers: what reached it before may have been changed here since.
	reached = live.Annotations[followedParts]
	changed := want.changedSince(reached)
	if !asksForMore(&live.Spec, &sp.Spec.Pod, changed) {
		s.ledger.Withdraw(sp)
	}
	tried := &attempts{live: live, undone: podParts{}}
	for _, change := range podChanges {
		if err := s.tryChange(ctx, sp, tried, change, changed.partsOf(change)); err != nil {
			return reached, &podUpdateError{err}
		}
	}
	return want.withoutParts(tried.undone, reached).String(), tried.joinedError()
}

// attempts is what became of the changes of one Pod.
type attempts struct {
	// live is the Pod with those that were made.
	live *corev1.Pod
	// undone are the parts to be tried again.
	undone podParts
	// refused says why others are not made, and later why some are not yet.
	refused, later []error
}

// joinedError returns nothing, what is retried, or what is only told.
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

// tryChange makes one change of a Pod. What is refused together is tried part by part. The error is one that says nothing about the change.
func (s *shadowPods) tryChange(ctx context.Context, sp *offv1beta1.ShadowPod, tried *attempts, change podChange, some podParts) error {
	next := tried.live.DeepCopy()
	change.make(&next.Spec, s.desiredSpec(sp), some)
	if equality.Semantic.DeepEqual(tried.live.Spec, next.Spec) {
		return nil
	}
	err := s.makeRoom(ctx, sp, tried.live, next)
	if err == nil {
		err = s.patchPod(ctx, tried.live, next, change.subresource)
	}
	_, short := errors.AsType[*shortage](err)
	switch {
	case err == nil:
		tried.live = next
	case short:
		maps.Copy(tried.undone, some)
		tried.refused = append(tried.refused, err) // the ledger wakes us
	case !refusesChange(err):
		return err
	case len(some.eachPart(change)) > 0:
		for _, one := range some.eachPart(change) {
			if err := s.tryChange(ctx, sp, tried, change, one); err != nil {
				return err
			}
		}
	case apierrors.IsForbidden(err) && change.subresource == "resize": // a ResourceQuota may have room later
		maps.Copy(tried.undone, some)
		tried.later = append(tried.later, err)
	default:
		tried.refused = append(tried.refused, err)
	}
	return nil
}

// refusesChange reports whether the API server or admission refused a change for what it is.
func refusesChange(err error) bool {
	return (apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsForbidden(err)) &&
		!apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

// asksForMore tells whether a pod is to have more than it has. A wish that the ledger refused may be taken back.
func asksForMore(pod, want *corev1.PodSpec, changed podParts) bool {
	next := pod.DeepCopy()
	applyResources(next, want.DeepCopy(), changed)
	return quota.Fit(quota.Need(next), nil, quota.Need(pod)) != nil
}

// shortage is why a pod may not have more.
type shortage struct{ error }

// makeRoom asks the ledger for what a pod is to have more.
func (s *shadowPods) makeRoom(ctx context.Context, sp *offv1beta1.ShadowPod, live, next *corev1.Pod) error {
	if quota.Fit(quota.Need(&next.Spec), nil, quota.Need(&live.Spec)) == nil {
		return nil
	}
	q, err := s.quotaOf(ctx, accountOf(sp))
	if err != nil {
		return err
	}
	asking := &offv1beta1.ShadowPod{ObjectMeta: sp.ObjectMeta, Spec: offv1beta1.ShadowPodSpec{Pod: next.Spec}}
	if err := s.ledger.Reserve(asking, q, true); err != nil {
		return &shortage{err}
	}
	return nil
}

// patchPod writes the difference, and fills next with the answer.
func (s *shadowPods) patchPod(ctx context.Context, live, next *corev1.Pod, subresource string) error {
	patch, owner := client.StrategicMergeFrom(live, client.MergeFromWithOptimisticLock{}), client.FieldOwner(names.ShadowPodFieldManager)
	if subresource == "" {
		return s.client.Patch(ctx, next, patch, owner)
	}
	err := s.client.SubResource(subresource).Patch(ctx, next, patch, owner)
	if err == nil {
		s.ledger.Made(next)
	} else if _, certain := classifyAnswer(err); certain {
		s.ledger.Release(client.ObjectKeyFromObject(live))
	} else {
		s.ledger.Lost(client.ObjectKeyFromObject(live), live.ResourceVersion)
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
