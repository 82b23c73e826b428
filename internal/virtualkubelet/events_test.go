// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package virtualkubelet

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"liqo.io/liqo/internal/kube"
)

func TestEventLogOfOwner(t *testing.T) {
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

// What only the user can mend is told, also while it is tried again and again, and again when it comes back.
func TestEventLogFailures(t *testing.T) {
	failure, wait := errors.New("out of luck"), kube.Wait(time.Second, "soon")
	for name, tc := range map[string]struct {
		err  error
		want string
	}{
		"a failure":                            {failure, "Warning FailedReflection Error reflecting object: out of luck"},
		"what the user can mend":               {kube.Invalid(reasonFailed, failure), "Warning FailedReflection Error reflecting object: out of luck"},
		"that, and nobody tells when":          {kube.Again(time.Second, kube.Invalid(reasonFailed, failure)), "Warning FailedReflection Error reflecting object: out of luck"},
		"that, as the cause of something":      {fmt.Errorf("sending: %w", kube.Again(time.Second, kube.Invalid(reasonFailed, failure))), "Warning FailedReflection Error reflecting object: sending: out of luck"},
		"that, with a reason of its own":       {kube.Again(time.Second, kube.Invalid(reasonNoPlace, failure)), "Warning TokenSecretNameTaken out of luck"},
		"a failure beside a wait":              {errors.Join(wait, failure), "Warning FailedReflection Error reflecting object: out of luck"},
		"what the user can mend beside a wait": {errors.Join(wait, kube.Again(time.Minute, kube.Invalid(reasonNoPlace, failure))), "Warning TokenSecretNameTaken out of luck"},
		"a wait is none":                       {wait, ""},
		"what waits for an event is none, too": {kube.Wait(0, "a watch"), ""},
	} {
		recorder := record.NewFakeRecorder(10)
		log := newEventLog(recorder)
		obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{UID: "1"}}
		for _, err := range []error{tc.err, tc.err, wait, tc.err} {
			log.recordFailure(obj, err)
		}
		close(recorder.Events)
		var got, want []string
		for e := range recorder.Events {
			got = append(got, e)
		}
		if tc.want != "" {
			want = []string{tc.want, tc.want}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}
