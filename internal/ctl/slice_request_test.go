// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
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

func TestWhatIsAskedForAndNotGrantedIsNamed(t *testing.T) {
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
		if got := ungranted(slice); got != tc.want {
			t.Errorf("of %v with %v: %q, not %q", tc.asked, tc.granted, got, tc.want)
		}
	}
}

// The provider accepted what was asked for before. What is asked for now it grants once it is waited for.
func TestAmountsThatWereAcceptedBeforeAreNoAnswer(t *testing.T) {
	c := testkit.Cluster(t)
	s, said := bareSide(t, c, "local", "rome")
	slice := newResourceSlice(client.ObjectKey{Namespace: s.namespace, Name: "asks-for-more"}, "milan-of-more", "", amountsOf("1000", ""), false)
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
	if err := (&request{kube: cluster, slice: slice, tell: s}).resources(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, want := said.String(), " INFO   (local) ResourceSlice resources: Accepted\n"; got != want || !waited.Load() {
		t.Errorf("it said %q; it waited: %t", got, waited.Load())
	}
}
