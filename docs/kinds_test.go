// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

const (
	kindsDir = "api"
	apiRoot  = "liqo.io/liqo/api/"
)

// The pages about kinds say what the types in api/ say, and of defaults and allowed values what the CRDs say.
func TestKindReference(t *testing.T) {
	types, groups := readTypes(t), readCRDs(t)
	want := map[string]string{"README.md": kindsIndex(types, groups)}
	for group, crds := range groups {
		p := &kindsPage{types: types, shown: map[goName]string{}}
		p.write(group, crds)
		want[groupPage(group)] = p.text.String()
		for _, field := range p.bare {
			t.Errorf("%s has no description: give it a comment in api/", field)
		}
	}
	got := map[string]string{}
	pages, err := filepath.Glob(kindsDir + "/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		got[filepath.Base(page)] = read(t, page)
	}
	if diff := gocmp.Diff(want, got); diff != "" && !*update {
		t.Errorf("docs/api is old, rewrite it: go test ./docs -run Reference -update (-types +pages)\n%s", diff)
	}
	if *update {
		writePages(t, got, want)
	}
}

// readCRDs returns those of the chart, by group.
func readCRDs(t *testing.T) map[string][]apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	files, err := filepath.Glob("../deploy/chart/crds/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no CRDs were found", err)
	}
	groups := map[string][]apiextensionsv1.CustomResourceDefinition{}
	for _, file := range files {
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.UnmarshalStrict([]byte(read(t, file)), &crd); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		groups[crd.Spec.Group] = append(groups[crd.Spec.Group], crd)
	}
	return groups
}

var yamlBlock = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```")

// A manifest copied from a page is accepted: the CRDs know each field and allow each value.
func TestManifests(t *testing.T) {
	groups := readCRDs(t)
	found, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, page := range append(found, "../examples/networking/README.md") {
		for _, block := range yamlBlock.FindAllStringSubmatch(read(t, page), -1) {
			for doc := range strings.SplitSeq(block[1], "---\n") {
				var object map[string]any
				if err := yaml.Unmarshal([]byte(doc), &object); err != nil {
					continue // two columns, or a part of a list
				}
				group, _, _ := strings.Cut(fmt.Sprint(object["apiVersion"]), "/")
				for _, crd := range groups[group] {
					if crd.Spec.Names.Kind == object["kind"] {
						checked++
						for _, problem := range unknown(crd.Spec.Names.Kind, object, crd.Spec.Versions[0].Schema.OpenAPIV3Schema) {
							t.Errorf("%s: %s", page, problem)
						}
					}
				}
			}
		}
	}
	if checked < 10 {
		t.Errorf("only %d manifests were found", checked)
	}
}

// unknown lists what a schema does not know.
func unknown(at string, value any, schema *apiextensionsv1.JSONSchemaProps) []string {
	var problems []string
	switch v := value.(type) {
	case map[string]any:
		for key, child := range v {
			field, known := schema.Properties[key]
			switch {
			case known:
				problems = append(problems, unknown(at+"."+key, child, &field)...)
			case schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil:
				problems = append(problems, unknown(at+"."+key, child, schema.AdditionalProperties.Schema)...)
			case schema.XPreserveUnknownFields == nil && schema.Properties != nil:
				problems = append(problems, at+" has no field "+key)
			}
		}
	case []any:
		for i, child := range v {
			if of := items(schema); of != nil {
				problems = append(problems, unknown(fmt.Sprintf("%s[%d]", at, i), child, of)...)
			}
		}
	case string:
		if len(schema.Enum) > 0 && !slices.ContainsFunc(schema.Enum, func(e apiextensionsv1.JSON) bool { return string(e.Raw) == strconv.Quote(v) }) {
			problems = append(problems, at+" cannot be "+v)
		}
	}
	return problems
}

func writePages(t *testing.T, got, want map[string]string) {
	t.Helper()
	for name := range got {
		if err := os.Remove(filepath.Join(kindsDir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(kindsDir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range want {
		if err := os.WriteFile(filepath.Join(kindsDir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// goName is a type of api/: the folder of its package below api/, and its name there.
type goName struct{ dir, name string }

// goType is what the source says of one.
type goType struct {
	node    ast.Expr
	doc     string
	imports map[string]string // paths by the names that the file gives them
	values  []string          // of its constants
}

// readTypes parses all packages of api/.
func readTypes(t *testing.T) map[goName]*goType {
	t.Helper()
	files, err := filepath.Glob("../api/*/*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	deeper, err := filepath.Glob("../api/*/*/*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	types, values := map[goName]*goType{}, map[goName][]string{}
	for _, name := range slices.Concat(files, deeper) {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		dir := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(name)), "../api/")
		imports := importsOf(file)
		for _, decl := range file.Decls {
			all, ok := decl.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range all.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					types[goName{dir, spec.Name.Name}] = &goType{node: spec.Type, doc: prose(all.Doc), imports: imports}
				case *ast.ValueSpec:
					if of, ok := spec.Type.(*ast.Ident); ok && len(spec.Values) == 1 {
						if lit, ok := spec.Values[0].(*ast.BasicLit); ok && lit.Kind == token.STRING {
							value, _ := strconv.Unquote(lit.Value)
							values[goName{dir, of.Name}] = append(values[goName{dir, of.Name}], value)
						}
					}
				}
			}
		}
	}
	for name, all := range values {
		if types[name] != nil {
			types[name].values = all
		}
	}
	return types
}

func importsOf(file *ast.File) map[string]string {
	imports := map[string]string{}
	for _, spec := range file.Imports {
		from, _ := strconv.Unquote(spec.Path.Value)
		name := path.Base(from)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		imports[name] = from
	}
	return imports
}

// prose is a comment without the markers in it, in one line.
func prose(comment *ast.CommentGroup) string {
	var words []string
	for line := range strings.Lines(comment.Text()) {
		if !strings.HasPrefix(line, "+") {
			words = append(words, strings.Fields(line)...)
		}
	}
	return strings.ReplaceAll(strings.Join(words, " "), "|", `\|`)
}

func groupPage(group string) string {
	short, _, _ := strings.Cut(group, ".")
	return short + ".md"
}

func versionDir(crd *apiextensionsv1.CustomResourceDefinition) string {
	short, _, _ := strings.Cut(crd.Spec.Group, ".")
	return short + "/" + crd.Spec.Versions[0].Name
}

func kindsIndex(types map[goName]*goType, groups map[string][]apiextensionsv1.CustomResourceDefinition) string {
	var text strings.Builder
	text.WriteString("# Kinds\n\n" +
		"These pages are made from the types in `api/` and from the CRDs; a test compares them. What differs from the original's is in [compatibility.md](../compatibility.md).\n\n" +
		"| kind | | |\n|---|---|---|\n")
	for _, group := range slices.Sorted(maps.Keys(groups)) {
		for _, crd := range groups[group] {
			names := crd.Spec.Names
			fmt.Fprintf(&text, "| [%s](%s#%s) | `%s` | %s |\n", names.Kind, groupPage(group), strings.ToLower(names.Kind), group,
				types[goName{versionDir(&crd), names.Kind}].doc)
		}
	}
	return text.String()
}

// kindsPage is the page of a group.
type kindsPage struct {
	text  strings.Builder
	types map[goName]*goType
	shown map[goName]string // where the fields of a type stand on the page
	kind  string
	bare  []string // fields without a description
}

func (p *kindsPage) write(group string, crds []apiextensionsv1.CustomResourceDefinition) {
	fmt.Fprintf(&p.text, "# %s\n\nThis page is made from the types and the CRDs: [the other groups](README.md). A type with a capital letter is one of Kubernetes.\n", group)
	for _, crd := range crds {
		names, version := crd.Spec.Names, crd.Spec.Versions[0]
		p.kind = names.Kind
		name := goName{versionDir(&crd), names.Kind}
		fmt.Fprintf(&p.text, "\n## %s\n\n%s\n\n`apiVersion: %s/%s`, plural `%s`", names.Kind, p.types[name].doc, group, version.Name, names.Plural)
		if len(names.ShortNames) > 0 {
			fmt.Fprintf(&p.text, ", short `%s`", strings.Join(names.ShortNames, "`, `"))
		}
		fmt.Fprintf(&p.text, ", %s.\n\n| field | type | |\n|---|---|---|\n", map[apiextensionsv1.ResourceScope]string{
			apiextensionsv1.NamespaceScoped: "in a namespace", apiextensionsv1.ClusterScoped: "of the whole cluster",
		}[crd.Spec.Scope])
		p.fields("", name, version.Schema.OpenAPIV3Schema)
	}
}

// fields writes the rows of a struct, and of what is in it.
func (p *kindsPage) fields(at string, of goName, schema *apiextensionsv1.JSONSchemaProps) {
	t := p.types[of]
	for _, f := range t.node.(*ast.StructType).Fields.List {
		name := jsonName(f)
		if name == "" || (at == "" && name == "metadata") {
			continue
		}
		field := goField{p: p, goName: fieldName(f), from: goName{of.dir, ""}, imports: t.imports, at: at + name, required: slices.Contains(schema.Required, name)}
		if s, ok := schema.Properties[name]; ok {
			field.schema = &s
		}
		field.write(prose(f.Doc), f.Type)
	}
}

func fieldName(f *ast.Field) string {
	if len(f.Names) == 0 {
		return ""
	}
	return f.Names[0].Name
}

func jsonName(f *ast.Field) string {
	if f.Tag == nil {
		return ""
	}
	tag, _ := strconv.Unquote(f.Tag.Value)
	name, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
	return name
}

// goField is a field on its way to the page: its type is unwrapped step by step, and the schema with it.
type goField struct {
	p        *kindsPage
	goName   string
	from     goName // the package of the type
	imports  map[string]string
	at       string
	schema   *apiextensionsv1.JSONSchemaProps
	required bool
}

func (f goField) write(doc string, node ast.Expr) {
	outer, wrapped := f.schema, ""
	var own *goType
	var name goName
	kind := ""
	for kind == "" {
		switch n := node.(type) {
		case *ast.StarExpr:
			node = n.X
		case *ast.ArrayType:
			if id, ok := n.Elt.(*ast.Ident); ok && id.Name == "byte" {
				kind = "base64"
				break
			}
			wrapped, f.at, node, f.schema = wrapped+"list of ", f.at+"[]", n.Elt, items(f.schema)
		case *ast.MapType:
			wrapped, f.at, node, f.schema = wrapped+"map of ", f.at+".<key>", n.Value, values(f.schema)
		case *ast.Ident:
			name = goName{f.from.dir, n.Name}
			kind, own, node = f.named(n.Name, name)
		case *ast.SelectorExpr:
			from := f.imports[n.X.(*ast.Ident).Name]
			dir, owned := strings.CutPrefix(from, apiRoot)
			if !owned {
				kind = foreign(n.Sel.Name, f.schema)
				break
			}
			name = goName{dir, n.Sel.Name}
			kind, own, node = f.named(n.Sel.Name, name)
		}
	}
	text := []string{doc}
	if doc == "" && own != nil {
		text = []string{f.asField(own.doc, name.name, wrapped)}
	}
	if text[0] == "" {
		f.p.bare = append(f.p.bare, f.p.kind+" "+f.at)
	}
	if f.required && !strings.HasPrefix(f.at, "status") {
		text = append(text, "Required.")
	}
	text = append(text, limits(outer)...)
	if outer != f.schema {
		text = append(text, limits(f.schema)...)
	}
	row := func() {
		fmt.Fprintf(&f.p.text, "| `%s` | %s | %s |\n", strings.TrimSuffix(strings.TrimSuffix(f.at, "[]"), ".<key>"), wrapped+kind, strings.Join(text, " "))
	}
	strct, isStruct := (*ast.StructType)(nil), false
	if own != nil {
		strct, isStruct = own.node.(*ast.StructType)
	}
	if !isStruct {
		row()
		return
	}
	if types, statuses, ok := f.p.condition(name, strct); ok {
		kind = "Condition"
		text = append(text, said("Types", types), said("Statuses", statuses))
		text = slices.DeleteFunc(text, func(s string) bool { return s == "" })
		row()
		return
	}
	kind = "object"
	if there, ok := f.p.shown[name]; ok && len(strct.Fields.List) > 1 {
		text = append(text, "Its fields are those of "+there+".")
		row()
		return
	}
	f.p.shown[name] = "`" + f.at + "` of " + f.p.kind
	row()
	f.p.fields(f.at+".", name, f.schema)
}

// asField is what a type says of itself, said of the field.
func (f *goField) asField(doc, name, wrapped string) string {
	if rest, ok := strings.CutPrefix(doc, name+" "); ok && wrapped == "" {
		return f.goName + " " + rest
	}
	return doc
}

// named resolves a name of Go or of a package of api/: a kind for the page, or a node to go on with.
func (f *goField) named(word string, name goName) (kind string, own *goType, next ast.Expr) {
	own = f.p.types[name]
	if own == nil {
		return basic(word), nil, nil
	}
	switch n := own.node.(type) {
	case *ast.StructType:
		return "object", own, nil
	case *ast.Ident:
		return basic(n.Name), own, nil
	default:
		f.from, f.imports = goName{name.dir, ""}, own.imports
		return "", nil, n
	}
}

func basic(word string) string {
	switch {
	case strings.HasPrefix(word, "int"):
		return "integer"
	case word == "bool":
		return "boolean"
	}
	return word
}

// foreign is a type of Kubernetes.
func foreign(name string, schema *apiextensionsv1.JSONSchemaProps) string {
	switch {
	case name == "ResourceList":
		return "map of amounts"
	case name == "RawExtension":
		return "object"
	case schema != nil && schema.Format == "date-time":
		return "time"
	case schema != nil && (schema.Type == "string" || schema.Type == "integer"):
		return schema.Type
	}
	return name
}

// condition tells whether a struct is like a condition of Kubernetes, which needs no rows, and which types and statuses it may have.
func (p *kindsPage) condition(name goName, s *ast.StructType) (types, statuses []string, ok bool) {
	if !strings.HasSuffix(name.name, "Condition") {
		return nil, nil, false
	}
	for _, f := range s.Fields.List {
		id, local := f.Type.(*ast.Ident)
		if !local || p.types[goName{name.dir, id.Name}] == nil {
			continue
		}
		switch jsonName(f) {
		case "type":
			types = p.types[goName{name.dir, id.Name}].values
		case "status":
			statuses = p.types[goName{name.dir, id.Name}].values
		}
	}
	return types, statuses, true
}

func items(s *apiextensionsv1.JSONSchemaProps) *apiextensionsv1.JSONSchemaProps {
	if s == nil || s.Items == nil {
		return nil
	}
	return s.Items.Schema
}

func values(s *apiextensionsv1.JSONSchemaProps) *apiextensionsv1.JSONSchemaProps {
	if s == nil || s.AdditionalProperties == nil {
		return nil
	}
	return s.AdditionalProperties.Schema
}

// limits are what the API server fills in and refuses.
func limits(s *apiextensionsv1.JSONSchemaProps) []string {
	if s == nil {
		return nil
	}
	var text []string
	if s.Default != nil {
		text = append(text, fmt.Sprintf("Default `%s`.", strings.Trim(string(s.Default.Raw), `"`)))
	}
	var allowed []string
	for _, v := range s.Enum {
		allowed = append(allowed, strings.Trim(string(v.Raw), `"`))
	}
	text = append(text, said("One of", allowed))
	if s.Minimum != nil {
		text = append(text, fmt.Sprintf("At least %v.", *s.Minimum))
	}
	if n := cmp.Or(s.MaxLength, s.MaxItems); n != nil {
		text = append(text, fmt.Sprintf("At most %d %s.", *n, map[bool]string{true: "characters", false: "elements"}[s.MaxLength != nil]))
	}
	for _, rule := range s.XValidations {
		message := strings.ToUpper(rule.Message[:1]) + rule.Message[1:] + "."
		if !slices.Contains(text, message) {
			text = append(text, message)
		}
	}
	return slices.DeleteFunc(text, func(s string) bool { return s == "" })
}

func said(what string, all []string) string {
	all = slices.DeleteFunc(slices.Clone(all), func(s string) bool { return s == "" })
	if len(all) == 0 {
		return ""
	}
	return what + " `" + strings.Join(all, "`, `") + "`."
}
