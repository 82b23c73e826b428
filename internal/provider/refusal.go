// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"errors"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/kube"
)

// podRejection is the reason why a provider does not create a pod. The status of the ShadowPod carries it to the consumer: peers can
// read ShadowPods, but not the provider's events.
type podRejection struct {
	reason string // of the condition ShadowPodAccepted
	why    error
	// next is the error that decides when the queue retries.
	next error
	// room reports whether the pod may be admitted when other pods are deleted.
	room bool
}

func (r *podRejection) Error() string { return r.why.Error() }
func (r *podRejection) Unwrap() error { return r.next }

// messageFor returns the shortage of the pod, equal for all pods with the same shortage; "" if no freed capacity would help.
func (r *podRejection) messageFor(sp *offv1beta1.ShadowPod) string {
	if !r.room {
		return ""
	}
	return strings.ReplaceAll(stableMessage(r.Error()), strconv.Quote(sp.Name), "")
}

// classifyAnswer classifies the error of a create or update request: refused reports whether the API server or admission denied
// it, certain whether the request certainly had no effect.
func classifyAnswer(err error) (refused, certain bool) {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return false, false
	}
	switch code := int(status.Status().Code); code {
	case http.StatusNotFound, http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests:
		return false, code != http.StatusRequestTimeout
	case http.StatusInternalServerError: // a webhook of the provider could not be called
		return true, false
	default:
		return code/100 == 4, code/100 == 4
	}
}

const maxMessage = 4 << 10

// Report shows why the pod is not created, to the consumer in the status and to the provider's administrator in an event.
func (s *shadowPods) Report(sp *offv1beta1.ShadowPod, err error) []kube.Event {
	no, refused := errors.AsType[*podRejection](err)
	switch {
	case refused:
		if kube.IsWait(no.next) { // the quota cache wakes it
			s.retries.Drop(client.ObjectKeyFromObject(sp))
		} else {
			s.retries.Add(sp, no.messageFor(sp))
		}
		return writeRefusal(sp, no, failureReason(err))
	case err == nil:
		if apimeta.RemoveStatusCondition(&sp.Status.Conditions, offv1beta1.ShadowPodAccepted) && len(sp.Status.Conditions) == 0 {
			sp.Status.Conditions = nil
		}
		s.retries.Drop(client.ObjectKeyFromObject(sp))
		return nil
	}
	s.retries.Skip(client.ObjectKeyFromObject(sp))
	if !kube.Classify(err).Failed() && !kube.Classify(err).Invalid() {
		return nil
	}
	return []kube.Event{{Type: corev1.EventTypeWarning, Reason: failureReason(err), Message: kube.Problem(err).Error()}}
}

// writeRefusal sets the condition of a refused pod, and keeps the previous text unless the reason has changed: repeated retries
// of a pod cause one write and one event.
func writeRefusal(sp *offv1beta1.ShadowPod, no *podRejection, event string) []kube.Event {
	now := metav1.Condition{
		Type: offv1beta1.ShadowPodAccepted, Status: metav1.ConditionFalse, Reason: no.reason,
		ObservedGeneration: sp.Generation, Message: shortenText(stableMessage(no.Error())),
	}
	before := apimeta.FindStatusCondition(sp.Status.Conditions, now.Type)
	if before != nil && before.Reason == now.Reason && before.ObservedGeneration == now.ObservedGeneration && sameWords(before.Message, now.Message) {
		now.Message = before.Message
	}
	sp.Status.Phase = corev1.PodPending
	apimeta.SetStatusCondition(&sp.Status.Conditions, now)
	return []kube.Event{{Type: corev1.EventTypeWarning, Reason: event, Message: now.Message}}
}

// used matches the usage of a ResourceQuota by other pods, in the message of the API server.
var used = regexp.MustCompile(`(exceeded quota: [^ ]*, requested: .*?), used: .*?, limited: `)

// stableMessage removes the parts of a message that vary while the reason stays the same.
func stableMessage(message string) string { return used.ReplaceAllString(message, "$1, limited: ") }

// numbered matches words with a digit: identifiers, times and addresses.
var numbered = regexp.MustCompile(`[[:alnum:]]*[0-9][[:alnum:].:_-]*`)

// sameWords reports whether two messages are equal except for parts that webhooks, and connections to them, vary each time.
func sameWords(a, b string) bool {
	return strings.Contains(b, "webhook") && numbered.ReplaceAllString(a, "#") == numbered.ReplaceAllString(b, "#")
}

func shortenText(text string) string {
	if len(text) <= maxMessage {
		return text
	}
	return strings.ToValidUTF8(text[:maxMessage], "") + "…"
}
