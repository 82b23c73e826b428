// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// This file renders gateway templates: objects whose strings may contain actions of text/template, filled from the GatewayServer or
// GatewayClient that references the template.

package network

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"text/template"
	"text/template/parse"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"

	networkingv1beta1 "liqo.io/liqo/api/networking/v1beta1"
)

// TemplateValues holds the variables of a template.
type TemplateValues struct {
	// Spec is a pointer to the spec of the GatewayServer or GatewayClient, with the field names of Go: .Spec.MTU, .Spec.Endpoint.Port.
	Spec any
	// Name and Namespace identify the GatewayServer or GatewayClient, GatewayUID is its UID.
	Name, Namespace, GatewayUID string
	// ClusterID is the cluster ID of the peer.
	ClusterID string
	// SecretName is the Secret with the keys, if named by the user.
	SecretName string
}

// HandoverSeconds returns how long the old pod of a gateway stays beside the new pod. v0.1.0 has no such variable, and leaves a gateway as it is
// when its template has one: during an upgrade, a controller-manager of v0.1.0 would end the old pod before the start of the new pod.
func (TemplateValues) HandoverSeconds() int { return handoverSeconds }

// Render returns the object described by a template. spec is a pointer to the Go type of the object's spec, nil if unknown: values are converted to
// the types of its fields, and an unknown field is an error. Without a type, whole numbers in base 10 become numbers, except names, labels,
// annotations and selectors.
//
// A key with a leading `?` is optional. An optional key is left out if the first action of its value is empty, if the value renders to nothing or 0,
// or if the action is a variable missing from the gateway's .Spec; otherwise the key loses the `?`. In a mandatory field an unset variable is an
// error.
//
// Templates may compare, test, index and loop over a variable that is a list or a map, without nested loops. Templates cannot define templates or
// call functions that lengthen a text. This bounds the cost of a template by any author.
//
// An error names the field and is for the author of the template.
func Render(t networkingv1beta1.GatewayTemplateSpec, g TemplateValues, spec any) (*unstructured.Unstructured, error) {
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
	r := &renderer{gateway: g}
	metadata, err := r.renderMetadata(body.Metadata)
	if err != nil {
		return nil, err
	}
	rendered, err := r.renderValue(body.Spec, "spec.template.spec", typeOf(spec))
	if err != nil {
		return nil, err
	}
	out := &unstructured.Unstructured{Object: map[string]any{"metadata": metadata, "spec": rendered}}
	if err := r.renderService(out); err != nil {
		return nil, err
	}
	if spec != nil {
		if err := checkFields(out.Object["spec"], spec, "spec.template.spec"); err != nil {
			return nil, err
		}
	}
	out.SetAPIVersion(t.ObjectKind.APIVersion)
	out.SetKind(t.ObjectKind.Kind)
	return out, nil
}

// maxText is the limit in bytes of all rendered strings of a template together: an object cannot be larger.
const maxText = 1 << 20

// renderer renders the strings of one template.
type renderer struct {
	gateway TemplateValues
	written int // bytes so far
}

// renderMetadata renders the parts of the metadata allowed in a template.
func (r *renderer) renderMetadata(in map[string]any) (map[string]any, error) {
	const path = "spec.template.metadata"
	rendered, err := r.renderValue(in, path, typeOf(&metav1.ObjectMeta{}))
	if err != nil {
		return nil, err
	}
	if err := checkFields(rendered, &metav1.ObjectMeta{}, path); err != nil {
		return nil, err
	}
	all := rendered.(map[string]any)
	out := map[string]any{"name": r.gateway.Name, "namespace": r.gateway.Namespace}
	for _, key := range []string{"name", "namespace", "labels", "annotations"} {
		if v, ok := all[key]; ok && v != nil && v != "" {
			out[key] = v
		}
	}
	if out["namespace"] != r.gateway.Namespace {
		return nil, fmt.Errorf("%s.namespace is %q: a gateway must be in the namespace of its object, %q", path, out["namespace"], r.gateway.Namespace)
	}
	return out, nil
}

// renderService adds the labels and annotations requested by the user to the Service of a server.
func (r *renderer) renderService(out *unstructured.Unstructured) error {
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
			return fmt.Errorf("spec.template.spec.service cannot have the %s of the GatewayServer: %w", key, err)
		}
	}
	return nil
}

// IsOriginals reports whether a template is for the programs of the original, each in its own container. IsOriginals is called before rendering,
// because a template of the original may use variables of the original only.
func IsOriginals(t networkingv1beta1.GatewayTemplateSpec) bool {
	var gateway struct {
		Spec struct {
			Deployment struct {
				Spec struct {
					Template struct {
						Spec struct {
							Containers []struct {
								Name string `json:"name"`
							} `json:"containers"`
						} `json:"spec"`
					} `json:"template"`
				} `json:"spec"`
			} `json:"deployment"`
		} `json:"spec"`
	}
	if json.Unmarshal(t.Template.Raw, &gateway) != nil {
		return false // rendering reports invalid templates
	}
	var found []string
	for _, c := range gateway.Spec.Deployment.Spec.Template.Spec.Containers {
		found = append(found, c.Name)
	}
	return slices.Contains(found, "wireguard") && slices.Contains(found, "geneve")
}

// renderValue renders all values below a field; as is the Go type of the field, nil if unknown.
func (r *renderer) renderValue(in any, path string, as reflect.Type) (any, error) {
	as = dereferenceType(as)
	switch in := in.(type) {
	case map[string]any:
		return r.renderFields(in, path, as)
	case []any:
		out := make([]any, len(in))
		for i, v := range in {
			rendered, err := r.renderValue(v, fmt.Sprintf("%s[%d]", path, i), elementType(as))
			if err != nil {
				return nil, err
			}
			out[i] = rendered
		}
		return out, nil
	case string:
		text, err := r.renderText(in, path)
		if err != nil {
			return nil, err
		}
		return convertScalar(text, as), nil
	}
	return convertScalar(in, as), nil
}

func (r *renderer) renderFields(in map[string]any, path string, as reflect.Type) (any, error) {
	out := make(map[string]any, len(in))
	for _, key := range slices.Sorted(maps.Keys(in)) {
		value := in[key]
		name, optional := strings.CutPrefix(key, "?")
		at := path + "." + name
		if optional {
			exists, err := r.isOptionalSet(value, at)
			if err != nil {
				return nil, err
			}
			if !exists {
				continue
			}
		}
		if _, twice := out[name]; twice {
			return nil, fmt.Errorf("%s is set twice, as %q and %q", at, name, "?"+name)
		}
		rendered, err := r.renderValue(value, at, fieldType(as, name))
		if err != nil {
			return nil, err
		}
		out[name] = rendered
	}
	return out, nil
}

// isOptionalSet reports whether an optional field is set.
func (r *renderer) isOptionalSet(value any, path string) (bool, error) {
	text, _ := value.(string)
	t, err := r.parseText(text, path)
	if err != nil {
		return false, err
	}
	i := slices.IndexFunc(t.Root.Nodes, func(n parse.Node) bool { return n.Type() != parse.NodeText })
	if i < 0 {
		return false, fmt.Errorf("%s is optional (?), so its value must be a text with a variable, such as {{ .Spec.Endpoint.NodePort }}", path)
	}
	if first, ok := t.Root.Nodes[i].(*parse.ActionNode); ok {
		if r.isUnknownVariable(first.Pipe) {
			return false, nil
		}
		probe, err := r.parseText("{{if "+first.Pipe.String()+"}}yes{{end}}", path)
		if err != nil {
			return false, err
		}
		var set strings.Builder
		// A key missing from a map is empty for an optional field, and an error for a mandatory one.
		if err := probe.Option("missingkey=default").Execute(&limited{r, &set}, r.gateway); err != nil {
			return false, fmt.Errorf("%s: %q cannot be filled: %w", path, text, err)
		}
		if set.Len() == 0 {
			return false, nil
		}
	}
	rendered, err := r.renderText(text, path)
	return rendered != "" && rendered != "0", err
}

// isUnknownVariable reports whether a pipeline is a variable missing from the gateway's spec: templates for a custom kind may use it.
func (r *renderer) isUnknownVariable(p *parse.PipeNode) bool {
	variable, ok := variableOf(p)
	if !ok || len(variable.Ident) < 2 || variable.Ident[0] != "Spec" {
		return false
	}
	as := typeOf(r.gateway.Spec)
	for _, name := range variable.Ident[1:] {
		if as = dereferenceType(as); as == nil || as.Kind() != reflect.Struct {
			return false // rendering reports the error
		}
		f, found := as.FieldByName(name)
		if !found {
			_, isMethod := reflect.PointerTo(as).MethodByName(name)
			return !isMethod
		}
		as = f.Type
	}
	return false
}

// variableOf returns the variable of a pipeline that is a single variable.
func variableOf(p *parse.PipeNode) (*parse.FieldNode, bool) {
	if len(p.Cmds) != 1 || len(p.Cmds[0].Args) != 1 {
		return nil, false
	}
	variable, ok := p.Cmds[0].Args[0].(*parse.FieldNode)
	return variable, ok
}

// parseText parses a text and rejects constructs with unbounded cost.
func (r *renderer) parseText(text, path string) (*template.Template, error) {
	t, err := template.New(path).Option("missingkey=error").Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %q is not a valid template: %w", path, text, err)
	}
	if t.Tree == nil || len(t.Templates()) > 1 {
		return nil, fmt.Errorf("%s: %q defines a template, which is not supported", path, text)
	}
	if err := r.checkBounded(t.Root, false); err != nil {
		return nil, fmt.Errorf("%s: %q %w", path, text, err)
	}
	return t, nil
}

// functions lists the allowed functions of text/template: none lengthens a text.
var functions = []string{"and", "or", "not", "eq", "ne", "lt", "le", "gt", "ge", "len", "index", "slice", "break", "continue"}

func (r *renderer) checkBounded(n parse.Node, looping bool) error {
	var parts []parse.Node
	switch n := n.(type) {
	case *parse.ListNode:
		if n != nil {
			parts = n.Nodes
		}
	case *parse.ActionNode:
		parts = []parse.Node{n.Pipe}
	case *parse.IfNode:
		parts = []parse.Node{n.Pipe, n.List, n.ElseList}
	case *parse.WithNode:
		parts = []parse.Node{n.Pipe, n.List, n.ElseList}
	case *parse.RangeNode:
		if looping {
			return errors.New("has a loop in a loop, which is not supported")
		}
		if !r.isIterable(n.Pipe) {
			return errors.New("has a loop over something else than a list, such as .Spec.Endpoint.Ports")
		}
		looping = true
		parts = []parse.Node{n.List, n.ElseList}
	case *parse.PipeNode:
		for _, c := range n.Cmds {
			parts = append(parts, c.Args...)
		}
	case *parse.ChainNode:
		parts = []parse.Node{n.Node}
	case *parse.IdentifierNode:
		if !slices.Contains(functions, n.Ident) {
			return fmt.Errorf("calls %s, which is not supported", n.Ident)
		}
	case *parse.TemplateNode:
		return errors.New("uses a template by its name, which is not supported")
	}
	for _, part := range parts {
		if err := r.checkBounded(part, looping); err != nil {
			return err
		}
	}
	return nil
}

// isIterable reports whether a pipeline is a variable that is a list or a map.
func (r *renderer) isIterable(p *parse.PipeNode) bool {
	variable, ok := variableOf(p)
	if !ok {
		return false
	}
	v := reflect.ValueOf(r.gateway)
	for _, name := range variable.Ident {
		for v.Kind() == reflect.Interface || v.Kind() == reflect.Pointer {
			v = v.Elem()
		}
		if v.Kind() != reflect.Struct {
			return false
		}
		v = v.FieldByName(name)
	}
	return v.Kind() == reflect.Slice || v.Kind() == reflect.Map
}

// unset is the rendered text of a nil variable.
const unset = "<nil>"

// renderText renders one string.
func (r *renderer) renderText(in, path string) (string, error) {
	if !strings.Contains(in, "{{") {
		return in, nil
	}
	t, err := r.parseText(in, path)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	if err := t.Execute(&limited{r, &out}, r.gateway); err != nil {
		return "", fmt.Errorf("%s: %q cannot be filled: %w", path, in, err)
	}
	if strings.Contains(out.String(), unset) {
		return "", fmt.Errorf("%s: a variable of %q is not set; a field that may be left out begins with ?, and with that variable", path, in)
	}
	return out.String(), nil
}

// limited is a writer with the renderer's remaining limit.
type limited struct {
	*renderer
	to *strings.Builder
}

func (l *limited) Write(p []byte) (int, error) {
	if l.written += len(p); l.written > maxText {
		return 0, fmt.Errorf("the template becomes longer than %d bytes", maxText)
	}
	return l.to.Write(p)
}
