// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/names"
	"liqo.io/liqo/internal/policy"
	"liqo.io/liqo/internal/virtualkubelet/translate"
)

// routine are the event reasons of every pod that starts. Each would be one more write for each pod: they are copied
// together, in one event.
var routine = []string{"Scheduled", "Pulling", "Pulled", "Created", "Started", "CreatedPod"}

// returningEvents is one local object with the provider's events about the object.
type returningEvents struct {
	local client.Object
	// kind and apiVersion are those of the local object.
	kind, apiVersion string
	// remote are the UIDs of the present remote counterparts; events of previous objects of the name are old.
	remote []types.UID
	// begun reports whether the remote object is in operation: few further events are expected.
	begun  bool
	events []*corev1.Event
	labels map[string]string
	now    time.Time
}

// maxEventAge is the age from which the provider's events are ignored: local copies have expired, or soon will.
const maxEventAge = 50 * time.Minute

// singleEvents returns the provider's events to copy individually, and commonEvents the events to merge: the newest, in order.
func (r *returningEvents) singleEvents() []*corev1.Event { return r.relevantEvents(false) }
func (r *returningEvents) commonEvents() []*corev1.Event { return r.relevantEvents(true) }

func (r *returningEvents) relevantEvents(together bool) []*corev1.Event {
	var out []*corev1.Event
	for _, e := range r.events {
		usual := r.kind == podKindName && e.Type == corev1.EventTypeNormal && slices.Contains(routine, e.Reason)
		if usual == together && r.isAboutObject(e) && r.now.Sub(eventTime(e)) < maxEventAge {
			out = append(out, e)
		}
	}
	slices.SortStableFunc(out, func(a, b *corev1.Event) int { return eventTime(a).Compare(eventTime(b)) })
	return out[max(0, len(out)-maxEvents):]
}

// isAboutObject reports whether an event is about a present counterpart of the object. Events made by hand often have no UID.
func (r *returningEvents) isAboutObject(e *corev1.Event) bool {
	return slices.Contains(r.remote, e.InvolvedObject.UID) || e.InvolvedObject.UID == "" && len(r.remote) > 0
}

// copyEvent returns the local copy of a provider's event.
func (r *returningEvents) copyEvent(e *corev1.Event) *corev1.Event {
	out := cleanEvent(e)
	out.ObjectMeta = r.eventMeta(e.Name)
	out.InvolvedObject = r.involvedReference()
	out.InvolvedObject.FieldPath = policy.CleanLine(e.InvolvedObject.FieldPath, policy.MaxForeignName)
	out.Source.Component += " (remote)"
	return out
}

// cleanEvent returns a sanitized event of the provider: the fields that the API accepts of new events, without the involved object.
func cleanEvent(reported *corev1.Event) *corev1.Event {
	line := func(text string) string { return policy.CleanLine(text, policy.MaxForeignReason) }
	out := &corev1.Event{
		Type: corev1.EventTypeNormal, Reason: line(reported.Reason), Message: policy.CleanText(reported.Message, maxEventText), Action: line(reported.Action),
		Source: corev1.EventSource{Component: line(reported.Source.Component), Host: policy.CleanLine(reported.Source.Host, policy.MaxForeignName)},
		Count:  max(reported.Count, 0), FirstTimestamp: translate.CleanTime(reported.FirstTimestamp), LastTimestamp: translate.CleanTime(reported.LastTimestamp),
		EventTime: metav1.MicroTime(translate.CleanTime(metav1.Time(reported.EventTime))), ReportingInstance: line(reported.ReportingInstance),
	}
	if reported.Type == corev1.EventTypeWarning {
		out.Type = reported.Type
	}
	if len(validation.IsQualifiedName(reported.ReportingController)) == 0 {
		out.ReportingController = reported.ReportingController
	}
	if s := reported.Series; s != nil {
		out.Series = &corev1.EventSeries{Count: max(s.Count, 0), LastObservedTime: metav1.MicroTime(translate.CleanTime(metav1.Time(s.LastObservedTime)))}
	}
	return out
}

func (r *returningEvents) eventMeta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: r.local.GetNamespace(), Labels: maps.Clone(r.labels)}
}

func (r *returningEvents) involvedReference() corev1.ObjectReference {
	return corev1.ObjectReference{
		Kind: r.kind, APIVersion: r.apiVersion, Namespace: r.local.GetNamespace(), Name: r.local.GetName(), UID: r.local.GetUID(),
	}
}

// maxEventText is the limit of the API for the text of an event.
const maxEventText = 1024

// separator separates the parts of a merged event.
const separator = "; "

// mergeEvents returns the one event of all routine events and of our own texts; nil for none. Each local object has
// one, under a name derived from the object. The text of current, nil for none, is kept: the provider's events may have
// expired.
func (r *returningEvents) mergeEvents(own []string, current *corev1.Event, source corev1.EventSource) *corev1.Event {
	events := r.commonEvents()
	if len(events) == 0 && len(own) == 0 {
		return nil
	}
	var parts []string
	first := r.now
	if current != nil {
		parts, first = append(parts, current.Message), current.FirstTimestamp.Time
	}
	parts = append(parts, own...)
	for _, e := range events {
		parts = append(parts, policy.CleanLine(e.Reason, policy.MaxForeignReason)+": "+policy.CleanText(e.Message, maxEventText))
	}
	return &corev1.Event{
		ObjectMeta: r.eventMeta(r.commonName()), InvolvedObject: r.involvedReference(),
		Type: corev1.EventTypeNormal, Reason: reasonReflected, Message: shortenText(joinParts(parts)),
		Count: 1, FirstTimestamp: metav1.NewTime(first), LastTimestamp: metav1.NewTime(r.now),
		Source: source, ReportingController: source.Component, ReportingInstance: source.Host,
	}
}

func (r *returningEvents) commonName() string { return "reflected-" + string(r.local.GetUID()) }

// joinParts joins the parts without duplicates.
func joinParts(parts []string) string {
	var out []string
	for part := range strings.SplitSeq(strings.Join(parts, separator), separator) {
		if part != "" && !slices.Contains(out, part) {
			out = append(out, part)
		}
	}
	return strings.Join(out, separator)
}

func shortenText(text string) string { return policy.CleanText(text, maxEventText) }

// eventTime returns when an event was last observed, by the first field that is set.
func eventTime(e *corev1.Event) time.Time {
	switch {
	case e.Series != nil && !e.Series.LastObservedTime.IsZero():
		return e.Series.LastObservedTime.Time
	case !e.LastTimestamp.IsZero():
		return e.LastTimestamp.Time
	case !e.EventTime.IsZero():
		return e.EventTime.Time
	}
	return e.CreationTimestamp.Time
}

// caughtUp reports whether a local event equals the provider's present event.
func caughtUp(current, want *corev1.Event) bool {
	return current.Count == want.Count && current.Message == want.Message && current.Type == want.Type &&
		current.LastTimestamp.Equal(&want.LastTimestamp) && sameSeries(current.Series, want.Series)
}

func sameSeries(a, b *corev1.EventSeries) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Count == b.Count && a.LastObservedTime.Equal(&b.LastObservedTime)
}

// involvedIn returns the item of an involved object: kind and name.
func involvedIn(kind, name string) string { return kind + "/" + name }

// shadowKind is the provider's kind of a pod's counterpart before the pod exists.
const shadowKind = "ShadowPod"

// podKindName is the kind of pods.
const podKindName = "Pod"

// eventLabels returns the labels that mark copied events and their owner: the virtual kubelet of the node, or, for
// objects shared by all nodes, the leader among the virtual kubelets.
func eventLabels(marks map[string]string, node string) map[string]string {
	out := maps.Clone(marks)
	if node != "" {
		out[names.OffloadingNodeName] = node
	}
	return out
}
