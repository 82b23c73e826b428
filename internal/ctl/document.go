// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"liqo.io/liqo/internal/ctl/out"
)

// infoReport is what info shows; its sections are in the order of the screen.
type infoReport struct {
	Local    localInfo    `json:"local"`
	Health   healthInfo   `json:"health"`
	Network  *networkInfo `json:"network,omitempty"`
	Peerings peeringsInfo `json:"peerings"`
}

func (r *infoReport) document() map[string]any { return documentOf(r) }

// documentOf is a report as scripts see it: maps, lists and scalars by their JSON names.
func documentOf(report any) map[string]any {
	data, err := json.Marshal(report)
	if err != nil {
		panic(err) // these types have nothing that JSON lacks
	}
	document := map[string]any{}
	decoder := json.NewDecoder(strings.NewReader(string(data)))
	decoder.UseNumber()
	if err := decoder.Decode(&document); err != nil {
		panic(err)
	}
	return document
}

// absent are fields that a document leaves out when they are empty, and that a query finds all the same.
var absent = map[string]any{"unhealthypods": map[string]any{}, "alerts": []any{}}

// spellings are names of fields in other versions and in documents.
var spellings = map[string]string{"cidr": "podcidrs", "podcidr": "podcidrs", "apiserveraddress": "apiserveraddr"}

// lookUp follows a path such as network.podcidrs or peerings.peers[0].role. Names are compared without case; a key that
// contains dots is found too.
func lookUp(document any, query string) (any, error) {
	path := strings.TrimPrefix(query, ".")
	path = strings.NewReplacer("[", ".", "]", "").Replace(path)
	value := document
	for path != "" {
		next, rest, err := descend(value, path)
		if err != nil {
			return nil, out.Fail("invalid query %q: %w", query, err)
		}
		value, path = next, rest
	}
	return value, nil
}

// descend takes the next step, and returns what is left of the path.
func descend(value any, path string) (any, string, error) {
	key, rest, _ := strings.Cut(path, ".")
	switch v := value.(type) {
	case []any:
		n, err := strconv.Atoi(key)
		if err != nil || n < 0 || n >= len(v) {
			return nil, "", fmt.Errorf("%q is not an index below %d", key, len(v))
		}
		return v[n], rest, nil
	case map[string]any:
		if found, left, ok := field(v, path); ok {
			return found, left, nil
		}
		if other, ok := spellings[strings.ToLower(key)]; ok {
			if found, _, ok := field(v, other); ok {
				return found, rest, nil
			}
		}
		if empty, ok := absent[strings.ToLower(key)]; ok {
			return empty, rest, nil
		}
		return nil, "", fmt.Errorf("%q not found", key)
	}
	return nil, "", fmt.Errorf("%q is not an object", key)
}

// field finds the longest key that the path begins with.
func field(object map[string]any, path string) (value any, rest string, found bool) {
	longest := -1
	for k, v := range object {
		matches := strings.EqualFold(k, path) || (len(path) > len(k) && strings.EqualFold(k, path[:len(k)]) && path[len(k)] == '.')
		if matches && len(k) > longest {
			longest, value, found = len(k), v, true
		}
	}
	if !found {
		return nil, "", false
	}
	return value, strings.TrimPrefix(path[longest:], "."), true
}

// printDocument prints a whole document.
func printDocument(w io.Writer, document any, format string) error {
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

// printValue prints a scalar raw, so that scripts can use it as it is, and the rest as a document.
func printValue(w io.Writer, value any, format string) error {
	switch value.(type) {
	case map[string]any, []any:
		return printDocument(w, value, format)
	case nil:
		return nil
	}
	_, err := fmt.Fprintln(w, value)
	return err
}

// manifest is an object without what only a server writes.
func manifest(obj client.Object) (map[string]any, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, fmt.Errorf("encoding %s: %w", obj.GetName(), err)
	}
	unstructured.RemoveNestedField(content, "metadata", "creationTimestamp")
	if reflect.ValueOf(obj).Elem().FieldByName("Status").IsValid() { // kinds without one refuse it
		content["status"] = map[string]any{}
	}
	return content, nil
}

// printObject prints an object as a manifest. Documents may follow one another.
func (c *cli) printObject(obj client.Object, format string) error {
	content, err := manifest(obj)
	if err != nil {
		return err
	}
	if err := printDocument(c.Result(), content, format); err != nil || format == "json" {
		return err
	}
	_, err = fmt.Fprintln(c.Result(), "---")
	return err
}
