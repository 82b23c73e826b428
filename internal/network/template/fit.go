// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// A template is text, and what it renders to is text. What a field holds is known from its Go type, so that a peer named "123" is
// a label and a port is a number.

// loose is the type of a field below labels or annotations of an object whose type is not known: everything there is text.
var loose = reflect.TypeFor[map[string]string]()

var intOrString = reflect.TypeFor[intstr.IntOrString]()

// plain is what a pointer points to.
func plain(as reflect.Type) reflect.Type {
	for as != nil && as.Kind() == reflect.Pointer {
		as = as.Elem()
	}
	return as
}

// element is the type of what is in a list, nil if that is not known.
func element(as reflect.Type) reflect.Type {
	if as != nil && as.Kind() == reflect.Slice {
		return as.Elem()
	}
	return nil
}

// field is the type of what is under a key of an object or a map, nil if that is not known.
func field(as reflect.Type, key string) reflect.Type {
	switch {
	case as == nil && (key == "labels" || key == "annotations"):
		return loose
	case as == nil:
		return nil
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
			if found := field(plain(f.Type), key); found != nil {
				return found
			}
		}
	}
	return nil
}

// scalar makes of a value what a field of that type holds, if it can be that.
func scalar(v any, as reflect.Type) any {
	text, isText := v.(string)
	switch {
	case as == nil, as == intOrString:
		if n, ok := number(text); isText && ok {
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
		if n, ok := number(text); ok {
			return n
		}
	case reflect.Bool:
		if b, err := strconv.ParseBool(text); err == nil {
			return b
		}
	}
	return text
}

// checkFields tells what of a spec its type does not take.
func checkFields(spec any, as reflect.Type) error {
	raw, err := json.Marshal(spec)
	if err != nil {
		return fmt.Errorf("encoding the rendered spec: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(reflect.New(as).Interface()); err != nil {
		return fmt.Errorf("spec.template.spec is no %s: %w", as.Name(), err)
	}
	return nil
}
