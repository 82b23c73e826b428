// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package api_test

import (
	"context"
	"encoding/json"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
	_ "liqo.io/liqo/internal/testkit/repeatable"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/testkit"
)

// amounts returns the schema of every amount in the Go type of a kind, nil for one that has none, by path.
func amounts(t testing.TB, crd *apiextensionsv1.CustomResourceDefinition) map[string]*apiextensionsv1.JSONSchemaProps {
	t.Helper()
	version := crd.Spec.Versions[0]
	obj, err := kube.Scheme.New(schema.GroupVersionKind{Group: crd.Spec.Group, Version: version.Name, Kind: crd.Spec.Names.Kind})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]*apiextensionsv1.JSONSchemaProps{}
	collect(reflect.TypeOf(obj), version.Schema.OpenAPIV3Schema, crd.Spec.Names.Plural, out)
	return out
}

func collect(goType reflect.Type, s *apiextensionsv1.JSONSchemaProps, path string, out map[string]*apiextensionsv1.JSONSchemaProps) {
	if goType == reflect.TypeFor[resource.Quantity]() {
		out[path] = s
		return
	}
	if s == nil {
		s = &apiextensionsv1.JSONSchemaProps{}
	}
	switch goType.Kind() {
	case reflect.Pointer:
		collect(goType.Elem(), s, path, out)
	case reflect.Slice, reflect.Array:
		var item *apiextensionsv1.JSONSchemaProps
		if s.Items != nil {
			item = s.Items.Schema
		}
		collect(goType.Elem(), item, path+"[]", out)
	case reflect.Map:
		var value *apiextensionsv1.JSONSchemaProps
		if s.AdditionalProperties != nil {
			value = s.AdditionalProperties.Schema
		}
		collect(goType.Elem(), value, path+"[]", out)
	case reflect.Struct:
		for field := range goType.Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if name == "" || name == "-" {
				if field.Anonymous {
					collect(field.Type, s, path, out)
				}
				continue
			}
			var sub *apiextensionsv1.JSONSchemaProps
			if p, ok := s.Properties[name]; ok {
				sub = &p
			}
			collect(field.Type, sub, path+"."+name, out)
		}
	}
}

func TestAmountBounds(t *testing.T) {
	found := 0
	for _, crd := range crds(t) {
		for path, s := range amounts(t, crd) {
			found++
			switch {
			case s == nil || s.MaxLength == nil || strings.Count(s.Pattern, "{1,2}") != 1:
				t.Errorf("%s: any amount is taken", path)
			case s.Minimum == nil || *s.Minimum != 0 || regexp.MustCompile(s.Pattern).MatchString("-1"):
				t.Errorf("%s: a negative amount is taken", path)
			}
		}
	}
	if found < 40 {
		t.Errorf("only %d amounts were found", found)
	}
}

func amountPattern(t testing.TB) string {
	t.Helper()
	return amounts(t, crds(t)["quotas"])["quotas.spec.resources[]"].Pattern
}

// What cannot be parsed would fail the list of all objects of the kind.
func TestAcceptedAmountsParse(t *testing.T) {
	pattern := amountPattern(t)
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(pattern).Filter(func(s string) bool { return len(s) <= 64 }).Draw(t, "amount")
		q, err := resource.ParseQuantity(text)
		if err != nil {
			t.Fatal(err)
		}
		_ = q.String()
	})
}

func TestCanonicalAmountsAccepted(t *testing.T) {
	pattern := regexp.MustCompile(amountPattern(t))
	rapid.Check(t, func(t *rapid.T) {
		format := rapid.SampledFrom([]resource.Format{resource.DecimalSI, resource.DecimalExponent, resource.BinarySI}).Draw(t, "format")
		q := resource.NewScaledQuantity(rapid.Int64Min(0).Draw(t, "value"), resource.Scale(rapid.Int32Range(-9, 18).Draw(t, "scale")))
		q.Format = format
		if text := q.String(); !pattern.MatchString(text) || len(text) > 64 {
			t.Errorf("%q is refused", text)
		}
	})
}

func TestInvalidAmounts(t *testing.T) {
	c := testkit.Cluster(t)
	for path, tc := range map[string]struct{ kind, patch string }{
		"spec.resources.cpu":             {"resourceslices", `{"spec":{"resources":{"cpu":"%"}}}`},
		"status.resources.x":             {"resourceslices", `{"status":{"resources":{"x":"%"}}}`},
		"spec.resources.y":               {"quotas", `{"spec":{"resources":{"y":"%"}}}`},
		"spec.resourceQuota.hard.memory": {"virtualnodes", `{"spec":{"resourceQuota":{"hard":{"memory":"%"}}}}`},
		"spec.template.spec.template.spec.containers[0].resources.limits.cpu": {"virtualnodes",
			`{"spec":{"template":{"spec":{"template":{"spec":{"containers":[{"resources":{"limits":{"cpu":"%"}}}]}}}}}}`},
		"spec.resources.limits.cpu":                   {"vkoptionstemplates", `{"spec":{"resources":{"limits":{"cpu":"%"}}}}`},
		"spec.pod.containers[0].resources.limits.cpu": {"shadowpods", `{"spec":{"pod":{"containers":[{"resources":{"limits":{"cpu":"%"}}}]}}}`},
		"spec.pod.overhead.cpu":                       {"shadowpods", `{"spec":{"pod":{"overhead":{"cpu":"%"}}}}`},
		"spec.pod.volumes[0].emptyDir.sizeLimit":      {"shadowpods", `{"spec":{"pod":{"volumes":[{"emptyDir":{"sizeLimit":"%"}}]}}}`},
	} {
		for _, amount := range []string{"1e-999999999", "1E999999999", "1e1.5", "1" + strings.Repeat("0", 64), "-1", "-1m", "+1"} {
			t.Run(path+"="+amount, func(t *testing.T) {
				obj := objects(t, tc.kind)[0]
				obj.SetNamespace(testkit.Namespace(t, c, "amounts", nil))
				change := merge(t, obj, strings.ReplaceAll(tc.patch, "%", amount))
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				var err error
				if strings.HasPrefix(path, "status.") {
					if err := c.Client.Create(ctx, obj); err != nil {
						t.Fatal(err)
					}
					change.SetResourceVersion(obj.GetResourceVersion())
					err = c.Client.Status().Update(ctx, change)
				} else {
					err = c.Client.Create(ctx, change, client.DryRunAll)
				}
				if err == nil || strings.Count(err.Error(), path) == 0 || strings.Count(err.Error(), "nvalid value")+strings.Count(err.Error(), "Too long") != 1 {
					t.Errorf("want one complaint about %s: %v", path, err)
				}
			})
		}
	}
}

// A number is no string, and has no pattern.
func TestNegativeNumbers(t *testing.T) {
	c := testkit.Cluster(t)
	for kind, patch := range map[string]string{
		"resourceslices": `{"spec":{"resources":{"cpu":-1}}}`,
		"quotas":         `{"spec":{"resources":{"cpu":-1}}}`,
		"virtualnodes":   `{"spec":{"resourceQuota":{"hard":{"cpu":-1}}}}`,
		"shadowpods":     `{"spec":{"pod":{"containers":[{"name":"a","resources":{"requests":{"cpu":-1000000}}}]}}}`,
	} {
		t.Run(kind, func(t *testing.T) {
			obj := objects(t, kind)[0]
			obj.SetNamespace(testkit.Namespace(t, c, "amounts", nil))
			err := c.Client.Create(t.Context(), merge(t, obj, patch), client.DryRunAll)
			if err == nil || !strings.Contains(err.Error(), "should be greater than or equal to 0") {
				t.Errorf("got %v", err)
			}
		})
	}
}

// Fields of pods that this version does not know, and those that say nothing, are none of the schema's business.
func TestUnknownPodFieldsKept(t *testing.T) {
	c := testkit.Cluster(t)
	obj := objects(t, "shadowpods")[0]
	obj.SetNamespace(testkit.Namespace(t, c, "pods", nil))
	pod := `{"containers":[{"name":"a","image":"i","env":[{"name":"N","value":"1e999"}],"resources":{"limits":{"cpu":"1.5","memory":2},"later":1}}],` +
		`"initContainers":null,"later":{"deep":["x"]},"volumes":[{"name":"v","emptyDir":{"sizeLimit":"1Gi","later":true}}]}`
	var want map[string]any
	if err := json.Unmarshal([]byte(pod), &want); err != nil {
		t.Fatal(err)
	}
	obj.Object["spec"] = map[string]any{"pod": want}
	if err := c.Client.Create(t.Context(), obj, client.FieldValidation("Strict")); err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(obj.Object["spec"].(map[string]any)["pod"])
	if err != nil {
		t.Fatal(err)
	}
	if wrote, _ := json.Marshal(want); string(got) != string(wrote) {
		t.Errorf("have %s\nwant %s", got, wrote)
	}
}
