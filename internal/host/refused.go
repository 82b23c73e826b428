// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
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
}

func (r *refusal) Error() string { return r.why.Error() }
func (r *refusal) Unwrap() error { return r.next }

// answered sorts the error of a request to make a pod: refused by the API server or by admission, and if so, whether it is
// certain that no pod was made.
func answered(err error) (refused, certain bool) {
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
		sp.Status.Phase = corev1.PodPending
		apimeta.SetStatusCondition(&sp.Status.Conditions, metav1.Condition{
			Type: offv1beta1.ShadowPodAccepted, Status: metav1.ConditionFalse, Reason: no.reason, Message: shorten(no.Error()),
		})
		s.refused.Add(sp)
	case err == nil:
		if apimeta.RemoveStatusCondition(&sp.Status.Conditions, offv1beta1.ShadowPodAccepted) && len(sp.Status.Conditions) == 0 {
			sp.Status.Conditions = nil
		}
		s.refused.Drop(client.ObjectKeyFromObject(sp))
		return nil
	case !kube.Judge(err).Failed() && !kube.Judge(err).Invalid():
		return nil
	}
	return []kube.Event{{Type: corev1.EventTypeWarning, Reason: failureReason(err), Message: err.Error()}}
}

func shorten(text string) string {
	if len(text) <= maxMessage {
		return text
	}
	return strings.ToValidUTF8(text[:maxMessage], "") + "…"
}

// refusedPods are the ShadowPods whose pods are refused, by namespace.
type refusedPods struct {
	mu sync.Mutex
	in map[string]map[string]time.Time
}

// Add remembers a ShadowPod.
func (r *refusedPods) Add(sp *offv1beta1.ShadowPod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.in == nil {
		r.in = map[string]map[string]time.Time{}
	}
	if r.in[sp.Namespace] == nil {
		r.in[sp.Namespace] = map[string]time.Time{}
	}
	r.in[sp.Namespace][sp.Name] = sp.CreationTimestamp.Time
}

// Drop forgets one.
func (r *refusedPods) Drop(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if delete(r.in[key.Namespace], key.Name); len(r.in[key.Namespace]) == 0 {
		delete(r.in, key.Namespace)
	}
}

// In lists those of a namespace.
func (r *refusedPods) In(namespace string) []types.NamespacedName {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []types.NamespacedName
	for name := range r.in[namespace] {
		out = append(out, types.NamespacedName{Namespace: namespace, Name: name})
	}
	return out
}

// Oldest is the one of a namespace that was created first.
func (r *refusedPods) Oldest(namespace string) (types.NamespacedName, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	first := ""
	for name, created := range r.in[namespace] {
		if first == "" || created.Before(r.in[namespace][first]) || created.Equal(r.in[namespace][first]) && name < first {
			first = name
		}
	}
	return types.NamespacedName{Namespace: namespace, Name: first}, first != ""
}
