// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Templates are text, and render to text. The Go type of a field determines the type of its value, so that a peer named "123" stays a label
// and a port becomes a number.

// loose lists the fields of objects of unknown type that hold text only.
var loose = map[string]reflect.Type{
	"name": reflect.TypeFor[string](), "namespace": reflect.TypeFor[string](),
	"labels": reflect.TypeFor[map[string]string](), "annotations": reflect.TypeFor[map[string]string](),
	"matchLabels": reflect.TypeFor[map[string]string](), "nodeSelector": reflect.TypeFor[map[string]string](),
	"selector": reflect.TypeFor[selector](),
}

// selector is either a map of labels, as in a Service, or has one under matchLabels.
type selector map[string]string

var intOrString = reflect.TypeFor[intstr.IntOrString]()

// typeOf returns the type of v without pointers, nil if v is nil.
func typeOf(v any) reflect.Type { return dereferenceType(reflect.TypeOf(v)) }

// dereferenceType returns the type without pointers.
func dereferenceType(as reflect.Type) reflect.Type {
	for as != nil && as.Kind() == reflect.Pointer {
		as = as.Elem()
	}
	return as
}

// elementType returns the type of the elements of a list, nil if unknown.
func elementType(as reflect.Type) reflect.Type {
	if as != nil && as.Kind() == reflect.Slice {
		return as.Elem()
	}
	return nil
}

// fieldType returns the type of the value under a key of an object or map, nil if unknown.
func fieldType(as reflect.Type, key string) reflect.Type {
	switch {
	case as == nil:
		return loose[key]
	case as == loose["selector"] && loose[key] != nil:
		return loose[key]
	case as.Kind() == reflect.Map:
		return as.Elem()
	case as.Kind() != reflect.Struct:
		return nil
	}
	for i := range as.NumField() {
		f := as.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == key {
			return f.Type
		}
		if f.Anonymous && (name == "" || strings.Contains(options, "inline")) {
			if found := fieldType(dereferenceType(f.Type), key); found != nil {
				return found
			}
		}
	}
	return nil
}

// convertScalar converts a value into the type of a field, if possible.
func convertScalar(v any, as reflect.Type) any {
	text, isText := v.(string)
	switch {
	case as == nil, as == intOrString:
		if n, ok := parseNumber(text); isText && ok {
			return n
		}
		return v
	case as.Kind() == reflect.String && v != nil && !isText:
		return fmt.Sprint(v)
	case !isText:
		return v
	}
	switch as.Kind() {
	case reflect.Int, reflect.Int32, reflect.Int64:
		if n, ok := parseNumber(text); ok {
			return n
		}
	case reflect.Bool:
		if text == "true" || text == "false" {
			return text == "true"
		}
	}
	return text
}

// parseNumber parses a whole number in canonical base 10.
func parseNumber(text string) (int64, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil && strconv.FormatInt(n, 10) == text
}

// checkFields returns an error with the path if the Go type of into does not accept the rendered value.
func checkFields(rendered any, into any, path string) error {
	fields, ok := rendered.(map[string]any)
	if !ok {
		return fmt.Errorf("%s is not an object", path)
	}
	as := reflect.New(typeOf(into)).Interface()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(fields, as, true); err != nil {
		return fmt.Errorf("%s is not a %s: %w", path, typeOf(into).Name(), err)
	}
	return nil
}
