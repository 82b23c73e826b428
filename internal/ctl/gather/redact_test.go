// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package gather

import (
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"

	"liqo.io/liqo/internal/kube"
)

func TestRedactText(t *testing.T) {
	const hex = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
	const key = "yAnz5TF+lXXJte14tji3zlMNq+hd2rYUIgJBgB3fBmk="
	for text, want := range map[string]string{
		"connected to milan in 3 ms": "connected to milan in 3 ms",
		"token eyJhbGciOiJSUzI1NiIs.eyJpc3MiOiJrdWJlcm5ldGVz.c2lnbmF0dXJlc2ln is old": "token REDACTED is old",
		"Authorization: Bearer abcdefgh12345678":                                      "Authorization: REDACTED REDACTED",
		"authorization: hunter2hunter2":                                               "authorization: REDACTED",
		"Cookie: session=abcdef":                                                      "Cookie: REDACTED",
		`msg="login" password="p@,w0 rd" user=x`:                                      `msg="login" password="REDACTED" user=x`,
		`msg="login password=ab,cdefghijk"`:                                           `msg="login password=REDACTED"`,
		`{"apiKey":"abc","a":1}`:                                                      `{"apiKey":"REDACTED","a":1}`,
		`"api_key": "abc"`:                                                            `"api_key": "REDACTED"`,
		`msg="{\"auth\":\"dXNlcg\"}"`:                                                 `msg="{\"auth\":\"REDACTED\"}"`,
		"preshared_key=0123abc":                                                       "preshared_key=REDACTED",
		"AWS_SECRET_ACCESS_KEY=abc":                                                   "AWS_SECRET_ACCESS_KEY=REDACTED",
		`["--password","hunter2"]`:                                                    `["--password","REDACTED"]`,
		"redis-cli --password hunter2 ping":                                           "redis-cli --password REDACTED ping",
		"https://me:secretword@proxy.example/x":                                       "https://REDACTEDproxy.example/x",
		"https://TOKEN@proxy.example":                                                 "https://REDACTEDproxy.example",
		"https://me:se@cret@proxy.example":                                            "https://REDACTEDproxy.example",
		"AKIAIOSFODNN7EXAMPLE":                                                        "REDACTED",
		"private_key=" + hex:                                                          "private_key=REDACTED",
		"peer " + key + " answered":                                                   "peer REDACTED answered",
		"peer +" + key[1:] + " answered":                                              "peer REDACTED answered",
		"-----BEGIN EC PRIVATE KEY-----\nabc\n-----END EC PRIVATE KEY-----\nend":      "REDACTED\nend",
		"cut -----BEGIN PRIVATE KEY-----\nabc":                                        "cut REDACTED",
		strings.Repeat("aB3", 30):                                                     "REDACTED",
		"sha256:" + hex:                                                               "sha256:" + hex,
		`reading secret="liqo/kubeconfig": forbidden`:                                 `reading secret="liqo/kubeconfig": forbidden`,
		"secretRef liqo-tenant-milan/kubeconfig-control-plane":                        "secretRef liqo-tenant-milan/kubeconfig-control-plane",
		"https://192.0.2.1:6443/api?x=a@b":                                            "https://192.0.2.1:6443/api?x=a@b",
		`{"kind":"Token authentication failed"}`:                                      `{"kind":"Token authentication failed"}`,
	} {
		if got := redactText(text); got != want {
			t.Errorf("%q becomes\n%q, not\n%q", text, got, want)
		}
	}
}

func TestRedactObject(t *testing.T) {
	for name, c := range map[string]struct{ object, want map[string]any }{
		"an unknown kind": {object: map[string]any{"kind": "Foo", "spec": "x"}},
		"a Secret": {
			object: map[string]any{
				"kind": "Secret", "type": "Opaque", "data": map[string]any{"password": "aHVudGVyMg=="}, "stringData": map[string]any{"x": "y"},
				"metadata": map[string]any{"name": "a", "annotations": map[string]any{"kubectl.kubernetes.io/last-applied-configuration": "hunter2", "liqo.io/remote-cluster-id": "milan"}},
			},
			want: map[string]any{
				"kind": "Secret", "type": "Opaque", "data": map[string]any{"password": "12 characters"},
				"metadata": map[string]any{"name": "a", "annotations": map[string]any{"liqo.io/remote-cluster-id": "milan"}},
			},
		},
		"a template with text instead of fields": {
			object: map[string]any{"kind": "WgGatewayServerTemplate", "metadata": map[string]any{}, "spec": map[string]any{"template": map[string]any{"spec": map[string]any{"deployment": "hunter2", "secretRef": map[string]any{"name": "{{ .SecretName }}"}}}}},
			want:   map[string]any{"kind": "WgGatewayServerTemplate", "metadata": map[string]any{}, "spec": map[string]any{"template": map[string]any{"spec": map[string]any{"deployment": nil, "secretRef": map[string]any{"name": "{{ .SecretName }}"}}}}},
		},
		"a Deployment": {
			object: map[string]any{"kind": "Deployment", "metadata": map[string]any{}, "spec": map[string]any{"template": map[string]any{
				"metadata": map[string]any{"annotations": map[string]any{"x": "hunter2"}},
				"spec":     map[string]any{"containers": []any{map[string]any{"name": "a", "image": "b", "args": []any{"hunter2"}, "env": []any{map[string]any{"name": "P", "value": "hunter2"}}}}},
			}}},
			want: map[string]any{"kind": "Deployment", "metadata": map[string]any{}, "spec": map[string]any{"template": map[string]any{
				"metadata": map[string]any{}, "spec": map[string]any{"containers": []any{map[string]any{"name": "a", "image": "b"}}},
			}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, redactObject(c.object)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Each kept field exists: a wrong path would leave a field out unnoticed.
func TestKeptFields(t *testing.T) {
	types := map[string]reflect.Type{}
	for gvk, of := range kube.Scheme.AllKnownTypes() {
		if gvk.Version != "__internal" && gvk.Group != "resource.k8s.io" && (gvk.Kind != "Event" || gvk.Group == "") {
			types[gvk.Kind] = of
		}
	}
	for kind, tree := range fieldTrees {
		of := types[kind]
		if of == nil {
			if kind != "APIService" && kind != "CustomResourceDefinition" { // read without types
				t.Errorf("there is no kind %s", kind)
			}
			continue
		}
		checkFields(t, kind, of, tree)
	}
}

func checkFields(t *testing.T, path string, of reflect.Type, tree fieldTree) {
	t.Helper()
	for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
		of = of.Elem()
	}
	if of.Kind() == reflect.Map || of == reflect.TypeFor[runtime.RawExtension]() {
		return
	}
	for name, below := range tree {
		field, known := fieldNamed(of, name)
		if !known {
			t.Errorf("%s has no field %s", path, name)
			continue
		}
		checkFields(t, path+"."+name, field, below)
	}
}

// fieldNamed returns the type of a field by its name in JSON.
func fieldNamed(of reflect.Type, name string) (reflect.Type, bool) {
	for i := range of.NumField() {
		field := of.Field(i)
		tag, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if tag == name {
			return field.Type, true
		}
		if tag == "" && field.Anonymous {
			if found, known := fieldNamed(field.Type, name); known {
				return found, true
			}
		}
	}
	return nil, false
}
