// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"liqo.io/liqo/internal/policy"
	"liqo.io/liqo/internal/testkit/hostile"
)

// A field that a newer Kubernetes adds to events fails here until there is a rule for it.
func TestHostileEvent(t *testing.T) {
	var said corev1.Event
	hostile.Fill(&said, hostile.Fields{"Event.Type": {"Warning"}, "Event.ReportingController": {"example.org/kubelet"}})
	said.FirstTimestamp, said.EventTime, said.Series.LastObservedTime = metav1.Now(), metav1.NowMicro(), metav1.NowMicro()
	r := &returning{
		local: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "pod", UID: "local"}}, kind: "Pod", apiVersion: "v1",
		remote: []types.UID{said.InvolvedObject.UID}, labels: map[string]string{"a": "b"}, now: time.Now(),
	}
	got := r.each(&said)
	got.ObjectMeta = metav1.ObjectMeta{} // ours: its name is checked by the API server
	line := hostile.Short(policy.MaxForeignReason)
	checks := map[string]hostile.Rule{
		"Event.Reason": line, "Event.Message": hostile.Short(maxEventText), "Event.FirstTimestamp": hostile.Moment, "Event.LastTimestamp": hostile.Moment,
		"Event.Count": hostile.Between(0, 1<<31), "Event.Type": hostile.OneOf("Warning", "Normal"), "Event.EventTime": hostile.Moment, "Event.Action": line,
		"Event.ReportingController": hostile.OneOf("example.org/kubelet"), "Event.ReportingInstance": line,
		"EventSource.Component": hostile.Short(policy.MaxForeignReason + len(" (remote)")), "EventSource.Host": hostile.Short(policy.MaxForeignName),
		"EventSeries.Count": hostile.Between(0, 1<<31), "EventSeries.LastObservedTime": hostile.Moment,
		"ObjectReference.Kind": hostile.OneOf("Pod"), "ObjectReference.Namespace": hostile.OneOf("web"), "ObjectReference.Name": hostile.OneOf("pod"),
		"ObjectReference.UID": hostile.OneOf("local"), "ObjectReference.APIVersion": hostile.OneOf("v1"), "ObjectReference.ResourceVersion": hostile.Never,
		"ObjectReference.FieldPath": hostile.Short(policy.MaxForeignName),
		// Of another package.
		"ObjectMeta.Name": hostile.Never, "ObjectMeta.GenerateName": hostile.Never, "ObjectMeta.Namespace": hostile.Never, "ObjectMeta.SelfLink": hostile.Never,
		"ObjectMeta.UID": hostile.Never, "ObjectMeta.ResourceVersion": hostile.Never, "ObjectMeta.Generation": hostile.Never, "ObjectMeta.CreationTimestamp": hostile.Never,
		"ObjectMeta.DeletionTimestamp": hostile.Never, "ObjectMeta.DeletionGracePeriodSeconds": hostile.Never, "ObjectMeta.Labels": hostile.Never,
		"ObjectMeta.Annotations": hostile.Never, "ObjectMeta.OwnerReferences": hostile.Never, "ObjectMeta.Finalizers": hostile.Never, "ObjectMeta.ManagedFields": hostile.Never,
		"OwnerReference.APIVersion": hostile.Never, "OwnerReference.Kind": hostile.Never, "OwnerReference.Name": hostile.Never, "OwnerReference.UID": hostile.Never,
		"OwnerReference.Controller": hostile.Never, "OwnerReference.BlockOwnerDeletion": hostile.Never,
		"ManagedFieldsEntry.Manager": hostile.Never, "ManagedFieldsEntry.Operation": hostile.Never, "ManagedFieldsEntry.APIVersion": hostile.Never,
		"ManagedFieldsEntry.Time": hostile.Never, "ManagedFieldsEntry.FieldsType": hostile.Never, "ManagedFieldsEntry.FieldsV1": hostile.Never,
		"ManagedFieldsEntry.Subresource": hostile.Never, "TypeMeta.Kind": hostile.Never, "TypeMeta.APIVersion": hostile.Never, "FieldsV1.Raw": hostile.Never,
	}
	hostile.Check(t, *got, checks)
	together := (&returning{
		local: r.local, kind: "Pod", remote: r.remote, now: r.now,
		events: []*corev1.Event{{Type: corev1.EventTypeNormal, Reason: "Pulled", Message: hostile.Text, InvolvedObject: corev1.ObjectReference{UID: said.InvolvedObject.UID}, LastTimestamp: metav1.Now()}},
	}).together(nil, nil, corev1.EventSource{Component: podComponent})
	if got := together.Message; len(got) > maxEventText || got != policy.CleanText(got, maxEventText) {
		t.Errorf("%d bytes are said together", len(got))
	}
}
