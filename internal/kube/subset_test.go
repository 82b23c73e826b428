// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"fmt"
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/google/go-cmp/cmp"

	"liqo.io/liqo/internal/kube"
)

func TestSubsetOf(t *testing.T) {
	for name, test := range map[string]struct {
		want, have string
		subset     bool
	}{
		"fields of others do not matter":                {`{a: 1}`, `{a: 1, b: 2}`, true},
		"a missing field matters":                       {`{a: 1, b: 2}`, `{a: 1}`, false},
		"another value matters":                         {`{a: x}`, `{a: y}`, false},
		"numbers are compared by value":                 {`{a: 1}`, `{a: 1.0}`, true},
		"quantities are compared by value":              {`{cpu: 1000m}`, `{cpu: "1"}`, true},
		"a quantity may be written as a number":         {`{cpu: 20}`, `{cpu: "20"}`, true},
		"other quantities differ":                       {`{cpu: 1000m}`, `{cpu: "2"}`, false},
		"what only looks like a quantity takes no time": {`{a: "1e999999999"}`, `{a: "1e-999999999"}`, false},
		"true is no string":                             {`{a: true}`, `{a: "true"}`, false},
		"an empty map is not stored":                    {`{a: {}}`, `{}`, true},
		"an empty list is not stored":                   {`{a: []}`, `{}`, true},
		"an empty string is stored":                     {`{a: ""}`, `{}`, false},
		"a list is compared in order":                   {`{args: [a, b]}`, `{args: [b, a]}`, false},
		"one entry too many in a list matters":          {`{args: [a]}`, `{args: [a, b]}`, false},
		"one subject too many matters":                  {`{subjects: [{name: a}]}`, `{subjects: [{name: a}, {name: b}]}`, false},
		"defaults inside entries do not matter":         {`{rules: [{verb: get}]}`, `{rules: [{verb: get, group: ""}]}`, true},
		"others may add containers":                     {`{containers: [{name: a, image: i}]}`, `{containers: [{name: s}, {name: a, image: i, pull: Always}]}`, true},
		"a changed container matters":                   {`{containers: [{name: a, image: i}]}`, `{containers: [{name: a, image: j}]}`, false},
		"a removed container matters":                   {`{containers: [{name: a}]}`, `{containers: []}`, false},
		"others may add finalizers":                     {`{finalizers: [a]}`, `{finalizers: [b, a]}`, true},
		"a removed finalizer matters":                   {`{finalizers: [a]}`, `{finalizers: [b]}`, false},
		"owners are told apart by UID":                  {`{ownerReferences: [{uid: "1", name: a}]}`, `{ownerReferences: [{uid: "2", name: a}]}`, false},
		"a map where a list was differs":                {`{a: [1]}`, `{a: {b: 1}}`, false},
		"the order of ports with names does not count":  {`{ports: [{name: b, port: 2}]}`, `{ports: [{name: a, port: 1}, {name: b, port: 2}]}`, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := kube.SubsetOf(parse(t, test.want), parse(t, test.have)); got != test.subset {
				t.Errorf("%s in %s: got %t, want %t", test.want, test.have, got, test.subset)
			}
		})
	}
}

func parse(t *testing.T, text string) map[string]any {
	t.Helper()
	out := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestSubsetOfForeignFields(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawMap(t, 3)
		got := maps.Clone(want)
		got["added"] = "by somebody"
		if !kube.SubsetOf(want, got) {
			t.Fatalf("%v is not in itself with a field more", want)
		}
		if kube.SubsetOf(got, want) {
			t.Fatalf("a field that is missing in %v was not noticed", want)
		}
	})
}

func drawMap(t *rapid.T, depth int) map[string]any {
	out := map[string]any{}
	for i := range rapid.IntRange(0, 4).Draw(t, "size") {
		out[fmt.Sprint("k", i)] = drawValue(t, depth)
	}
	return out
}

func drawValue(t *rapid.T, depth int) any {
	choices := 4
	if depth == 0 {
		choices = 2
	}
	switch rapid.IntRange(0, choices-1).Draw(t, "sort") {
	case 0:
		return rapid.StringMatching(`[a-z0-9]{1,4}`).Draw(t, "text")
	case 1:
		return rapid.Int64().Draw(t, "number")
	case 2:
		return drawMap(t, depth-1)
	default:
		out := []any{}
		for range rapid.IntRange(0, 3).Draw(t, "length") {
			out = append(out, drawValue(t, depth-1))
		}
		return out
	}
}

func TestToMap(t *testing.T) {
	typed := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Name: "p", UID: "u", ResourceVersion: "7", Generation: 3, CreationTimestamp: metav1.Now(),
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name:      "c",
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("1000m")}},
		}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	loose := &unstructured.Unstructured{Object: parse(t, `
apiVersion: v1
kind: Pod
metadata: {name: p, creationTimestamp: null}
spec: {containers: [{name: c, resources: {requests: {cpu: "1"}}}]}
status: {phase: Pending}
`)}
	remaining, err := kube.ToMap(typed)
	if err != nil {
		t.Fatal(err)
	}
	right, err := kube.ToMap(loose)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(right, remaining); diff != "" {
		t.Error(diff)
	}
}
