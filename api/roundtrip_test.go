// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package api_test compares the Go types, the CRDs made from them and what a real API server does with both.
package api_test

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	yamlutil "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// crds are the CRDs of the chart by plural.
func crds(t testing.TB) map[string]*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	files, err := filepath.Glob("../deploy/chart/crds/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no CRDs", err)
	}
	out := map[string]*apiextensionsv1.CustomResourceDefinition{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(data, crd); err != nil {
			t.Fatal(err)
		}
		out[crd.Spec.Names.Plural] = crd
	}
	return out
}

// objects are those of testdata/<plural>.yaml: together they have every field of the kind.
func objects(t testing.TB, plural string) []*unstructured.Unstructured {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", plural+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var out []*unstructured.Unstructured
	decoder := yamlutil.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	for {
		obj := &unstructured.Unstructured{}
		switch err := decoder.Decode(obj); {
		case errors.Is(err, io.EOF):
			return out
		case err != nil:
			t.Fatal(err)
		case len(obj.Object) > 0:
			out = append(out, obj)
		}
	}
}

func TestRoundTripAPIServer(t *testing.T) {
	c := testkit.Cluster(t)
	for plural, crd := range crds(t) {
		t.Run(plural, func(t *testing.T) {
			namespace := ""
			if crd.Spec.Scope == apiextensionsv1.NamespaceScoped {
				namespace = testkit.Namespace(t, c, "roundtrip", nil)
			}
			for _, want := range objects(t, plural) {
				want.SetNamespace(namespace)
				got := want.DeepCopy()
				if err := c.Client.Create(t.Context(), got, client.FieldValidation("Strict")); err != nil {
					t.Fatal(err)
				}
				if status, ok := want.Object["status"]; ok {
					got.Object["status"] = runtime.DeepCopyJSONValue(status)
					if err := c.Client.Status().Update(t.Context(), got, &client.SubResourceUpdateOptions{UpdateOptions: client.UpdateOptions{FieldValidation: "Strict"}}); err != nil {
						t.Fatal(err)
					}
				}
				if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(want), got); err != nil {
					t.Fatal(err)
				}
				for _, part := range []string{"spec", "status"} {
					if diff := cmp.Diff(want.Object[part], got.Object[part]); diff != "" {
						t.Errorf("%s of %s:\n%s", part, want.GetName(), diff)
					}
				}
				if err := c.Client.Delete(t.Context(), got); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func TestRoundTripGoTypes(t *testing.T) {
	for plural := range crds(t) {
		t.Run(plural, func(t *testing.T) {
			for _, want := range objects(t, plural) {
				typed, err := kube.Scheme.New(want.GroupVersionKind())
				if err != nil {
					t.Fatal(err)
				}
				if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(want.Object, typed, true); err != nil {
					t.Fatal(err)
				}
				got, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed.DeepCopyObject())
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want.Object, got); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
}

// An empty object of a Go type must not be refused for what its author never said.
func TestZeroValues(t *testing.T) {
	for plural, crd := range crds(t) {
		typed, err := kube.Scheme.New(objects(t, plural)[0].GroupVersionKind())
		if err != nil {
			t.Fatal(err)
		}
		got, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
		if err != nil {
			t.Fatal(err)
		}
		required := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Required
		for key := range got {
			if key != "metadata" && !slices.Contains(required, key) {
				t.Errorf("an empty %s sends %s: %v", crd.Spec.Names.Kind, key, got[key])
			}
		}
	}
}

// The objects of testdata together have every field of the schema.
func TestMaximalObjects(t *testing.T) {
	for plural, crd := range crds(t) {
		seen := map[string]bool{}
		for _, obj := range objects(t, plural) {
			note("", obj.Object, seen)
		}
		var missing []string
		root := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
		for _, part := range []string{"spec", "status"} {
			if s, ok := root.Properties[part]; ok {
				missing = append(missing, unseen("."+part, s, seen)...)
			}
		}
		if len(missing) > 0 {
			t.Errorf("testdata/%s.yaml misses %s", plural, strings.Join(missing, " "))
		}
	}
}

// note collects the paths of a value; items of lists and values of maps share one.
func note(path string, v any, seen map[string]bool) {
	seen[path] = true
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			note(path+"."+key, value, seen)
			note(path+"[]", value, seen)
		}
	case []any:
		for _, value := range v {
			note(path+"[]", value, seen)
		}
	}
}

func unseen(path string, s apiextensionsv1.JSONSchemaProps, seen map[string]bool) []string {
	if !seen[path] {
		return []string{path}
	}
	if s.XPreserveUnknownFields != nil { // the schema knows a part of what is kept
		return nil
	}
	var out []string
	for _, key := range slices.Sorted(maps.Keys(s.Properties)) {
		out = append(out, unseen(path+"."+key, s.Properties[key], seen)...)
	}
	switch {
	case s.Items != nil:
		out = append(out, unseen(path+"[]", *s.Items.Schema, seen)...)
	case s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil:
		out = append(out, unseen(path+"[]", *s.AdditionalProperties.Schema, seen)...)
	}
	return out
}
