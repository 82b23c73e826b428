// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// PrintDocument prints a whole document.
func PrintDocument(w io.Writer, document any, format string) error {
	if format == "json" {
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		encoder.SetEscapeHTML(false)
		return encoder.Encode(document)
	}
	data, err := yaml.Marshal(document)
	if err != nil {
		return fmt.Errorf("encoding YAML: %w", err)
	}
	_, err = w.Write(data)
	return err
}

// PrintValue prints a scalar raw, for direct use in scripts, and lists and maps as a document.
func PrintValue(w io.Writer, value any, format string) error {
	switch value.(type) {
	case map[string]any, []any:
		return PrintDocument(w, value, format)
	case nil:
		return nil
	}
	_, err := fmt.Fprintln(w, value)
	return err
}

// toManifest returns an object without the fields written by servers.
func toManifest(obj client.Object) (map[string]any, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, fmt.Errorf("encoding %s: %w", obj.GetName(), err)
	}
	content, _ = RevealAssigned(content)
	unstructured.RemoveNestedField(content, "metadata", "creationTimestamp")
	if reflect.ValueOf(obj).Elem().FieldByName("Status").IsValid() { // kinds without a status reject a status
		content["status"] = map[string]any{}
	}
	return content, nil
}

// PrintObject prints an object as a manifest. Several documents may follow each other.
func (c *Session) PrintObject(obj client.Object, format string) error {
	content, err := toManifest(obj)
	if err != nil {
		return err
	}
	if err := PrintDocument(c.Result(), content, format); err != nil || format == "json" {
		return err
	}
	_, err = fmt.Fprintln(c.Result(), "---")
	return err
}

// SortedKeys returns the keys of a map in order.
func SortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
