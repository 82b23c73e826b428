// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"encoding/json"
	"fmt"
	"regexp"

	"k8s.io/apimachinery/pkg/api/resource"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ToMap returns the JSON fields of obj, without nulls, the status and the metadata that only the API server sets. An
// object decoded from a manifest and an object built in code give equal maps.
func ToMap(obj client.Object) (map[string]any, error) {
	data, err := json.Marshal(obj)
	if err != nil {
		return nil, fmt.Errorf("encoding %T: %w", obj, err)
	}
	fields := map[string]any{}
	if err := utiljson.Unmarshal(data, &fields); err != nil {
		return nil, fmt.Errorf("decoding %T: %w", obj, err)
	}
	delete(fields, "status")
	if metadata, ok := fields["metadata"].(map[string]any); ok {
		for _, key := range serverSet {
			delete(metadata, key)
		}
	}
	return dropNulls(fields).(map[string]any), nil
}

// serverSet lists the fields of metadata that only the API server writes.
var serverSet = []string{
	"creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "managedFields",
	"resourceVersion", "selfLink", "uid",
}

func dropNulls(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			if value == nil {
				delete(v, key)
				continue
			}
			v[key] = dropNulls(value)
		}
	case []any:
		for i := range v {
			v[i] = dropNulls(v[i])
		}
	}
	return v
}

// SubsetOf reports whether have contains all fields of want. The API server may have added fields, and other writers
// entries in shared lists; numbers and quantities are compared by value.
func SubsetOf(want, have map[string]any) bool { return mapSubset(want, have) }

func mapSubset(want, have map[string]any) bool {
	for key, value := range want {
		current, ok := have[key]
		if !ok {
			if isEmpty(value) {
				continue
			}
			return false
		}
		if list, isList := value.([]any); isList {
			if currentList, ok := current.([]any); !ok || !listSubset(list, currentList, mergeKeys[key]) {
				return false
			}
			continue
		}
		if !valueSubset(value, current) {
			return false
		}
	}
	return true
}

// isEmpty reports whether the API server drops v when storing the object.
func isEmpty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	default:
		return false
	}
}

func valueSubset(want, have any) bool {
	switch want := want.(type) {
	case nil:
		return true
	case map[string]any:
		current, ok := have.(map[string]any)
		return ok && mapSubset(want, current)
	case []any:
		current, ok := have.([]any)
		return ok && listSubset(want, current, nil)
	default:
		return scalarEqual(want, have)
	}
}

// mergeKeys maps the field names of lists to which other writers may add entries, to the fields that identify an entry.
// All other lists are atomic: an extra entry in a role or its subjects is a difference.
var mergeKeys = map[string][]string{
	"conditions":       {"type"},
	"containers":       {"name"},
	"env":              {"name"},
	"finalizers":       {},
	"imagePullSecrets": {"name"},
	"initContainers":   {"name"},
	"ownerReferences":  {"uid"},
	"ports":            {"name", "containerPort", "port", "protocol"},
	"volumeMounts":     {"mountPath"},
	"volumes":          {"name"},
}

// listSubset compares lists by position, or, with merge keys, by the entry of the same identity.
func listSubset(want, have []any, keys []string) bool {
	if keys == nil {
		if len(want) != len(have) {
			return false
		}
		for i := range want {
			if !valueSubset(want[i], have[i]) {
				return false
			}
		}
		return true
	}
	for _, entry := range want {
		if !findEntry(entry, have, keys) {
			return false
		}
	}
	return true
}

func findEntry(entry any, have []any, keys []string) bool {
	for _, candidate := range have {
		if sameEntry(entry, candidate, keys) && valueSubset(entry, candidate) {
			return true
		}
	}
	return false
}

func sameEntry(a, b any, keys []string) bool {
	remaining, ok := a.(map[string]any)
	right, alsoOK := b.(map[string]any)
	if !ok || !alsoOK {
		return ok == alsoOK
	}
	for _, key := range keys {
		if value, ok := remaining[key]; ok && !scalarEqual(value, right[key]) {
			return false
		}
	}
	return true
}

func scalarEqual(want, have any) bool {
	if want == have {
		return true
	}
	if a, ok := toFloat(want); ok {
		if b, ok := toFloat(have); ok {
			return a == b
		}
	}
	return quantityEqual(want, have)
}

func toFloat(v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case int32:
		return float64(v), true
	case int:
		return float64(v), true
	case float64:
		return v, true
	default:
		return 0, false
	}
}

// quantityEqual reports whether two quantities have the same value, as "1000m" and "1". Different strings outside a
// quantity field that parse as equal quantities, such as "1" and "1.0" in a ConfigMap, are distinguished by the hash of
// the applied fields.
func quantityEqual(want, have any) bool {
	a, err := parseQuantity(want)
	if err != nil {
		return false
	}
	b, err := parseQuantity(have)
	return err == nil && a.Cmp(b) == 0
}

// modest matches the quantities that are compared by value. Any string of an object may look like a quantity, and
// comparing 1e999999999 with 1 takes minutes: the author of a ConfigMap could block this process.
var modest = regexp.MustCompile(`^[+-]?[0-9.]{1,24}([numkKMGTPE]i?|[eE][+-]?[0-9]{1,2})?$`)

func parseQuantity(v any) (resource.Quantity, error) {
	var text string
	switch v := v.(type) {
	case string:
		text = v
	case int64, float64:
		text = fmt.Sprint(v)
	}
	if !modest.MatchString(text) {
		return resource.Quantity{}, resource.ErrFormatWrong
	}
	return resource.ParseQuantity(text)
}
