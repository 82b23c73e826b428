// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"

	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/policy"
	"liqo.io/liqo/internal/virtualkubelet/translate"
)

// The reasons that keep a pod from running in the provider are published on the local pod. A refusal is a condition, removed when the
// pod is created. The messages of the provider's scheduler and nodes are in the conditions and the container statuses of the remote
// pod, copied unchanged. Each is recorded as an event when it begins.

const (
	reasonRefused       = "OffloadingRefused"
	reasonUnschedulable = "RemoteUnschedulable"
	reasonNoImage       = "RemoteImageFailed"
	reasonTooOld        = "ProviderTooOld"
)

// isRefused reports whether the provider does not accept this pod, as it is or at this moment.
func isRefused(err error) bool {
	return (apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)) &&
		!apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

// refusePod publishes on the pod why it does not start. The pod does not fail: quotas are raised and policies change.
func (k *podKind) refusePod(ctx context.Context, it *podItem, why error) error {
	if err := k.markRefused(ctx, it, offv1beta1.ReasonRefused, k.refusalText(why.Error())); err != nil {
		return err
	}
	return fmt.Errorf("applying the shadow pod: %w", why) // which an event records
}

// versionInterval is the interval of checks whether the provider was upgraded.
const versionInterval = 10 * time.Second

// refuseVersion publishes on the pod that the provider's Kubernetes would drop a field of the pod. The pod does not fail: a failed pod of a
// DaemonSet would be replaced by the same pod at once.
func (k *podKind) refuseVersion(ctx context.Context, it *podItem, why string) error {
	text := kube.Note(fmt.Sprintf("cluster %q is too old for the pod: %s", k.options.Provider, why))
	if err := k.markRefused(ctx, it, reasonTooOld, text); err != nil {
		return err
	}
	k.events.record(it.local, corev1.EventTypeWarning, reasonTooOld, text)
	return kube.Wait(versionInterval, text)
}

// refusalOf returns the provider's refusal of a ShadowPod without a pod, nil if there is none.
func refusalOf(shadow *offv1beta1.ShadowPod) *metav1.Condition {
	c := apimeta.FindStatusCondition(shadow.Status.Conditions, offv1beta1.ShadowPodAccepted)
	if c == nil || c.Status != metav1.ConditionFalse {
		return nil
	}
	return c
}

// showRefusal publishes the provider's refusal of the ShadowPod.
func (k *podKind) showRefusal(ctx context.Context, it *podItem, reason, message string) error {
	text := k.refusalText(message)
	if err := k.markRefused(ctx, it, reason, text); err != nil {
		return err
	}
	k.events.record(it.local, corev1.EventTypeWarning, reasonRefused, text)
	return nil
}

func (k *podKind) refusalText(message string) string {
	return kube.Note(fmt.Sprintf("cluster %q refuses the pod: %s", k.options.Provider, message))
}

func (k *podKind) markRefused(ctx context.Context, it *podItem, reason, message string) error {
	want := it.local.DeepCopy()
	want.Status = refusedStatus(it.local, reason, message)
	return writeStatus(ctx, it.Local.Client(), it.local, want)
}

// refusedStatus returns the status of a pod that the provider does not run. The message is clean already.
func refusedStatus(local *corev1.Pod, reason, message string) corev1.PodStatus {
	status := translate.Missing(local)
	if translate.NeverStarted(local) {
		status = translate.Refused(local, message)
	}
	condition := corev1.PodCondition{
		Type: names.PodAccepted, Status: corev1.ConditionFalse, Reason: policy.CleanLine(reason, policy.MaxForeignReason), Message: message, LastTransitionTime: metav1.Now(),
	}
	for _, c := range local.Status.Conditions {
		if c.Type == names.PodAccepted {
			condition.LastTransitionTime = c.LastTransitionTime
		}
	}
	out := withoutRefusal(status)
	out.Conditions = append(out.Conditions, condition)
	return out
}

// withoutRefusal drops the condition of a refusal that is over.
func withoutRefusal(status corev1.PodStatus) corev1.PodStatus {
	status.Conditions = slices.DeleteFunc(slices.Clone(status.Conditions), func(c corev1.PodCondition) bool { return c.Type == names.PodAccepted })
	return status
}

// recordProblems records the problems that keep the remote pod from running, when they begin.
func (k *podKind) recordProblems(it *podItem) {
	k.events.forgetFailure(it.local, reasonRefused)
	k.events.forgetFailure(it.local, reasonTooOld)
	now := podProblems(it.remote)
	for _, reason := range []string{reasonUnschedulable, reasonNoImage} {
		i := slices.IndexFunc(now, func(t podProblem) bool { return t.reason == reason })
		if i < 0 {
			k.events.forgetFailure(it.local, reason)
			continue
		}
		k.events.RecordAbout(eventKey{it.local.GetUID(), reason}, it.local, kube.Event{
			Type: corev1.EventTypeWarning, Reason: reason, State: reason + now[i].what,
			Message: fmt.Sprintf("in cluster %q: %s", k.options.Provider, now[i].message),
		})
	}
}

// podProblem is one problem that keeps a pod from running. While the problem lasts, the message changes and the subject does not.
type podProblem struct{ reason, what, message string }

func podProblems(pod *corev1.Pod) []podProblem {
	var out []podProblem
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
			out = append(out, podProblem{reason: reasonUnschedulable, message: c.Message})
		}
	}
	var what, messages []string
	for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if w := s.State.Waiting; w != nil && kube.LacksImage(w.Reason) {
			what = append(what, s.Name+" "+s.Image)
			messages = append(messages, fmt.Sprintf("container %q: %s: %s", s.Name, w.Reason, w.Message))
		}
	}
	if len(what) > 0 {
		out = append(out, podProblem{reason: reasonNoImage, what: strings.Join(what, ","), message: strings.Join(messages, "; ")})
	}
	return out
}
