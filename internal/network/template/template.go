// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package template renders gateway templates: objects in which every string may hold actions of text/template, which are filled
// from the GatewayServer or GatewayClient that names the template.
package template

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
)

// Gateway is what a template is filled with: its fields are the variables of templates.
type Gateway struct {
	// Spec is that of the GatewayServer or GatewayClient, with the field names of Go: .Spec.MTU, .Spec.Endpoint.Port.
	Spec any
	// Name and Namespace are those of the GatewayServer or GatewayClient, GatewayUID its UID.
	Name, Namespace, GatewayUID string
	// ClusterID is the peer's.
	ClusterID string
	// SecretName is the Secret with the keys, if the user names one.
	SecretName string
}

// Render returns the object that a template describes. Where kind is not nil, it is a pointer to the Go type of the object's
// spec: values become what its fields hold, and a field that it does not have is an error. Without it a value that is a whole
// number in base 10 becomes one, except among labels and annotations.
//
// A key that begins with `?` is left out when the first action of its value renders to nothing, and loses the `?` otherwise.
//
// An error names the field and is for the author of the template.
func Render(t networkingv1beta1.GatewayTemplateSpec, g Gateway, kind any) (*unstructured.Unstructured, error) {
	var body struct {
		Metadata map[string]any `json:"metadata"`
		Spec     map[string]any `json:"spec"`
	}
	if len(t.Template.Raw) == 0 {
		return nil, errors.New("spec.template is empty")
	}
	if err := json.Unmarshal(t.Template.Raw, &body); err != nil {
		return nil, fmt.Errorf("reading spec.template: %w", err)
	}
	r := renderer{gateway: g}
	metadata, err := r.metadata(body.Metadata)
	if err != nil {
		return nil, err
	}
	var as reflect.Type
	if kind != nil {
		as = reflect.TypeOf(kind).Elem()
	}
	spec, err := r.value(body.Spec, "spec.template.spec", as)
	if err != nil {
		return nil, err
	}
	out := &unstructured.Unstructured{Object: map[string]any{"metadata": metadata, "spec": spec}}
	if err := r.service(out); err != nil {
		return nil, err
	}
	if kind != nil {
		if err := checkFields(spec, as); err != nil {
			return nil, err
		}
	}
	out.SetAPIVersion(t.ObjectKind.APIVersion)
	out.SetKind(t.ObjectKind.Kind)
	return out, nil
}

// renderer fills the strings of one template.
type renderer struct{ gateway Gateway }

// metadata renders what a template may say about the object itself.
func (r renderer) metadata(in map[string]any) (map[string]any, error) {
	rendered, err := r.value(in, "spec.template.metadata", reflect.TypeFor[metav1.ObjectMeta]())
	if err != nil {
		return nil, err
	}
	all, _ := rendered.(map[string]any)
	out := map[string]any{"name": r.gateway.Name}
	for _, key := range []string{"name", "namespace", "labels", "annotations"} {
		if v, ok := all[key]; ok && v != "" {
			out[key] = v
		}
	}
	if ns, ok := out["namespace"]; ok && ns != r.gateway.Namespace {
		return nil, fmt.Errorf("spec.template.metadata.namespace is %q: a gateway is made in the namespace of its object, %q", ns, r.gateway.Namespace)
	}
	out["namespace"] = r.gateway.Namespace
	return out, nil
}

// service gives the Service of a server the labels and annotations that its user asks for.
func (r renderer) service(out *unstructured.Unstructured) error {
	server, ok := r.gateway.Spec.(*networkingv1beta1.GatewayServerSpec)
	if !ok {
		return nil
	}
	for key, more := range map[string]map[string]string{"labels": server.ServiceLabels, "annotations": server.ServiceAnnotations} {
		if len(more) == 0 {
			continue
		}
		all, _, err := unstructured.NestedStringMap(out.Object, "spec", "service", "metadata", key)
		if err == nil {
			merged := map[string]string{}
			maps.Copy(merged, all)
			maps.Copy(merged, more)
			err = unstructured.SetNestedStringMap(out.Object, merged, "spec", "service", "metadata", key)
		}
		if err != nil {
			return fmt.Errorf("spec.template.spec.service cannot be given the %s that the GatewayServer asks for: %w", key, err)
		}
	}
	return nil
}

// IsOriginals tells whether a rendered gateway is made of the programs of the original, one in each of several containers.
func IsOriginals(gateway *unstructured.Unstructured) bool {
	containers, _, _ := unstructured.NestedSlice(gateway.Object, "spec", "deployment", "spec", "template", "spec", "containers")
	var found []string
	for _, c := range containers {
		if c, ok := c.(map[string]any); ok {
			name, _ := c["name"].(string)
			found = append(found, name)
		}
	}
	return slices.Contains(found, "wireguard") && slices.Contains(found, "geneve")
}

// value renders everything below a field; as is the Go type of the field, nil where that is not known.
func (r renderer) value(in any, path string, as reflect.Type) (any, error) {
	as = plain(as)
	switch in := in.(type) {
	case map[string]any:
		return r.fields(in, path, as)
	case []any:
		out := make([]any, len(in))
		for i, v := range in {
			rendered, err := r.value(v, fmt.Sprintf("%s[%d]", path, i), element(as))
			if err != nil {
				return nil, err
			}
			out[i] = rendered
		}
		return out, nil
	case string:
		text, err := r.text(in, path)
		if err != nil {
			return nil, err
		}
		return scalar(text, as), nil
	}
	return scalar(in, as), nil
}

func (r renderer) fields(in map[string]any, path string, as reflect.Type) (any, error) {
	out := make(map[string]any, len(in))
	for _, key := range slices.Sorted(maps.Keys(in)) {
		value := in[key]
		name, optional := strings.CutPrefix(key, "?")
		at := path + "." + name
		if optional {
			there, err := r.optional(value, at)
			if err != nil {
				return nil, err
			}
			if !there {
				continue
			}
		}
		if _, twice := out[name]; twice {
			return nil, fmt.Errorf("%s is there twice, as %q and %q", at, name, "?"+name)
		}
		rendered, err := r.value(value, at, field(as, name))
		if err != nil {
			return nil, err
		}
		out[name] = rendered
	}
	return out, nil
}

// action finds the first action of a text, and in it what is between the braces.
var action = regexp.MustCompile(`\{\{-?\s*(.*?)\s*-?\}\}`)

// optional tells whether an optional field is there: whether the first action of its value is true, and its value not empty.
func (r renderer) optional(value any, path string) (bool, error) {
	text, _ := value.(string)
	first := action.FindStringSubmatch(text)
	if first == nil {
		return false, fmt.Errorf("%s is optional (?), so its value must be a text with a variable, such as {{ .Spec.Endpoint.NodePort }}", path)
	}
	rendered, err := r.text("{{if "+first[1]+"}}"+text+"{{end}}", path)
	return rendered != "" && rendered != "0", err
}

// maxText bounds what one string may become, in bytes.
const maxText = 64 << 10

// text fills one string.
func (r renderer) text(in, path string) (string, error) {
	if !strings.Contains(in, "{{") {
		return in, nil
	}
	t, err := template.New(path).Option("missingkey=error").Parse(in)
	if err != nil {
		return "", fmt.Errorf("%s: %q is no template: %w", path, in, err)
	}
	var out bounded
	if err := t.Execute(&out, r.gateway); err != nil {
		return "", fmt.Errorf("%s: %q cannot be filled: %w", path, in, err)
	}
	return out.String(), nil
}

// bounded is a text that does not grow beyond maxText.
type bounded struct{ strings.Builder }

func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > maxText {
		return 0, fmt.Errorf("it becomes longer than %d bytes", maxText)
	}
	return b.Builder.Write(p)
}

// number is what text is in base 10, if it is a whole number written as numbers are.
func number(text string) (int64, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil
}
