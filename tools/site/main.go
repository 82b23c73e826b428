// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Program site renders the Markdown pages of the repository as a static site with search, which needs no server and no network.
// Its arguments are the root of the repository and the folder of the site.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html/template"
	"log"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	_ "embed"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

//go:embed page.html
var layout string

//go:embed search.js
var searchScript string

// patterns match the pages, relative to the root of the repository.
var patterns = []string{"*.md", "docs/*.md", "docs/*/*.md", "examples/*/*.md", "playground/*.md"}

func main() {
	log.SetFlags(0)
	if len(os.Args) != 3 {
		log.Fatal("usage: site <root of the repository> <folder of the site>")
	}
	if err := build(os.Args[1], os.Args[2]); err != nil {
		log.Fatal(err)
	}
}

// section is one entry of the search index: the text below a heading.
type section struct {
	Page  string `json:"page"`
	Title string `json:"title"`
	URL   string `json:"url"`
	Text  string `json:"text"`
}

type site struct {
	root, output string
	pages        []string
	files        map[string]bool // files that pages link to and that are no pages
	sections     []section
	layout       *template.Template
}

func build(root, output string) error {
	t, err := template.New("page").Parse(layout)
	if err != nil {
		return fmt.Errorf("parsing the layout: %w", err)
	}
	s := &site{root: root, output: output, files: map[string]bool{}, layout: t}
	for _, pattern := range patterns {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return fmt.Errorf("finding pages: %w", err)
		}
		for _, name := range found {
			rel, err := filepath.Rel(root, name)
			if err != nil {
				return fmt.Errorf("finding pages: %w", err)
			}
			s.pages = append(s.pages, filepath.ToSlash(rel))
		}
	}
	for _, page := range s.pages {
		if err := s.render(page); err != nil {
			return fmt.Errorf("rendering %s: %w", page, err)
		}
	}
	for file := range s.files {
		data, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			return fmt.Errorf("copying a linked file: %w", err)
		}
		if err := s.write(file, data); err != nil {
			return err
		}
	}
	index, err := json.Marshal(s.sections)
	if err != nil {
		return fmt.Errorf("encoding the search index: %w", err)
	}
	// A script, because browsers load no JSON from a folder.
	if err := s.write("search.js", fmt.Appendf(nil, "const sections = %s;\n%s", index, searchScript)); err != nil {
		return err
	}
	return s.write("index.html", []byte("<!doctype html><meta http-equiv=\"refresh\" content=\"0; url=docs/README.html\"><a href=\"docs/README.html\">Documentation</a>\n"))
}

func (s *site) render(page string) error {
	source, err := os.ReadFile(filepath.Join(s.root, page))
	if err != nil {
		return err
	}
	md := goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithParserOptions(parser.WithAutoHeadingID()))
	doc := md.Parser().Parse(text.NewReader(source), parser.WithContext(parser.NewContext(parser.WithIDs(ids{}))))
	err = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Link:
			n.Destination = []byte(s.resolve(page, string(n.Destination)))
		case *ast.Image:
			n.Destination = []byte(s.resolve(page, string(n.Destination)))
		}
		return ast.WalkContinue, nil
	})
	if err != nil {
		return err
	}
	title := s.index(page, doc, source)
	var body, out bytes.Buffer
	if err := md.Renderer().Render(&body, source, doc); err != nil {
		return err
	}
	err = s.layout.Execute(&out, map[string]any{
		"Title": title,
		"Root":  strings.Repeat("../", strings.Count(page, "/")),
		"Body":  template.HTML(body.String()), // rendered without raw HTML
	})
	if err != nil {
		return err
	}
	return s.write(htmlName(page), out.Bytes())
}

func htmlName(page string) string { return strings.TrimSuffix(page, ".md") + ".html" }

// resolve returns the link of the site for a link of a page. A folder is its README, other files are copied.
func (s *site) resolve(page, link string) string {
	file, anchor, hasAnchor := strings.Cut(link, "#")
	if file == "" || strings.Contains(file, ":") {
		return link
	}
	target := path.Join(path.Dir(page), file)
	if slices.Contains(s.pages, path.Join(target, "README.md")) {
		target = path.Join(target, "README.md")
		file = path.Join(file, "README.md")
	}
	switch {
	case slices.Contains(s.pages, target):
		file = htmlName(file)
	default:
		if info, err := os.Stat(filepath.Join(s.root, target)); err == nil && info.Mode().IsRegular() {
			s.files[target] = true
		}
	}
	if hasAnchor {
		return file + "#" + anchor
	}
	return file
}

// index adds the sections of a page to the search index and returns the title of the page.
func (s *site) index(page string, doc ast.Node, source []byte) string {
	title, begin := page, len(s.sections)
	for n := doc.FirstChild(); n != nil; n = n.NextSibling() {
		if heading, is := n.(*ast.Heading); is {
			id, _ := heading.AttributeString("id")
			name := plain(heading, source)
			if heading.Level == 1 {
				title = name
			}
			s.sections = append(s.sections, section{Title: name, URL: fmt.Sprintf("%s#%s", htmlName(page), id)})
			continue
		}
		if len(s.sections) > begin {
			last := &s.sections[len(s.sections)-1]
			last.Text += plain(n, source) + " "
		}
	}
	for i := range s.sections[begin:] {
		s.sections[begin+i].Page = title
	}
	return title
}

// plain returns the words of a node and of the nodes in it.
func plain(node ast.Node, source []byte) string {
	var words []string
	_ = ast.Walk(node, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch n := n.(type) {
		case *ast.Text:
			if entering {
				words = append(words, string(n.Segment.Value(source)))
			}
		case *ast.FencedCodeBlock:
			if entering {
				words = append(words, string(n.Lines().Value(source)))
			}
		}
		return ast.WalkContinue, nil
	})
	return strings.Join(strings.Fields(strings.Join(words, " ")), " ")
}

// ids are the anchors of headings as code hosts make them, so that links work there and here.
type ids map[string]bool

var noAnchor = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)

func (i ids) Generate(heading []byte, _ ast.NodeKind) []byte {
	anchor := strings.ReplaceAll(noAnchor.ReplaceAllString(strings.ToLower(strings.TrimSpace(string(heading))), ""), " ", "-")
	unique := anchor
	for n := 1; i[unique]; n++ {
		unique = anchor + "-" + strconv.Itoa(n)
	}
	i[unique] = true
	return []byte(unique)
}

func (i ids) Put(id []byte) { i[string(id)] = true }

func (s *site) write(name string, data []byte) error {
	file := filepath.Join(s.output, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return fmt.Errorf("making a folder of the site: %w", err)
	}
	if err := os.WriteFile(file, data, 0o644); err != nil {
		return fmt.Errorf("writing the site: %w", err)
	}
	return nil
}
