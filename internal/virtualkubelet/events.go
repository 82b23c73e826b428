// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/kube"
)

// The reasons of events.
const (
	reasonReflected    = "SuccessfulReflection"
	reasonFailed       = "FailedReflection"
	reasonDisabled     = "ReflectionDisabled"
	reasonDrained      = "TenantDrained"
	reasonNoAPIServer  = "APIServerSupportDisabled"
	reasonFieldsLost   = "FieldsNotReflected"
	reasonMeaningless  = "InvalidAnnotation"
	reasonAudienceKept = "TokenAudienceNotAllowed"
	reasonOmitted      = "DownwardAPITruncated"
	reasonNotExposed   = "EndpointsNotReflected"
	// failureText is the prefix of failure messages.
	failureText = "Error reflecting object: "
)

// eventLog records changes, not states: a state that lasts is not recorded again.
type eventLog struct{ *kube.EventRecorder }

// eventKey is the subject of an event: problems of an object with different reasons begin and end independently.
type eventKey struct {
	uid    types.UID
	reason string
}

func newEventLog(recorder record.EventRecorder) *eventLog {
	return &eventLog{kube.NewEventRecorder(func(obj client.Object, e kube.Event) {
		recorder.Event(obj, e.Type, e.Reason, kube.Note(e.Message))
	})}
}

func (l *eventLog) recordNormal(obj client.Object, reason, message string) {
	l.record(obj, corev1.EventTypeNormal, reason, message)
}

// ofOwner records a fact about all pods of one owner once: a thousand pods need no event each.
func (l *eventLog) ofOwner(obj client.Object, kind, reason, message string) {
	about := obj.GetUID()
	if owner := metav1.GetControllerOf(obj); owner != nil {
		about = owner.UID
	}
	l.recordAbout(obj, about, kind, reason, message)
}

// recordFailure records an error the first time it occurs, and forgets it when it is over. Errors that only the user can fix may have
// their own reason.
func (l *eventLog) recordFailure(obj client.Object, err error) {
	verdict := kube.Classify(err)
	if message, conflicts := kube.ConflictingWriter(err); conflicts {
		l.record(obj, corev1.EventTypeWarning, kube.ReasonConflictingWriter, message)
	} else if err == nil {
		l.forgetFailure(obj, kube.ReasonConflictingWriter)
	}
	switch {
	case verdict.Invalid() && verdict.Reason != reasonFailed:
		l.record(obj, corev1.EventTypeWarning, verdict.Reason, kube.Problem(err).Error())
	case verdict.Failed() || verdict.Invalid():
		l.record(obj, corev1.EventTypeWarning, reasonFailed, failureText+kube.Problem(err).Error())
	default:
		l.forgetFailure(obj, reasonFailed)
		l.forgetFailure(obj, reasonNoPlace)
	}
}

// forgetFailure forgets a recorded event of an object when the cause is over, and reports whether there was an event.
func (l *eventLog) forgetFailure(obj client.Object, reason string) bool {
	return l.Forget(eventKey{obj.GetUID(), reason})
}

func (l *eventLog) record(obj client.Object, kind, reason, message string) {
	l.recordAbout(obj, obj.GetUID(), kind, reason, message)
}

func (l *eventLog) recordAbout(obj client.Object, about types.UID, kind, reason, message string) {
	l.RecordAbout(eventKey{about, reason}, obj, kube.Event{Type: kind, Reason: reason, Message: message})
}
