// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"liqo.io/liqo/internal/ctl/dryrun"
)

// infoReport is the report of the command info; its sections are in the order of the screen.
type infoReport struct {
	Local    localInfo    `json:"local"`
	Health   healthInfo   `json:"health"`
	Network  *networkInfo `json:"network,omitempty"`
	Peerings peeringsInfo `json:"peerings"`
}

// documentOf converts a report or a part of one to the form that scripts see: maps, lists and scalars by their JSON names.
func documentOf(report any) any {
	data, err := json.Marshal(report)
	if err != nil {
		panic(err) // these types always marshal
	}
	var document any
	decoder := json.NewDecoder(strings.NewReader(string(data)))
	decoder.UseNumber()
	if err := decoder.Decode(&document); err != nil {
		panic(err)
	}
	return document
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

// printValue prints a scalar raw, for direct use in scripts, and lists and maps as a document.
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

// toManifest returns an object without the fields that only a server writes.
func toManifest(obj client.Object) (map[string]any, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, fmt.Errorf("encoding %s: %w", obj.GetName(), err)
	}
	content, _ = dryrun.Reveal(content)
	unstructured.RemoveNestedField(content, "metadata", "creationTimestamp")
	if reflect.ValueOf(obj).Elem().FieldByName("Status").IsValid() { // kinds without a status reject one
		content["status"] = map[string]any{}
	}
	return content, nil
}

// printObject prints an object as a manifest. Several documents may follow one another.
func (c *cli) printObject(obj client.Object, format string) error {
	content, err := toManifest(obj)
	if err != nil {
		return err
	}
	if err := printDocument(c.Result(), content, format); err != nil || format == "json" {
		return err
	}
	_, err = fmt.Fprintln(c.Result(), "---")
	return err
}
