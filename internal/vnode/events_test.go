// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package vnode

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
)

func TestWhatIsTrueOfAllPodsOfAnOwnerIsToldOnce(t *testing.T) {
	recorder := record.NewFakeRecorder(10)
	log := newEventLog(recorder)
	for _, pod := range []struct{ uid, owner types.UID }{{"1", "set"}, {"2", "set"}, {"3", "other set"}, {"4", ""}, {"5", ""}} {
		obj := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: pod.uid}}
		if pod.owner != "" {
			obj.OwnerReferences = []metav1.OwnerReference{{UID: pod.owner, Controller: new(true)}}
		}
		log.ofOwner(obj, corev1.EventTypeNormal, reasonNoAPIServer, "so it is")
	}
	if got := len(recorder.Events); got != 4 {
		t.Errorf("%d events, want 4: one for each owner, one for each pod without", got)
	}
}
