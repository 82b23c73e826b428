// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package info

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"liqo.io/liqo/internal/ctl/ui"
)

// queryPosition is a position in a report: the value for scripts, and the Go type with the omitted empty fields.
type queryPosition struct {
	value any
	kind  reflect.Type
}

func placeOf(report any) queryPosition {
	return queryPosition{documentOf(report), reflect.TypeOf(report)}
}

// lookUp resolves a path such as network.podcidrs or peerings.peers[0].role. Names are compared without case. Keys with dots are found, too, as are
// empty fields that the document omits.
func lookUp(report any, query string) (any, error) {
	at := placeOf(report)
	path := strings.TrimPrefix(query, ".")
	path = strings.NewReplacer("[", ".", "]", "").Replace(path)
	for path != "" {
		next, rest, err := at.descendPath(path)
		if err != nil {
			return nil, ui.Fail("invalid query %q: %w", query, err)
		}
		at, path = next, rest
	}
	return at.value, nil
}

// descendPath takes the next step, and returns the rest of the path.
func (p queryPosition) descendPath(path string) (queryPosition, string, error) {
	for p.kind.Kind() == reflect.Pointer {
		p.kind = p.kind.Elem()
	}
	key, rest, _ := strings.Cut(path, ".")
	switch v := p.value.(type) {
	case []any:
		element, remaining, err := listElement(v, path)
		return queryPosition{element, p.kind.Elem()}, remaining, err
	case map[string]any:
		if p.kind.Kind() == reflect.Struct {
			return p.descendOne(v, key, rest)
		}
		if found, remaining, ok := objectField(v, path); ok {
			return queryPosition{found, p.kind.Elem()}, remaining, nil
		}
		return queryPosition{}, "", fmt.Errorf("%q not found", key)
	}
	return queryPosition{}, "", fmt.Errorf("%q is not an object", key)
}

// descendOne returns a field of a struct, by name or by an alias of other versions, listed in the tag. An alias in the singular was a scalar:
// descendOne returns the value of a list with one element.
func (p queryPosition) descendOne(object map[string]any, key, rest string) (queryPosition, string, error) {
	for _, f := range reflect.VisibleFields(p.kind) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" {
			name = f.Name
		}
		also := slices.ContainsFunc(strings.Split(f.Tag.Get("also"), ","), func(s string) bool { return strings.EqualFold(s, key) })
		if f.Anonymous || (!strings.EqualFold(name, key) && !also) {
			continue
		}
		value := object[name]
		if value == nil {
			value = emptyValue(f.Type)
		}
		if all, many := value.([]any); also && many && len(all) == 1 {
			return queryPosition{all[0], f.Type.Elem()}, rest, nil
		}
		return queryPosition{value, f.Type}, rest, nil
	}
	return queryPosition{}, "", fmt.Errorf("%q not found", key)
}

// emptyValue returns the empty value of a field as scripts see it.
func emptyValue(kind reflect.Type) any {
	for kind.Kind() == reflect.Pointer {
		kind = kind.Elem()
	}
	switch kind.Kind() {
	case reflect.Slice:
		return []any{}
	case reflect.Map:
		return map[string]any{}
	}
	return documentOf(reflect.Zero(kind).Interface())
}

// listElement returns the element of a list at an index, or with a name.
func listElement(list []any, path string) (value any, rest string, err error) {
	key, rest, _ := strings.Cut(path, ".")
	if n, err := strconv.Atoi(key); err == nil && n >= 0 && n < len(list) {
		return list[n], rest, nil
	}
	named := map[string]any{}
	for _, e := range list {
		object, _ := e.(map[string]any)
		for _, id := range []string{"name", "clusterID"} {
			if name, ok := object[id].(string); ok {
				named[name] = e
			}
		}
	}
	if found, remaining, ok := objectField(named, path); ok {
		return found, remaining, nil
	}
	return nil, "", fmt.Errorf("%q is neither an index below %d nor a name in the list", key, len(list))
}

// objectField returns the field with the longest key that is a prefix of the path.
func objectField(object map[string]any, path string) (value any, rest string, found bool) {
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

// isBlank reports whether a value equals the value of an unreadable field.
func isBlank(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case bool:
		return !v
	case []any:
		return len(v) == 0
	case map[string]any:
		for _, of := range v {
			if !isBlank(of) {
				return false
			}
		}
		return true
	}
	return fmt.Sprint(value) == "0"
}
