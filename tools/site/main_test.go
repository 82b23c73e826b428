// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	reference = regexp.MustCompile(`(?:href|src)="([^"#:]*)(?:#([^"]*))?"`)
	anchor    = regexp.MustCompile(` id="([^"]*)"`)
)

// The site is complete in itself: each link of each page leads to a file of the site, and to an anchor in it.
func TestSiteOfTheRepository(t *testing.T) {
	output := t.TempDir()
	if err := build("../..", output); err != nil {
		t.Fatal(err)
	}
	pages := map[string]string{}
	err := filepath.WalkDir(output, func(name string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(name) != ".html" {
			return err
		}
		data, err := os.ReadFile(name)
		pages[name] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(pages) < 30 {
		t.Errorf("only %d pages were rendered", len(pages))
	}
	anchors := map[string]map[string]bool{}
	for name, text := range pages {
		anchors[name] = map[string]bool{}
		for _, id := range anchor.FindAllStringSubmatch(text, -1) {
			anchors[name][id[1]] = true
		}
	}
	for name, text := range pages {
		for _, link := range reference.FindAllStringSubmatch(text, -1) {
			target := name
			if link[1] != "" {
				target = filepath.Join(filepath.Dir(name), link[1])
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to a file that is not in the site: %v", name, err)
			} else if link[2] != "" && anchors[target] != nil && !anchors[target][link[2]] {
				t.Errorf("%s links to %s, which has no anchor %q", name, target, link[2])
			}
		}
	}
	index, err := os.ReadFile(filepath.Join(output, "search.js"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"url":"docs/concepts.html#concepts"`, `"title":"Install, upgrade, uninstall"`, "addEventListener"} {
		if !strings.Contains(string(index), want) {
			t.Errorf("search.js has no %s", want)
		}
	}
}
