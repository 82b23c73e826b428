// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestEventRecorder(t *testing.T) {
	pod := func(uid types.UID) client.Object { return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid}} }
	a, b := Event{Reason: "A", Message: "a"}, Event{Reason: "B", Message: "b"}
	slow, slower := Event{Reason: "Pull", Message: "again in 10s", State: "image"}, Event{Reason: "Pull", Message: "again in 20s", State: "image"}
	for name, tc := range map[string]struct {
		record func(*EventRecorder)
		want   []string
	}{
		"persists":      {func(r *EventRecorder) { r.Record(pod("1"), a); r.Record(pod("1"), a) }, []string{"1 a"}},
		"grows":         {func(r *EventRecorder) { r.Record(pod("1"), a); r.Record(pod("1"), b, a) }, []string{"1 a", "1 b"}},
		"ends":          {func(r *EventRecorder) { r.Record(pod("1"), a); r.Record(pod("1")); r.Record(pod("1"), a) }, []string{"1 a", "1 a"}},
		"is replaced":   {func(r *EventRecorder) { r.Record(pod("1"), a); r.Record(pod("1"), b); r.Record(pod("1"), a) }, []string{"1 a", "1 b", "1 a"}},
		"other type":    {func(r *EventRecorder) { r.Record(pod("1"), a); c := a; c.Type = "Warning"; r.Record(pod("1"), c) }, []string{"1 a", "1 a"}},
		"other message": {func(r *EventRecorder) { r.Record(pod("1"), a); r.Record(pod("1"), Event{Reason: "A", Message: "c"}) }, []string{"1 a", "1 c"}},
		"same state":    {func(r *EventRecorder) { r.Record(pod("1"), slow); r.Record(pod("1"), slower) }, []string{"1 again in 10s"}},
		"other object":  {func(r *EventRecorder) { r.Record(pod("1"), a); r.Record(pod("2"), a) }, []string{"1 a", "2 a"}},
		"same subject":  {func(r *EventRecorder) { r.RecordAbout("owner", pod("1"), a); r.RecordAbout("owner", pod("2"), a) }, []string{"1 a"}},
		"forgotten": {func(r *EventRecorder) {
			r.Record(pod("1"), a)
			if !r.Forget(types.UID("1")) || r.Forget(types.UID("1")) {
				t.Error("Forget reports a record that is none, or does not report one")
			}
			r.Record(pod("1"), a)
		}, []string{"1 a", "1 a"}},
		"after a restart": {func(r *EventRecorder) { r.Restore(types.UID("1"), []Event{a}); r.Record(pod("1"), a, b) }, []string{"1 b"}},
		"restored too late": {func(r *EventRecorder) {
			r.Record(pod("1"), a)
			r.Restore(types.UID("1"), []Event{b})
			r.Record(pod("1"), a, b)
		}, []string{"1 a", "1 b"}},
		"restored from nothing": {func(r *EventRecorder) { r.Restore(types.UID("1"), nil); r.Record(pod("1"), a) }, []string{"1 a"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			tc.record(NewEventRecorder(func(obj client.Object, e Event) { got = append(got, string(obj.GetUID())+" "+e.Message) }))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("bounded", func(t *testing.T) {
		emitted := 0
		r := NewEventRecorder(func(client.Object, Event) { emitted++ })
		for i := range 2 * maxRecorded {
			r.Record(pod("busy"), a)
			r.Record(pod(types.UID(fmt.Sprint(i))), a)
		}
		if r.last.Len() > maxRecorded || emitted != 2*maxRecorded+1 {
			t.Errorf("%d subjects are remembered, %d events were emitted", r.last.Len(), emitted)
		}
	})
}
