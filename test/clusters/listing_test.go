// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// An API server that was away has the Endpoints of a Service written anew, without when its pods changed last.
func TestTransientAnnotation(t *testing.T) {
	listed := func(annotations map[string]string) Listing {
		obj := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "dns", "uid": "1"}}}
		obj.SetAnnotations(annotations)
		l := Listing{}
		if err := l.add("endpoints", obj); err != nil {
			t.Fatal(err)
		}
		return l
	}
	const comes = "endpoints.kubernetes.io/last-change-trigger-time"
	for name, c := range map[string]struct {
		before, after map[string]string
		same          bool
	}{
		"goes":                  {map[string]string{comes: "now"}, nil, true},
		"goes, and another not": {map[string]string{comes: "now", "hers": "a"}, map[string]string{"hers": "a"}, true},
		"of somebody":           {map[string]string{"hers": "a"}, nil, false},
	} {
		if diff := Changes(listed(c.before), listed(c.after)); (diff == "") != c.same {
			t.Errorf("%s: the same is %v, but the changes are %q", name, c.same, diff)
		}
	}
}

func TestLeaseNames(t *testing.T) {
	lease := func(namespace, name, holder string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"namespace": namespace, "name": name}, "spec": map[string]any{"holderIdentity": holder},
		}}
	}
	before, after := Listing{}, Listing{}
	for l, obj := range map[*Listing]*unstructured.Unstructured{&before: lease("liqo", "turns", "one"), &after: lease("liqo", "turns", "another")} {
		if err := l.add("leases", obj); err != nil {
			t.Fatal(err)
		}
	}
	if diff := Changes(before, after); diff != "" {
		t.Errorf("one that changed hands is another one:\n%s", diff)
	}
	if err := after.add("leases", lease("liqo-tenant-milan", "left", "")); err != nil {
		t.Fatal(err)
	}
	remaining, err := after.Without("leases liqo-tenant-milan left")
	if Changes(before, after) == "" || Changes(before, remaining) != "" || err != nil {
		t.Error("one that is left is not seen, or not alone")
	}
}
