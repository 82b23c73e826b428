// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// outputLine is a line of liqoctl in a code block of a page.
var outputLine = regexp.MustCompile(`(?m)^ (?:INFO|WARN|ERRO)  (?: ?\([^)]*\) )?(.*)$`)

// A message that is reworded changes on the pages, too: each line of output matches a format string of the code.
func TestOutputs(t *testing.T) {
	messages := readMessages(t, "../internal")
	pages, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	for _, page := range pages {
		for _, block := range codeBlock.FindAllString(read(t, page), -1) {
			for _, line := range outputLine.FindAllStringSubmatch(block, -1) {
				lines++
				if !matchesAny(messages, strings.TrimSuffix(line[1], "…")) {
					t.Errorf("%s: no message of the code reads %q", page, line[1])
				}
			}
		}
	}
	if lines < 10 {
		t.Errorf("only %d lines of output were found", lines)
	}
}

func matchesAny(messages []*regexp.Regexp, line string) bool {
	for _, m := range messages {
		if m.MatchString(line) {
			return true
		}
	}
	return false
}

// minConstant is how many letters a format string needs to identify a message.
const minConstant = 12

// readMessages returns the string expressions of all packages below a folder as patterns, with a wildcard for each value.
func readMessages(t *testing.T, root string) []*regexp.Regexp {
	t.Helper()
	var messages []*regexp.Regexp
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			expr, ok := n.(ast.Expr)
			if !ok {
				return true
			}
			text, isString := formatOf(expr)
			if isString {
				if m := messagePattern(text); m != nil {
					messages = append(messages, m)
				}
			}
			return !isString
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return messages
}

// formatOf returns a string literal, or a sum with at least one, in which %v stands for each other operand.
func formatOf(expr ast.Expr) (text string, isString bool) {
	switch e := expr.(type) {
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			text, err := strconv.Unquote(e.Value)
			return text, err == nil
		}
	case *ast.BinaryExpr:
		if e.Op != token.ADD {
			return "", false
		}
		remaining, leftIs := formatOf(e.X)
		right, rightIs := formatOf(e.Y)
		if !leftIs {
			remaining = "%v"
		}
		if !rightIs {
			right = "%v"
		}
		return remaining + right, leftIs || rightIs
	}
	return "", false
}

var (
	formatVerb = regexp.MustCompile(`%[-+# 0-9.]*[a-zA-Z]`)
	letter     = regexp.MustCompile(`[a-zA-Z]`)
)

// messagePattern matches a line that is what the format string prints, perhaps wrapped by or wrapping another message. It is nil
// if hardly anything of the format is constant.
func messagePattern(format string) *regexp.Regexp {
	parts := formatVerb.Split(strings.TrimSpace(format), -1)
	if len(letter.FindAllString(strings.Join(parts, ""), -1)) < minConstant {
		return nil
	}
	for i, part := range parts {
		parts[i] = regexp.QuoteMeta(part)
	}
	return regexp.MustCompile(`^(?:.*: )?` + strings.Join(parts, ".*") + `(?:[:.;] ?.*)?$`)
}
