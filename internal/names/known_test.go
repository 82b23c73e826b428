// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package names

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestKnownKeys(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, file := range files {
		if file == "known.go" || strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			literal, ok := n.(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				return true
			}
			if text, err := strconv.Unquote(literal.Value); err == nil && strings.HasPrefix(text, "liqo.io/") {
				found[text] = true
			}
			return true
		})
	}
	for key := range found {
		if key != "liqo.io/" && !slices.Contains(known, key) {
			t.Errorf("%s means something, and is not listed", key)
		}
	}
	for _, key := range known {
		if !found[key] {
			t.Errorf("%s is listed, and nothing has that name", key)
		}
	}
}
