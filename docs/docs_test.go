// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package docs holds the pages for users, and the tests that keep them true.
package docs

import (
	"bytes"
	"encoding/xml"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "rewrite the parts of the pages that come from files of the chart")

func read(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// included compares the text between two comments of a page with what it should be, or writes it there.
func included(t *testing.T, page, name, want string) {
	t.Helper()
	text := read(t, page)
	begin, end := "<!-- begin "+name+" -->\n", "<!-- end "+name+" -->"
	before, rest, ok := strings.Cut(text, begin)
	got, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has no part %q", page, name)
	}
	if *update {
		if err := os.WriteFile(page, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s, part %q, is old, rewrite it: go test ./docs -update (-chart +page)\n%s", page, name, diff)
	}
}

func TestIneffectiveValuesListed(t *testing.T) {
	var values map[string]any
	if err := yaml.Unmarshal([]byte(read(t, "../deploy/chart/files/no-effect.yaml")), &values); err != nil {
		t.Fatal(err)
	}
	keys := slices.Sorted(maps.Keys(values))
	included(t, "compatibility.md", "values without effect", "```\n"+strings.Join(keys, "\n")+"\n```\n")
}

// Each value of the profile has a comment above it that says what it does.
func TestHardenedValues(t *testing.T) {
	var path []string
	var reason string
	text := "| value | | what it does |\n|---|---|---|\n"
	for line := range strings.Lines(read(t, "../deploy/chart/values-hardened.yaml")) {
		trimmed := strings.TrimSpace(line)
		if said, is := strings.CutPrefix(trimmed, "# -- "); is {
			reason = said
			continue
		}
		key, value, found := strings.Cut(trimmed, ":")
		if !found || strings.HasPrefix(trimmed, "#") {
			continue
		}
		depth := (len(line) - len(strings.TrimLeft(line, " "))) / 2
		path = append(path[:depth], strings.Trim(key, `"`))
		if value = strings.TrimSpace(value); value == "" {
			continue
		}
		if reason == "" {
			t.Errorf("%s has no comment", strings.Join(path, "."))
		}
		text += "| `" + strings.Join(path, ".") + "` | `" + value + "` | " + reason + " |\n"
		reason = ""
	}
	included(t, "security-provider.md", "hardened profile", text)
}

// Every file of rights is that of one process. What a process is not bound to by the chart is explained row by row, below.
func TestProcessPermissionsListed(t *testing.T) {
	files, err := filepath.Glob("../deploy/chart/files/rbac/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no rights were found", err)
	}
	var text strings.Builder
	for _, file := range files {
		for doc := range strings.SplitSeq(read(t, file), "---\n") {
			var role rbacv1.ClusterRole // a Role has the same fields
			if err := yaml.UnmarshalStrict([]byte(doc), &role); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if role.Name != "" && role.Name != "liqo-virtual-kubelet" && (role.Namespace == "" || role.Namespace == "liqo") {
				text.WriteString(rights(&role))
			}
		}
	}
	included(t, "permissions.md", "rights of processes", "```\n"+strings.TrimSuffix(text.String(), "\n")+"```\n")
}

func rights(role *rbacv1.ClusterRole) string {
	where := "in the whole cluster"
	if role.Namespace != "" {
		where = "in the namespace of the installation"
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "%s, %s\n", role.Name, where)
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	var rows []string
	for _, rule := range role.Rules {
		only := ""
		if len(rule.ResourceNames) > 0 {
			only = " only " + strings.Join(rule.ResourceNames, ", ")
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				rows = append(rows, fmt.Sprintf("  %s\t%s%s\n", strings.TrimPrefix(group+"/"+resource, "/"), strings.Join(rule.Verbs, " "), only))
			}
		}
		for _, url := range rule.NonResourceURLs {
			rows = append(rows, fmt.Sprintf("  %s\t%s\n", url, strings.Join(rule.Verbs, " ")))
		}
	}
	slices.Sort(rows)
	fmt.Fprint(w, strings.Join(rows, ""))
	w.Flush()
	out.WriteByte('\n')
	return out.String()
}

// The roles that the chart does not bind are explained row by row: the table of each stands under a heading with its name.
func TestDelegatedRolesListed(t *testing.T) {
	want := map[string][]string{}
	role := ""
	for line := range strings.Lines(read(t, "../deploy/testdata/roles.txt")) {
		fields := strings.Fields(line)
		switch {
		case len(fields) == 0:
		case !strings.HasPrefix(line, " "):
			role = fields[0]
		default:
			// The columns are two spaces apart, and neither has two spaces in it.
			resource, verbs, _ := strings.Cut(strings.TrimSpace(line), "  ")
			want[role] = append(want[role], resource+": "+strings.TrimSpace(verbs))
		}
	}
	got := map[string][]string{}
	role = ""
	for line := range strings.Lines(read(t, "permissions.md")) {
		if heading := regexp.MustCompile("^#+ (`([a-z-]+)`)?").FindStringSubmatch(line); heading != nil {
			role = heading[2]
		}
		if role == "" || !strings.HasPrefix(line, "| `") {
			continue
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 3 || strings.TrimSpace(cells[2]) == "" {
			t.Errorf("%s: a row is resource, verbs and why: %s", role, line)
			continue
		}
		got[role] = append(got[role], strings.ReplaceAll(strings.TrimSpace(cells[0]), "`", "")+": "+strings.TrimSpace(cells[1]))
	}
	for _, rows := range []map[string][]string{want, got} { // the page has an order of its own
		for role := range rows {
			slices.Sort(rows[role])
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("permissions.md and the roles of the chart differ (-chart +page):\n%s", diff)
	}
}

// sources returns the Go files below a folder, by name.
func sources(t *testing.T, root string, wanted func(name string) bool) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Ext(name) != ".go" || !wanted(name) {
			return err
		}
		files[name] = read(t, name)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func isProduct(name string) bool { return !strings.HasSuffix(name, "_test.go") }

func isTest(name string) bool { return strings.HasSuffix(name, "_test.go") }

// Users search for a reason that they see. A heading that begins with the reason explains it, so that its anchor is its name; the first
// column of a table explains reasons of success.
func TestReasons(t *testing.T) {
	var code strings.Builder
	for _, root := range []string{"../internal", "../api"} {
		for _, text := range sources(t, root, isProduct) {
			code.WriteString(text)
		}
	}
	page := read(t, "troubleshooting.md")
	said := regexp.MustCompile(`(?m)(?:kube\.Invalid\(|corev1\.EventType\w+, |^(?:const)?\s*[rR]eason[A-Z]\w* += )"([A-Z][A-Za-z]+)"`)
	for _, r := range said.FindAllStringSubmatch(code.String(), -1) {
		if !strings.Contains(page, "`"+r[1]+"`") {
			t.Errorf("troubleshooting.md does not explain %s", r[1])
		}
	}
	explained := 0
	for _, place := range regexp.MustCompile("(?m)^(?:### |\\| )`[A-Z][^|\n]*").FindAllString(page, -1) {
		for _, r := range regexp.MustCompile("`([A-Z][A-Za-z]+)`").FindAllStringSubmatch(place, -1) {
			explained++
			if !strings.Contains(code.String(), `"`+r[1]+`"`) {
				t.Errorf("troubleshooting.md explains %s, which nothing says", r[1])
			}
		}
	}
	if explained < 100 {
		t.Errorf("only %d reasons are explained", explained)
	}
}

// Equal headings would share an anchor. Each heading for a problem has its meaning, a command to look and one to mend.
func TestTroubleshootingAnchors(t *testing.T) {
	page := read(t, "troubleshooting.md")
	seen := map[string]bool{}
	for _, m := range headingLine.FindAllStringSubmatch(codeBlock.ReplaceAllString(page, ""), -1) {
		if a := anchor(m[1]); seen[a] {
			t.Errorf("several headings have the anchor %q", a)
		} else {
			seen[a] = true
		}
	}
	for _, part := range strings.Split(page, "\n### ")[1:] {
		heading, text, _ := strings.Cut(part, "\n")
		text, _, _ = strings.Cut(text, "\n## ")
		look, mend, _ := strings.Cut(codeBlock.FindString(text), "\n# mend\n")
		if strings.TrimSpace(strings.TrimPrefix(look, "```")) == "" || strings.TrimSpace(strings.TrimSuffix(mend, "```")) == "" {
			t.Errorf("%s: a command to look or one to mend is missing", heading)
		}
		if before, _, _ := strings.Cut(text, "```"); strings.TrimSpace(before) == "" {
			t.Errorf("%s: what it means is missing", heading)
		}
	}
}

// Errors and comments name existing pages, and existing headings of them.
func TestPagesNamedInCode(t *testing.T) {
	named := regexp.MustCompile(`docs/([a-z-]+\.md)(?:#([a-z0-9-]+))?`)
	anchors := 0
	for _, root := range []string{"../internal", "../cmd", "../test"} {
		for file, text := range sources(t, root, func(string) bool { return true }) {
			for _, m := range named.FindAllStringSubmatch(text, -1) {
				if _, err := os.Stat(m[1]); err != nil {
					t.Errorf("%s: %v", file, err)
				} else if m[2] != "" && !parts(read(t, m[1]))[m[2]] {
					t.Errorf("%s: %s has no part %q", file, m[1], m[2])
				}
				if m[2] != "" && isProduct(file) {
					anchors++
				}
			}
		}
	}
	if anchors < 10 {
		t.Errorf("only %d parts of pages are named", anchors)
	}
}

// The threat model names the test of each attack: a renamed test would make it wrong.
func TestThreatModelTests(t *testing.T) {
	var tests strings.Builder
	for _, root := range []string{"../internal", "../api", "../deploy", "../test"} {
		for _, text := range sources(t, root, isTest) {
			tests.WriteString(text)
		}
	}
	found := regexp.MustCompile("`(Test[A-Za-z0-9_]+)").FindAllStringSubmatch(read(t, "threat-model.md"), -1)
	for _, m := range found {
		if !strings.Contains(tests.String(), "\nfunc "+m[1]+"(t *testing.T)") {
			t.Errorf("threat-model.md names %s, which does not exist", m[1])
		}
	}
	if len(found) < 50 {
		t.Errorf("only %d tests are named", len(found))
	}
}

func TestCompatibilityCommands(t *testing.T) {
	table := read(t, "compatibility.md")
	for _, command := range regexp.MustCompile("(?m)^## liqoctl (.+)$").FindAllStringSubmatch(read(t, "cli.md"), -1) {
		if !strings.Contains(table, "`"+command[1]+"`") {
			t.Errorf("compatibility.md does not mention liqoctl %s", command[1])
		}
	}
}

var (
	link        = regexp.MustCompile(`\]\(([^)#:\s]*)(?:#([^)\s]*))?\)`)
	headingLine = regexp.MustCompile(`(?m)^#+ (.*)$`)
	codeBlock   = regexp.MustCompile("(?ms)^```.*?^```")
	noPart      = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

// parts are the anchors of the headings of a page.
func parts(page string) map[string]bool {
	all := map[string]bool{}
	for _, m := range headingLine.FindAllStringSubmatch(codeBlock.ReplaceAllString(page, ""), -1) {
		all[anchor(m[1])] = true
	}
	return all
}

// anchor returns the anchor of a heading, as GitHub makes it.
func anchor(heading string) string {
	return strings.ReplaceAll(noPart.ReplaceAllString(strings.ToLower(strings.TrimSpace(heading)), ""), " ", "-")
}

func TestLinks(t *testing.T) {
	pages, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	more, err := filepath.Glob("*/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range slices.Concat(pages, more, []string{"../README.md", "../CONTRIBUTING.md", "../CHANGELOG.md", "../examples/networking/README.md"}) {
		for _, m := range link.FindAllStringSubmatch(read(t, page), -1) {
			target := page
			if m[1] != "" {
				target = filepath.Join(filepath.Dir(page), m[1])
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: %v", page, err)
			} else if m[2] != "" && filepath.Ext(target) == ".md" && !parts(read(t, target))[m[2]] {
				t.Errorf("%s: %s has no part %q", page, target, m[2])
			}
		}
	}
}

func TestIndex(t *testing.T) {
	pages, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	index := read(t, "README.md")
	for _, page := range pages {
		if page != "README.md" && !strings.Contains(index, "]("+page) {
			t.Errorf("docs/README.md does not lead to %s", page)
		}
	}
}

// A picture is text that a browser draws: well-formed, with a title and a description for screen readers, colours for light and dark
// themes, and nothing that is fetched or run. A page shows it.
func TestPictures(t *testing.T) {
	pictures, err := filepath.Glob("pictures/*")
	if err != nil || len(pictures) < 5 {
		t.Fatalf("%d pictures were found: %v", len(pictures), err)
	}
	index := read(t, "README.md")
	for _, picture := range pictures {
		text := read(t, picture)
		if path.Ext(picture) == ".png" { // what browsers show, taken by a test
			if len(text) > 150_000 || !strings.HasPrefix(text, "\x89PNG") || !strings.Contains(index, "]("+picture+")") {
				t.Errorf("%s is no PNG, is too large with %d bytes, or docs/README.md does not lead to it", picture, len(text))
			}
			continue
		}
		var svg struct {
			XMLName xml.Name `xml:"http://www.w3.org/2000/svg svg"`
			Title   string   `xml:"title"`
			Desc    string   `xml:"desc"`
		}
		if err := xml.Unmarshal([]byte(text), &svg); err != nil || svg.Title == "" || svg.Desc == "" {
			t.Errorf("%s is no picture with a title and a description: %v", picture, err)
		}
		if !strings.Contains(text, "prefers-color-scheme: dark") {
			t.Errorf("%s has no colours for dark themes", picture)
		}
		if found := regexp.MustCompile(`<script|<image|href=|@import|url\([^#]|\son\w+=`).FindString(text); found != "" {
			t.Errorf("%s runs or fetches something: %s", picture, found)
		}
		if !strings.Contains(index, "]("+picture+")") {
			t.Errorf("docs/README.md does not lead to %s", picture)
		}
	}
}
