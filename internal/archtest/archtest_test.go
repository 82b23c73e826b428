// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

type goPackage struct {
	ImportPath string
	Dir        string
	GoFiles    []string
	Imports    []string
	Deps       []string
}

func packages(t *testing.T) []goPackage {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,GoFiles,Imports,Deps", "./...")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("listing packages: %v", err)
	}
	var all []goPackage
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

func TestImports(t *testing.T) {
	for _, p := range packages(t) {
		for _, imp := range p.Imports {
			if s := check(p.ImportPath, imp); s != "" {
				t.Errorf("%s imports %s\n\t%s", p.ImportPath, imp, s)
			}
		}
	}
}

func TestImportTableComplete(t *testing.T) {
	// Generators, the chart and test support stand outside the product's layers.
	free := []string{"deploy/*", "internal/archtest", "internal/testkit/*", "docs/*"}
	for _, p := range packages(t) {
		r := rel(p.ImportPath)
		if !matches(free, r) && !slices.ContainsFunc(table, func(l level) bool { return matches(l.packages, r) }) {
			t.Errorf("%s is in no row of the import table", p.ImportPath)
		}
	}
}

func TestImportTableStale(t *testing.T) {
	all := packages(t)
	for _, l := range table {
		for _, pattern := range slices.Concat(l.packages, l.own) {
			if !slices.ContainsFunc(all, func(p goPackage) bool { return matches([]string{pattern}, rel(p.ImportPath)) }) {
				t.Errorf("there is no package %s, which the table names\n\t%s", pattern, l.sentence)
			}
		}
	}
}

func TestBinaryImports(t *testing.T) {
	for _, p := range packages(t) {
		for _, bad := range forbidden[rel(p.ImportPath)] {
			if i := slices.IndexFunc(p.Deps, func(d string) bool { return strings.HasPrefix(d, bad) }); i >= 0 {
				t.Errorf("%s contains %s", p.ImportPath, p.Deps[i])
			}
		}
	}
}

// Of types that reflection may ask for methods by any name, as text/template does, the linker keeps all methods: those of all
// clients and all kinds of Kubernetes, which are a third of the program.
func TestVirtualKubeletDeadCode(t *testing.T) {
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w -dumpdep", "-o", filepath.Join(t.TempDir(), "virtual-kubelet"), "./cmd/virtual-kubelet")
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("building: %v\n%s", err, out[max(0, len(out)-4096):])
	}
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "<ReflectMethod>") {
			t.Fatalf("who calls methods by names that only it knows: %s", line)
		}
	}
}

func TestImportsBrokenRule(t *testing.T) {
	for _, tc := range []struct {
		pkg, imp string
		broken   bool
	}{
		{Module + "/internal/provider", Module + "/internal/consumer", true},
		{Module + "/internal/provider", Module + "/internal/policy", false},
		{Module + "/internal/policy", "sigs.k8s.io/controller-runtime/pkg/client", true},
		{Module + "/internal/policy", "net/http", true},
		{Module + "/internal/policy", "log/slog", true},
		{Module + "/internal/policy", "regexp", false},
		{Module + "/internal/policy", Module + "/internal/pki", true},
		{Module + "/internal/virtualkubelet/translate", Module + "/internal/prefix", false},
		{Module + "/internal/pki", Module + "/internal/prefix", true},
		{Module + "/internal/pki", "k8s.io/client-go/tools/clientcmd/api", false},
		{Module + "/internal/pki", "k8s.io/client-go/tools/clientcmd", true},
		{Module + "/internal/kube", Module + "/internal/provider", true},
		{Module + "/cmd/liqoctl", Module + "/internal/virtualkubelet", true},
		{Module + "/cmd/virtual-kubelet", Module + "/internal/app/kubelet", false},
		{Module + "/internal/app/kubelet", Module + "/internal/network", true},
		{Module + "/internal/app", Module + "/internal/app/kubelet", false},
		{Module + "/api/core/v1beta1", "os", false},
	} {
		if got := check(tc.pkg, tc.imp) != ""; got != tc.broken {
			t.Errorf("%s imports %s: broken = %v, want %v", tc.pkg, tc.imp, got, tc.broken)
		}
	}
}

func TestUniqueTypeNames(t *testing.T) {
	seen := map[string]string{}
	for _, p := range packages(t) {
		if !matches(rooms, rel(p.ImportPath)) {
			continue
		}
		for _, name := range exportedTypes(t, p) {
			// Options structs are named after the function that takes them; a bare Options is a room's only one.
			if other, dup := seen[name]; dup && name != "Options" {
				t.Errorf("type %s is exported by %s and %s", name, other, p.ImportPath)
			}
			seen[name] = p.ImportPath
		}
	}
}

func exportedTypes(t *testing.T, p goPackage) []string {
	t.Helper()
	var names []string
	for _, f := range p.GoFiles {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, f), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			gen, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, s := range gen.Specs {
				if ts, ok := s.(*ast.TypeSpec); ok && ts.Name.IsExported() {
					names = append(names, ts.Name.Name)
				}
			}
		}
	}
	return names
}

// Generated code chooses its own.
func TestAPIAliases(t *testing.T) {
	seen := map[string]string{}
	walk(t, func(path string, data []byte) {
		if generated.Match(data) {
			return
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, data, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, imp := range file.Imports {
			pkg, alias := strings.Trim(imp.Path.Value, `"`), ""
			if !strings.HasPrefix(pkg, Module+"/api/") {
				continue
			}
			if imp.Name != nil {
				alias = imp.Name.Name
			}
			if other, known := seen[pkg]; !known {
				seen[pkg] = alias
			} else if other != alias {
				t.Errorf("%s imports %s as %q, others as %q", path, pkg, alias, other)
			}
		}
	})
}

func TestLicenseHeaders(t *testing.T) {
	const header = "// Copyright 2026 The liqo.io/liqo authors\n// SPDX-License-Identifier: Apache-2.0\n"
	walk(t, func(path string, data []byte) {
		if generated.Match(data) {
			return
		}
		text := string(data)
		if strings.HasPrefix(text, "//go:build") {
			_, text, _ = strings.Cut(text, "\n\n")
		}
		if !strings.HasPrefix(text, header) {
			t.Errorf("%s: no licence header", path)
		}
	})
}

func TestFileLengths(t *testing.T) {
	walk(t, func(path string, data []byte) {
		if n := bytes.Count(data, []byte("\n")); n > 600 && !generated.Match(data) && !strings.HasSuffix(path, "_test.go") {
			t.Errorf("%s has %d lines: is it one thing?", path, n)
		}
	})
}

func TestPackageNames(t *testing.T) {
	nameless := regexp.MustCompile(`/(utils?|common|helpers?|misc|types|consts)/`)
	walk(t, func(path string, _ []byte) {
		if nameless.MatchString(path) {
			t.Errorf("%s: name the package by what it provides", path)
		}
	})
}

func TestNoSkips(t *testing.T) {
	skip := regexp.MustCompile(`\bt\.Skip(Now|f)?\(`)
	walk(t, func(path string, data []byte) {
		if strings.HasSuffix(path, "_test.go") && skip.Match(data) {
			t.Errorf("%s skips: what cannot run is no test", path)
		}
	})
}

func TestRepeatableProperties(t *testing.T) {
	random, repeatable := map[string]bool{}, map[string]bool{}
	walk(t, func(path string, data []byte) {
		if folder := filepath.Dir(path); strings.HasSuffix(path, "_test.go") {
			random[folder] = random[folder] || bytes.Contains(data, []byte("\t\"pgregory.net/rapid\"\n"))
			repeatable[folder] = repeatable[folder] || bytes.Contains(data, []byte("\t_ \"liqo.io/liqo/internal/testkit/repeatable\"\n"))
		}
	})
	for folder := range random {
		if random[folder] != repeatable[folder] {
			t.Errorf("%s: property tests: %t, import of internal/testkit/repeatable: %t", folder, random[folder], repeatable[folder])
		}
	}
}

// timed is what the CLI may do by the clock, by why it cannot watch.
var timed = map[string]string{
	"internal/ctl/peering/delete_peeringuser.go": "what the API server thinks of rights is told to nobody who does not ask",
	"internal/ctl/install/steering.go":           "when API servers have read a policy is reported nowhere",
	"internal/ctl/dashboard/feed.go":             "changes are put together for a second, and certificates and Leases age without any event",
	"internal/ctl/dashboard/throughput.go":       "counters of gateways are in no object, and a rate needs two readings",
	"internal/ctl/explain/probe.go":              "when an agent sends no probes of others is in its answer only",
	"internal/ctl/install/stuck.go":              "how long a pod has been stuck changes without any event",
}

func TestCommandsWatch(t *testing.T) {
	polls := regexp.MustCompile(`\btime\.(After|Sleep|Tick|NewTicker|NewTimer)\(|\bwait\.(Poll|Until|Jitter|ExponentialBackoff)`)
	seen := map[string]bool{}
	walk(t, func(path string, data []byte) {
		file, err := filepath.Rel(root, path)
		if err != nil {
			t.Fatal(err)
		}
		if file = filepath.ToSlash(file); !strings.HasPrefix(file, "internal/ctl/") || strings.HasPrefix(file, "internal/ctl/ctltest/") || strings.HasSuffix(file, "_test.go") || !polls.Match(data) {
			return
		}
		if seen[file] = true; timed[file] == "" {
			t.Errorf("%s waits by the clock, %s: wait by await.Until, or say in timed why nothing can be watched", file, polls.Find(data))
		}
	})
	for file := range timed {
		if !seen[file] {
			t.Errorf("%s does nothing by the clock", file)
		}
	}
}

var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

func walk(t *testing.T, visit func(path string, data []byte)) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "dist" || d.Name() == "bin" || d.Name() == "node_modules"):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".go":
			return nil
		}
		data, err := os.ReadFile(path)
		if err == nil {
			visit(path, data)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
