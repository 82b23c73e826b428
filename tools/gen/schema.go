// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"maps"

	"sigs.k8s.io/yaml"
)

// rewrite makes of a CRD what no marker can express.
func rewrite(crd []byte) ([]byte, error) {
	var tree map[string]any
	if err := yaml.Unmarshal(crd, &tree); err != nil {
		return nil, err
	}
	schemas(tree)
	out, err := yaml.Marshal(tree)
	return append([]byte("---\n"), out...), err
}

// An amount of Kubernetes is parsed wherever an object is decoded, which takes minutes for 1e-999999999 and fails for 1e1.5,
// for a whole list of objects. So the API server takes only what is parsed, and at once. No amount has a sign: what a negative
// one is added to gets less.
const (
	amountPattern = `^([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?$`
	amountLength  = 64
)

// schemas rewrites each schema below node.
func schemas(node any) {
	switch n := node.(type) {
	case []any:
		for _, item := range n {
			schemas(item)
		}
	case map[string]any:
		switch {
		case n["format"] == "ip": // our own word for an address of either family
			delete(n, "format")
			n["anyOf"] = []any{map[string]any{"format": "ipv4"}, map[string]any{"format": "ipv6"}}
		case isAmount(n):
			n["pattern"], n["maxLength"], n["minimum"] = amountPattern, amountLength, 0 // of numbers, which have no pattern
		case n["x-kubernetes-preserve-unknown-fields"] == true && n["properties"] != nil:
			// What Kubernetes checks later is kept as it is, but for the amounts, which we decode before.
			left := amounts(n)
			delete(left, "nullable")
			if owned, ok := n["x-kubernetes-map-type"]; ok {
				left["x-kubernetes-map-type"] = owned
			}
			clear(n)
			maps.Copy(n, left)
		default:
			for _, child := range n {
				schemas(child)
			}
		}
	}
}

func isAmount(schema map[string]any) bool {
	return schema["x-kubernetes-int-or-string"] == true && schema["pattern"] != nil
}

// amounts is what is left of a schema when everything but amounts may be anything, nil if nothing is.
func amounts(schema map[string]any) map[string]any {
	if isAmount(schema) {
		schemas(schema)
		return schema
	}
	if fields, ok := schema["properties"].(map[string]any); ok {
		kept := map[string]any{}
		for name, field := range fields {
			if left := amounts(field.(map[string]any)); left != nil {
				kept[name] = left
			}
		}
		if len(kept) == 0 {
			return nil
		}
		return map[string]any{"type": "object", "nullable": true, "x-kubernetes-preserve-unknown-fields": true, "properties": kept}
	}
	for container, kind := range map[string]string{"items": "array", "additionalProperties": "object"} {
		if item, ok := schema[container].(map[string]any); ok {
			if left := amounts(item); left != nil {
				return map[string]any{"type": kind, "nullable": true, container: left}
			}
		}
	}
	return nil
}
