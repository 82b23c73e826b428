// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	pathSpan       = regexp.MustCompile("`((?:internal|test|cmd|tools|deploy|examples)/[a-zA-Z0-9_./-]+)`")
	identifierSpan = regexp.MustCompile("`([a-z]+)\\.((?:[A-Z][A-Za-z]*\\.)*[A-Z][A-Za-z]*)`")
	testSpan       = regexp.MustCompile("`(Test[A-Z][A-Za-z]+)`")
)

// Design pages name packages, files, identifiers and tests: a rename in the code is one on the page.
func TestDesignPageNames(t *testing.T) {
	code := map[string]*strings.Builder{} // by package name
	err := filepath.WalkDir("../internal", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Ext(name) != ".go" {
			return err
		}
		pkg := filepath.Base(filepath.Dir(name))
		if code[pkg] == nil {
			code[pkg] = &strings.Builder{}
		}
		code[pkg].WriteString(read(t, name))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob("design/*.md")
	if err != nil || len(pages) < 10 {
		t.Fatalf("%d design pages were found: %v", len(pages), err)
	}
	names := 0
	for _, page := range pages {
		text := read(t, page)
		for _, m := range pathSpan.FindAllStringSubmatch(text, -1) {
			names++
			if _, err := os.Stat(filepath.Join("..", m[1])); err != nil {
				t.Errorf("%s: %v", page, err)
			}
		}
		for _, m := range identifierSpan.FindAllStringSubmatch(text, -1) {
			if code[m[1]] == nil {
				continue // of a library
			}
			names++
			for identifier := range strings.SplitSeq(m[2], ".") {
				if !regexp.MustCompile(`\b` + identifier + `\b`).MatchString(code[m[1]].String()) {
					t.Errorf("%s: package %s has no %s", page, m[1], identifier)
				}
			}
		}
		for _, m := range testSpan.FindAllStringSubmatch(text, -1) {
			names++
			found := false
			for _, text := range code {
				found = found || strings.Contains(text.String(), "func "+m[1]+"(")
			}
			if !found {
				t.Errorf("%s: there is no %s", page, m[1])
			}
		}
	}
	if names < 20 {
		t.Errorf("only %d names were found", names)
	}
}
