// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
)

func pods(n string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourcePods: resource.MustParse(n)}
}

func limited(hard, used corev1.ResourceList) *corev1.ResourceQuota {
	return &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: "twin", Name: "pods"},
		Status:     corev1.ResourceQuotaStatus{Hard: hard, Used: used},
	}
}

func TestLimitRetries(t *testing.T) {
	for what, tc := range map[string]struct {
		before, after *corev1.ResourceQuota
		want          bool
	}{
		"a limit is raised":      {limited(pods("1"), pods("1")), limited(pods("2"), pods("1")), true},
		"a limit is taken away":  {limited(pods("1"), pods("1")), limited(nil, nil), true},
		"less is used":           {limited(pods("2"), pods("2")), limited(pods("2"), pods("1")), true},
		"nothing changed":        {limited(pods("1"), pods("1")), limited(pods("1"), pods("1")), false},
		"more is used":           {limited(pods("2"), pods("1")), limited(pods("2"), pods("2")), false},
		"a limit is lowered":     {limited(pods("2"), pods("1")), limited(pods("1"), pods("1")), false},
		"a limit is added":       {limited(nil, nil), limited(pods("1"), pods("1")), false},
		"the quota is taken off": {limited(pods("1"), pods("1")), nil, true},
		"there is a quota":       {nil, limited(pods("1"), pods("1")), false},
	} {
		t.Run(what, func(t *testing.T) {
			woken := 0
			refused := &retryQueue{wake: func(types.NamespacedName) { woken++ }}
			refused.Add(&offv1beta1.ShadowPod{ObjectMeta: metav1.ObjectMeta{Namespace: "twin", Name: "web"}}, "room")
			refused.Add(&offv1beta1.ShadowPod{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "web"}}, "room")
			h := retryHandler(refused, quotaRetries)
			switch {
			case tc.before == nil:
				h.Create(t.Context(), event.TypedCreateEvent[*corev1.ResourceQuota]{Object: tc.after}, nil)
			case tc.after == nil:
				h.Delete(t.Context(), event.TypedDeleteEvent[*corev1.ResourceQuota]{Object: tc.before}, nil)
			default:
				h.Update(t.Context(), event.TypedUpdateEvent[*corev1.ResourceQuota]{ObjectOld: tc.before, ObjectNew: tc.after}, nil)
			}
			if (woken == 1) != tc.want {
				t.Errorf("%d are woken", woken)
			}
		})
	}
}

func TestLimitRangeRetries(t *testing.T) {
	s := &shadowPods{}
	before := &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: "twin", Name: "bounds", Labels: map[string]string{"a": "b"}}}
	before.Spec.Limits = []corev1.LimitRangeItem{{Type: corev1.LimitTypePod, Max: cpus("1")}}
	same, other := before.DeepCopy(), before.DeepCopy()
	same.Labels["a"] = "c"
	other.Spec.Limits[0].Max = cpus("2")
	s.templates.Learn(podTemplateKey{"twin", "web"}, &corev1.PodSpec{}, time.Now())
	if s.rangeRetries(before, same); s.templates.Get(podTemplateKey{"twin", "web"}, time.Now()) == nil {
		t.Error("what admission adds is forgotten for a label")
	}
	got := fmt.Sprint(s.rangeRetries(before, same) > 0, s.rangeRetries(before, other) > 0, s.rangeRetries(nil, before) > 0, s.rangeRetries(before, nil) > 0)
	if got != "false true true true" {
		t.Error(got)
	}
	if s.templates.Get(podTemplateKey{"twin", "web"}, time.Now()) != nil {
		t.Error("what admission added before counts")
	}
}

func TestLimitsCache(t *testing.T) {
	q := limited(pods("2"), pods("1"))
	q.Labels, q.Annotations, q.Spec.Hard = map[string]string{"a": "b"}, map[string]string{"a": "b"}, pods("2")
	if _, err := bareQuota(q); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(limited(pods("2"), pods("1")), q); diff != "" {
		t.Error(diff)
	}
}

// What is written of a pod that is refused again and again is written once.
func TestRefusalStableMessage(t *testing.T) {
	const quota = `pods "web" is forbidden: exceeded quota: small, requested: pods=1,requests.cpu=2, used: pods=%d,requests.cpu=%d, limited: pods=%d,requests.cpu=8`
	for what, tc := range map[string]struct {
		before, after string
		written       bool
	}{
		"others take more of a ResourceQuota":       {fmt.Sprintf(quota, 1, 2, 9), fmt.Sprintf(quota, 7, 5, 9), false},
		"a ResourceQuota is changed":                {fmt.Sprintf(quota, 1, 2, 9), fmt.Sprintf(quota, 1, 2, 10), true},
		"a webhook numbers its requests":            {`admission webhook "a.io" denied the request: id 3f-2a1`, `admission webhook "a.io" denied the request: id 3f-77b`, false},
		"a webhook is called from another port":     {`failed calling webhook "a.io": read tcp 10.0.0.1:4711->10.0.0.2:443: reset`, `failed calling webhook "a.io": read tcp 10.0.0.1:4712->10.0.0.2:443: reset`, false},
		"a webhook has another reason":              {`admission webhook "a.io" denied the request: no`, `admission webhook "a.io" denied the request: never`, true},
		"a limit of a LimitRange is another number": {"maximum cpu usage per Container is 1, but limit is 2", "maximum cpu usage per Container is 3, but limit is 4", true},
	} {
		t.Run(what, func(t *testing.T) {
			sp, s := asked("twin", "web", "grey", "user", "1"), &shadowPods{}
			refuse := func(text string) string {
				why := fmt.Errorf("creating the pod: %s", text)
				report := s.Report(sp, &podRejection{reason: offv1beta1.ReasonRefused, why: why, next: why, room: true})
				if len(report) != 1 || report[0].Message != sp.Status.Conditions[0].Message {
					t.Fatalf("told is %v, written is %v", report, sp.Status.Conditions)
				}
				return sp.Status.Conditions[0].Message
			}
			before := refuse(tc.before)
			if after := refuse(tc.after); (before != after) != tc.written {
				t.Errorf("written was %q and then %q", before, after)
			}
		})
	}
}
