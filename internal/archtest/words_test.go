// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// wordLimit is how many one-word functions, and comment lines with a subject that has no name, a package may have.
type wordLimit struct{ functions, comments int }

// wordLimits may only go down. A package that is not listed has none of either: name a function by a verb and an object, and the subject of
// a sentence by its noun.
var wordLimits = map[string]wordLimit{
	"internal/agent/gateway":   {functions: 2, comments: 0},
	"internal/consumer":        {functions: 1, comments: 0},
	"internal/ctl/install":     {functions: 1, comments: 0},
	"internal/ctl/ui":          {functions: 25, comments: 0},
	"internal/datapath":        {functions: 1, comments: 0},
	"internal/datapath/kernel": {functions: 4, comments: 0},
	"internal/datapath/wg":     {functions: 6, comments: 0},
	"internal/kube":            {functions: 9, comments: 0},
	"internal/multicluster":    {functions: 1, comments: 0},
	"internal/names":           {functions: 1, comments: 0},
	"internal/network/plan":    {functions: 5, comments: 0},
	"internal/peering":         {functions: 1, comments: 1},
	"internal/policy":          {functions: 19, comments: 0},
	"internal/prefix":          {functions: 9, comments: 0},
	"internal/provider":        {functions: 3, comments: 0},
	"internal/replicator":      {functions: 1, comments: 0},
	"internal/resourceslice":   {functions: 1, comments: 0},
	"internal/virtualkubelet":  {functions: 3, comments: 0},
	"internal/webhook":         {functions: 8, comments: 0},
}

// oneWord are names that say neither what is done nor to what. A method whose receiver completes the name is better exported or longer, too:
// a search for the word finds every other one.
var oneWord = regexp.MustCompile(`^[a-z][a-z0-9]*$`)

// vagueSubject are subjects without a name.
var vagueSubject = regexp.MustCompile(`(?i)\b(somebody|nobody|whoever|whatever|anybody|everybody|whichever)\b`)

func TestWords(t *testing.T) {
	for _, p := range packages(t) {
		name := strings.TrimPrefix(p.ImportPath, Module+"/")
		if !slices.ContainsFunc([]string{"internal/", "cmd/", "api/", "deploy"}, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) ||
			strings.HasPrefix(name, "internal/testkit") || name == "internal/archtest" {
			continue
		}
		t.Run(strings.ReplaceAll(name, "/", "_"), func(t *testing.T) {
			var functions, comments []string
			for _, file := range p.GoFiles {
				if strings.HasPrefix(file, "zz_generated") {
					continue
				}
				f, c := wordsOf(t, filepath.Join(p.Dir, file))
				functions, comments = append(functions, f...), append(comments, c...)
			}
			limit := wordLimits[name]
			if len(functions) > limit.functions {
				t.Errorf("%d functions have one-word names, at most %d may: %s", len(functions), limit.functions, strings.Join(functions, " "))
			}
			if len(comments) > limit.comments {
				t.Errorf("%d lines of comments have a subject without a name, at most %d may:\n%s", len(comments), limit.comments, strings.Join(comments, "\n"))
			}
		})
	}
}

// wordsOf returns the unexported functions of a file that have one-word names, and the lines of its comments with a vague subject.
func wordsOf(t *testing.T, file string) (functions, comments []string) {
	t.Helper()
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, file, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range f.Decls {
		if d, ok := d.(*ast.FuncDecl); ok && oneWord.MatchString(d.Name.Name) && d.Name.Name != "main" && d.Name.Name != "init" {
			functions = append(functions, d.Name.Name)
		}
	}
	for _, group := range f.Comments {
		for _, c := range group.List {
			if vagueSubject.MatchString(c.Text) {
				comments = append(comments, fset.Position(c.Pos()).String()+": "+c.Text)
			}
		}
	}
	return functions, comments
}

func TestDocComments(t *testing.T) {
	walk(t, func(path string, data []byte) {
		if strings.HasSuffix(path, "_test.go") {
			return
		}
		for _, c := range misnamedComments(t, path, data) {
			t.Errorf("%s: a doc comment begins with the name that it documents", c)
		}
	})
}

// misnamedComments returns the doc comments of functions and types, with their places, that begin with another word than the name.
func misnamedComments(t *testing.T, path string, source any) (out []string) {
	t.Helper()
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, path, source, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	check := func(name *ast.Ident, doc *ast.CommentGroup) {
		if text := doc.Text(); text != "" && !regexp.MustCompile(`^`+name.Name+`\b`).MatchString(text) {
			out = append(out, fset.Position(doc.Pos()).String()+": "+strings.SplitN(text, "\n", 2)[0])
		}
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			check(d.Name, d.Doc)
		case *ast.GenDecl:
			for _, s := range d.Specs {
				if s, ok := s.(*ast.TypeSpec); ok && d.Lparen.IsValid() {
					check(s.Name, s.Doc)
				} else if ok {
					check(s.Name, d.Doc)
				}
			}
		}
	}
	return out
}

func TestMisnamedComments(t *testing.T) {
	got := misnamedComments(t, "testdata/comments.go.txt", nil)
	want := []string{"testdata/comments.go.txt:3:1: Read returns the state.", "testdata/comments.go.txt:9:1: An X is a type.", "testdata/comments.go.txt:14:2: Z is a type of a group."}
	if !slices.Equal(got, want) {
		t.Errorf("misnamed comments: %q, want %q", got, want)
	}
}

func TestWordsOf(t *testing.T) {
	functions, comments := wordsOf(t, "testdata/words.go.txt")
	if got := strings.Join(functions, " "); got != "look tell" {
		t.Errorf("one-word functions: %s", got)
	}
	if len(comments) != 1 || !strings.Contains(comments[0], "whoever asks") {
		t.Errorf("vague comments: %q", comments)
	}
}
