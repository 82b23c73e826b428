// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package resourceslice

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	_ "liqo.io/liqo/internal/testkit/repeatable"
	"pgregory.net/rapid"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/policy"
)

func cpu(n int64) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(n, resource.DecimalSI)}
}

// However late the cache is, what all slices are granted together stays below what the provider gives.
func TestCapsLateCache(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var g grantTotals
		caps := policy.SliceCaps{Tenant: cpu(10), Provider: cpu(15)}
		// cached is what the cache shows of each slice, and holds what it was granted last.
		var cached []authv1beta1.ResourceSlice
		holds := map[types.UID]corev1.ResourceList{}
		of := map[types.UID]string{}
		for i := range 6 {
			meta := metav1.ObjectMeta{Namespace: fmt.Sprint("tenant-", i%2), Name: fmt.Sprint(i), UID: types.UID(fmt.Sprint(i)), CreationTimestamp: metav1.Unix(int64(i), 0)}
			cached = append(cached, authv1beta1.ResourceSlice{ObjectMeta: meta})
			of[meta.UID] = meta.Namespace
		}
		t.Repeat(map[string]func(*rapid.T){
			"ask": func(t *rapid.T) {
				s := &cached[rapid.IntRange(0, len(cached)-1).Draw(t, "slice")]
				requested := cpu(rapid.Int64Range(0, 12).Draw(t, "cpus"))
				if g.Take(caps, s, requested, cached) == nil {
					holds[s.UID] = requested
				} else {
					delete(holds, s.UID)
				}
			},
			"show": func(t *rapid.T) {
				s := &cached[rapid.IntRange(0, len(cached)-1).Draw(t, "slice")]
				if list, ok := holds[s.UID]; ok {
					s.Status.Resources = list
					policy.ResourcesAccepted().Set(&s.Status, metav1.Unix(1, 0).Time)
				} else {
					policy.ResourcesDenied("no").Set(&s.Status, metav1.Unix(1, 0).Time)
				}
			},
			"": func(t *rapid.T) {
				all, each := corev1.ResourceList{}, map[string]corev1.ResourceList{"tenant-0": {}, "tenant-1": {}}
				for uid, list := range holds {
					policy.AddResources(all, list)
					policy.AddResources(each[of[uid]], list)
				}
				if short := policy.FindShortages(all, nil, caps.Provider); short != nil {
					t.Fatalf("all slices: %v", short)
				}
				for tenant, list := range each {
					if short := policy.FindShortages(list, nil, caps.Tenant); short != nil {
						t.Fatalf("%s: %v", tenant, short)
					}
				}
			},
		})
	})
}
