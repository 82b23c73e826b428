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

// refusal is why a provider does not make a pod. It is written into the status of the ShadowPod, from where it gets to the
// consumer: peers read ShadowPods, and have no right to the provider's events.
type refusal struct {
	reason string // of the condition ShadowPodAccepted
	why    error
	// next says to the queue what happens now.
	next error
	// room tells that it may be let in when others go.
	room bool
}

func (r *refusal) Error() string { return r.why.Error() }
func (r *refusal) Unwrap() error { return r.next }

// messageFor tells what would have to become free, the same for all pods that lack the same; "" if that would not help.
func (r *refusal) messageFor(sp *offv1beta1.ShadowPod) string {
	if !r.room {
		return ""
	}
	return strings.ReplaceAll(stableMessage(r.Error()), strconv.Quote(sp.Name), "")
}

// classifyAnswer sorts the error of a request to make or to change a pod: whether the API server or admission refused it, and whether it
// is certain that nothing was done.
func classifyAnswer(err error) (refused, certain bool) {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return false, false
	}
	switch code := int(status.Status().Code); code {
	case http.StatusNotFound, http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests:
		return false, code != http.StatusRequestTimeout
	case http.StatusInternalServerError: // a webhook of the provider that cannot be called
		return true, false
	default:
		return code/100 == 4, code/100 == 4
	}
}

const maxMessage = 4 << 10

// Report shows the consumer why its pod is not made, and the provider's administrator too.
func (s *shadowPods) Report(sp *offv1beta1.ShadowPod, err error) []kube.Event {
	no, refused := errors.AsType[*refusal](err)
	switch {
	case refused:
		if kube.IsWait(no.next) { // the ledger wakes it
			s.refused.Drop(client.ObjectKeyFromObject(sp))
		} else {
			s.refused.Add(sp, no.messageFor(sp))
		}
		return writeRefusal(sp, no, failureReason(err))
	case err == nil:
		if apimeta.RemoveStatusCondition(&sp.Status.Conditions, offv1beta1.ShadowPodAccepted) && len(sp.Status.Conditions) == 0 {
			sp.Status.Conditions = nil
		}
		s.refused.Drop(client.ObjectKeyFromObject(sp))
		return nil
	}
	s.refused.Skip(client.ObjectKeyFromObject(sp))
	if !kube.Judge(err).Failed() && !kube.Judge(err).Invalid() {
		return nil
	}
	return []kube.Event{{Type: corev1.EventTypeWarning, Reason: failureReason(err), Message: kube.Trouble(err).Error()}}
}

// writeRefusal writes down why there is no pod, as it was written before unless it has become another reason: a pod that is tried
// again and again is written, and told of, once.
func writeRefusal(sp *offv1beta1.ShadowPod, no *refusal, event string) []kube.Event {
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

// used is what others take of a ResourceQuota, in the message of the API server.
var used = regexp.MustCompile(`(exceeded quota: [^ ]*, requested: .*?), used: .*?, limited: `)

// stableMessage leaves out what changes while nothing changes for the pod.
func stableMessage(message string) string { return used.ReplaceAllString(message, "$1, limited: ") }

// numbered are the words of a message that has an identifier, a time, or an address.
var numbered = regexp.MustCompile(`[[:alnum:]]*[0-9][[:alnum:].:_-]*`)

// sameWords tells whether two messages are the same but for what webhooks, and connections to them, say differently each time.
func sameWords(a, b string) bool {
	return strings.Contains(b, "webhook") && numbered.ReplaceAllString(a, "#") == numbered.ReplaceAllString(b, "#")
}

func shortenText(text string) string {
	if len(text) <= maxMessage {
		return text
	}
	return strings.ToValidUTF8(text[:maxMessage], "") + "…"
}
