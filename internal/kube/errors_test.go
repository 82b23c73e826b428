// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"liqo.io/liqo/internal/kube"
)

func TestClassify(t *testing.T) {
	resource := schema.GroupResource{Resource: "pods"}
	fieldConflict := apierrors.NewApplyConflict([]metav1.StatusCause{{Type: metav1.CauseTypeFieldManagerConflict}}, "conflict")
	terminating := apierrors.NewForbidden(resource, "p", errors.New("namespace is going away"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	plain := errors.New("no")
	wait := kube.Wait(time.Second, "soon")

	for name, test := range map[string]struct {
		err    error
		failed bool
		bad    bool
		after  time.Duration
	}{
		"no error is done":                             {err: nil},
		"a wait comes back after its time":             {err: wait, after: time.Second},
		"a wrapped wait is a wait":                     {err: fmt.Errorf("reading: %w", wait), after: time.Second},
		"a wait without time is left to watches":       {err: kube.Wait(0, "a watch"), after: 0},
		"invalid is not retried":                       {err: kube.Invalid("Bad", plain), bad: true},
		"invalid stays so with joined causes":          {err: kube.Invalid("Bad", errors.Join(plain, plain)), bad: true},
		"a conflict is quiet":                          {err: apierrors.NewConflict(resource, "p", plain), after: 200 * time.Millisecond},
		"already existing is quiet":                    {err: fmt.Errorf("making: %w", apierrors.NewAlreadyExists(resource, "p")), after: 200 * time.Millisecond},
		"a field conflict is a failure":                {err: fieldConflict, failed: true},
		"a namespace that is going away is waited for": {err: terminating, after: 2 * time.Second},
		"forbidden is a failure":                       {err: apierrors.NewForbidden(resource, "p", plain), failed: true},
		"a failure beside a wait is a failure":         {err: errors.Join(wait, plain), failed: true},
		"of two waits the earlier counts":              {err: errors.Join(kube.Wait(time.Minute, "late"), wait), after: time.Second},
		"what nobody tells the end of comes back":      {err: kube.Again(time.Second, kube.Invalid("Bad", plain)), bad: true, after: time.Second},
		"it does beside what is not retried":           {err: errors.Join(kube.Invalid("Bad", plain), kube.Again(time.Second, kube.Invalid("Bad", plain))), bad: true, after: time.Second},
		"it does where it is no user's to mend":        {err: kube.Again(time.Second, kube.Wait(0, "a watch")), after: time.Second},
		"a failure comes back with back-off":           {err: kube.Again(time.Second, plain), failed: true},
		"a wait beside invalid comes back":             {err: errors.Join(kube.Invalid("Bad", plain), wait), bad: true, after: time.Second},
		"invalid beside a wait is told, too":           {err: errors.Join(wait, kube.Invalid("Bad", plain)), bad: true, after: time.Second},
		"the earlier of both counts":                   {err: errors.Join(wait, kube.Again(time.Minute, kube.Invalid("Bad", plain))), bad: true, after: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			got := kube.Classify(test.err)
			if got.Failed() != test.failed || got.Invalid() != test.bad || got.After != test.after {
				t.Errorf("got failed %t, invalid %t, after %s; want %t, %t, %s",
					got.Failed(), got.Invalid(), got.After, test.failed, test.bad, test.after)
			}
		})
	}
}

func TestReasonsOfWrappedErrors(t *testing.T) {
	err := fmt.Errorf("checking: %w", kube.Invalid("WrongKey", errors.New("too short")))
	if reason, ok := kube.InvalidReason(err); !ok || reason != "WrongKey" {
		t.Errorf("InvalidReason: got %q, %t", reason, ok)
	}
	if kube.IsWait(err) {
		t.Error("an invalid error is taken for a wait")
	}
	if reason, after, ok := kube.WaitReason(fmt.Errorf("x: %w", kube.Wait(time.Hour, "rain"))); !ok || reason != "rain" || after != time.Hour {
		t.Errorf("WaitReason: got %q, %s, %t", reason, after, ok)
	}
}

func TestProblemWithoutWaits(t *testing.T) {
	plain, wait := errors.New("no"), kube.Wait(time.Second, "soon")
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"a failure":                    {plain, "no"},
		"a wait alone":                 {wait, "waiting: soon"},
		"waits alone":                  {errors.Join(wait, wait), "waiting: soon\nwaiting: soon"},
		"a failure beside a wait":      {errors.Join(wait, plain), "no"},
		"two failures beside a wait":   {errors.Join(plain, wait, plain), "no\nno"},
		"what is joined twice":         {errors.Join(errors.Join(wait, plain), wait), "no"},
		"beside a failure":             {errors.Join(errors.Join(wait, plain), plain), "no\nno"},
		"what has words of its own":    {fmt.Errorf("both %w and %w", wait, plain), "both waiting: soon and no"},
		"the user's, again and again":  {errors.Join(wait, kube.Again(time.Second, kube.Invalid("Bad", plain))), "no"},
		"that alone":                   {kube.Again(time.Second, kube.Invalid("Bad", plain)), "no"},
		"what was said about the rest": {fmt.Errorf("writing: %w", errors.Join(wait, plain)), "writing: waiting: soon\nno"},
	} {
		if got := kube.Problem(test.err).Error(); got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}
