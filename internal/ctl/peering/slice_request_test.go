// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package peering

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/ctl/ctltest"
	"liqo.io/liqo/internal/ctl/ui"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/testkit"
)

func amountsOf(cpu, memory string) corev1.ResourceList {
	all := corev1.ResourceList{}
	for name, text := range map[corev1.ResourceName]string{corev1.ResourceCPU: cpu, corev1.ResourceMemory: memory} {
		if text != "" {
			all[name] = resource.MustParse(text)
		}
	}
	return all
}

func TestSliceNotGranted(t *testing.T) {
	for _, tc := range []struct {
		asked, granted corev1.ResourceList
		want           string
	}{
		{nil, nil, ""},
		{nil, amountsOf("4", ""), ""},
		{amountsOf("4", "1Gi"), amountsOf("4", "2Gi"), ""},
		{amountsOf("0", ""), nil, ""},
		{amountsOf("1000", "1Gi"), amountsOf("4", "1Gi"), "cpu 4 of 1k"},
		{amountsOf("2", "1Gi"), nil, "cpu 0 of 2, memory 0 of 1Gi"},
	} {
		slice := &authv1beta1.ResourceSlice{Spec: authv1beta1.ResourceSliceSpec{Resources: tc.asked}, Status: authv1beta1.ResourceSliceStatus{Resources: tc.granted}}
		if got := notGranted(slice); got != tc.want {
			t.Errorf("of %v with %v: %q, not %q", tc.asked, tc.granted, got, tc.want)
		}
	}
}

// The provider accepted what was asked for before. What is asked for now it grants once it is waited for.
func TestSliceEarlierResources(t *testing.T) {
	c := testkit.Cluster(t)
	s, output := ctltest.NewBareCluster(t, c, "local", "rome")
	slice := newResourceSlice(client.ObjectKey{Namespace: s.Namespace, Name: "asks-for-more"}, "milan-of-more", "", amountsOf("1000", ""), false)
	testkit.Create(t, c.Client, slice)
	grants := func(cpu string) {
		testkit.UpdateStatus(t, c.Client, slice.DeepCopy(), func(slice *authv1beta1.ResourceSlice) {
			slice.Status.Resources = amountsOf(cpu, "")
			slice.Status.Conditions = []authv1beta1.ResourceSliceCondition{{
				Type: ofResources, Status: authv1beta1.ResourceSliceConditionAccepted, Reason: "ResourceSliceResourcesAccepted", LastTransitionTime: metav1.Now(),
			}}
		})
	}
	grants("4")
	var waited atomic.Bool
	cluster := testkit.Troubled(t, c, func(r *http.Request) (*http.Response, error) {
		if strings.HasSuffix(r.URL.Path, "/foreignclusters/milan-of-more") && !waited.Swap(true) {
			grants("1000")
		}
		return nil, nil
	})
	if err := (&sliceRequest{kube: cluster, slice: slice, tell: s}).checkResources(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, want := output.String(), " INFO   (local) ResourceSlice resources: Accepted\n"; got != want || !waited.Load() {
		t.Errorf("it said %q; it waited: %t", got, waited.Load())
	}
}

func denied(reason string) []authv1beta1.ResourceSliceCondition {
	return []authv1beta1.ResourceSliceCondition{{
		Type: ofAuthentication, Status: authv1beta1.ResourceSliceConditionDenied, Reason: "Refused", Message: reason, LastTransitionTime: metav1.Now(),
	}}
}

func TestSliceDenied(t *testing.T) {
	c := testkit.Cluster(t)
	s, output := ctltest.NewBareCluster(t, c, "local", "rome")
	slice := newResourceSlice(client.ObjectKey{Namespace: s.Namespace, Name: "is-denied"}, "milan-denies", "", nil, false)
	var once atomic.Bool
	cluster := testkit.Troubled(t, c, func(r *http.Request) (*http.Response, error) {
		if testkit.IsWatch(r) && strings.HasSuffix(r.URL.Path, "/resourceslices") && !once.Swap(true) {
			testkit.UpdateStatus(t, c.Client, slice.DeepCopy(), func(slice *authv1beta1.ResourceSlice) { slice.Status.Conditions = denied("it has no room") })
		}
		return nil, nil
	})
	err := (&sliceRequest{kube: cluster, slice: slice, tell: s}).runSteps(t.Context())
	want := "the provider denies the ResourceSlice " + s.Namespace + "/is-denied: Refused: it has no room"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s\n%s", err, want, output)
	}
}

// calm is a cluster with one slice, where nothing happens.
type calm struct {
	client.WithWatch
	slice *authv1beta1.ResourceSlice
}

func (c calm) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	slice, is := obj.(*authv1beta1.ResourceSlice)
	if !is {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "foreignclusters"}, key.Name)
	}
	c.slice.DeepCopyInto(slice)
	return nil
}

func (calm) Scheme() *runtime.Scheme { return kube.Scheme }

func (calm) Watch(context.Context, client.ObjectList, ...client.ListOption) (watch.Interface, error) {
	return watch.NewFake(), nil
}

// A refusal of before may be of circumstances that changed, which the provider has yet to see.
func TestSliceEarlierDenial(t *testing.T) {
	for name, tc := range map[string]struct {
		earlier []authv1beta1.ResourceSliceCondition
		want    time.Duration
	}{
		"of before": {denied("no room"), grace},
		"another":   {denied("no right"), 0},
		"the first": {nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				slice := newResourceSlice(client.ObjectKey{Namespace: "liqo-tenant-milan", Name: "rome"}, "milan", "", nil, false)
				slice.Status.Conditions = denied("no room")
				if len(tc.earlier) > 0 {
					tc.earlier[0].LastTransitionTime = slice.Status.Conditions[0].LastTransitionTime
				}
				r := &sliceRequest{kube: calm{slice: slice}, slice: slice.DeepCopy(), tell: ui.NewPrinter(strings.NewReader(""), io.Discard, io.Discard), earlier: tc.earlier}
				start := time.Now()
				if err := r.checkAnswer(t.Context(), ofAuthentication); err != nil {
					t.Fatal(err)
				}
				if got := time.Since(start); got != tc.want {
					t.Errorf("it counted after %s, not %s", got, tc.want)
				}
			})
		})
	}
}
