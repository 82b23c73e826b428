// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"sigs.k8s.io/yaml"
)

// everything has every value of the chart, each different from its default.
func everything(t testing.TB) values {
	t.Helper()
	data, err := os.ReadFile("testdata/everything.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, data)
}

func parse(t testing.TB, data []byte) values {
	t.Helper()
	out := values{}
	if err := yaml.UnmarshalStrict(data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func chartFile(t testing.TB, name string) []byte {
	t.Helper()
	data, err := fs.ReadFile(Chart(), name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// shape is as much of JSON schema as values.schema.json uses.
type shape struct {
	Ref                  string           `json:"$ref"`
	Properties           map[string]shape `json:"properties"`
	AdditionalProperties any              `json:"additionalProperties"`
	Definitions          map[string]shape `json:"definitions"`
}

// paths of the values that the schema knows. A map whose keys are the user's is one value.
func (s shape) paths(prefix string, root shape) []string {
	if s.Ref != "" {
		s = root.Definitions[strings.TrimPrefix(s.Ref, "#/definitions/")]
	}
	if s.AdditionalProperties != false {
		return []string{prefix}
	}
	var out []string
	for _, key := range slices.Sorted(maps.Keys(s.Properties)) {
		out = append(out, s.Properties[key].paths(join(prefix, key), root)...)
	}
	return out
}

func join(prefix, key string) string {
	if prefix == "" {
		return key
	}
	return prefix + "." + key
}

func knownPaths(t testing.TB) []string {
	t.Helper()
	var root shape
	if err := json.Unmarshal(chartFile(t, "values.schema.json"), &root); err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(root.paths("", root), func(p string) bool { return p == "global" }) // Helm's own
}

// at returns the value of a path.
func at(v any, path string) (any, bool) {
	for key := range strings.SplitSeq(path, ".") {
		m, _ := v.(values)
		next, ok := m[key]
		if !ok {
			return nil, false
		}
		v = next
	}
	return v, true
}

// withoutDefault are accepted for installers of other versions, which set them.
var withoutDefault = []string{
	"reservedSubnets", "requirements.kernel.disabled", "virtualKubelet.metrics.enabled", "virtualKubelet.metrics.podMonitor.enabled",
	"networking.gatewayTemplates.server.service.externalTrafficPolicy", "openshiftConfig.gatewayServiceAccounts",
	"telemetry.pod.priorityClassName", "uninstaller.pod.priorityClassName",
}

func TestValuesSchema(t *testing.T) {
	defaults := parse(t, chartFile(t, "values.yaml"))
	for _, path := range knownPaths(t) {
		if _, ok := at(defaults, path); !ok && !slices.Contains(withoutDefault, path) {
			t.Errorf("%s has no default", path)
		}
	}
	if err := util.ValidateAgainstSingleSchema(defaults, chartFile(t, "values.schema.json")); err != nil {
		t.Error(err)
	}
}

// The list is written by hand: the schema must not be its own witness.
func TestOriginalValues(t *testing.T) {
	data, err := os.ReadFile("testdata/original.yaml")
	if err != nil {
		t.Fatal(err)
	}
	schema, defaults := chartFile(t, "values.schema.json"), parse(t, chartFile(t, "values.yaml"))
	for path, value := range parse(t, data) {
		if err := util.ValidateAgainstSingleSchema(tree(path, value), schema); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		if _, ok := at(defaults, path); !ok {
			t.Errorf("%s has no default", path)
		}
	}
}

func TestUnknownValue(t *testing.T) {
	_, err := render(t, loadChart(t), tree("controllerManager.replica", 2), nil)
	if err == nil || !strings.Contains(err.Error(), "replica") {
		t.Errorf("error = %v", err)
	}
}

func TestProxyPorts(t *testing.T) {
	for port, refused := range map[int64]bool{8080: false, 8081: true, 8082: true, 8118: false} {
		if _, err := render(t, loadChart(t), tree("proxy.config.listeningPort", port), nil); (err != nil) != refused {
			t.Errorf("%d: %v", port, err)
		}
	}
}

// Every value either changes what is installed or is named by the notes, and never both.
func TestValuesWithoutEffect(t *testing.T) {
	c := loadChart(t)
	run := func(v values) *release {
		if _, ok := at(v, "discovery.config.clusterID"); !ok { // else every rendering has one of its own
			v = util.MergeTables(v, tree("discovery.config.clusterID", "milan"))
		}
		r, err := render(t, c, v, nil)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	defaults, all := parse(t, chartFile(t, "values.yaml")), everything(t)
	bare, full := run(values{}), run(everything(t))
	idle := slices.Sorted(maps.Keys(parse(t, chartFile(t, "files/no-effect.yaml"))))
	for _, path := range knownPaths(t) {
		value, ok := at(all, path)
		usual, _ := at(defaults, path)
		if !ok || reflect.DeepEqual(value, usual) {
			t.Errorf("testdata/everything.yaml does not change %s", path)
			continue
		}
		alone := run(tree(path, value))
		missing := everything(t)
		remove(missing, path)
		effect := alone.text != bare.text || run(missing).text != full.text
		if reported := strings.Contains(alone.notes, "\n  "+path+"\n"); effect == reported {
			t.Errorf("%s: effect %v, reported %v", path, effect, reported)
		}
	}
	if strings.Contains(bare.notes, "no effect") {
		t.Errorf("the notes complain about the defaults:\n%s", bare.notes)
	}
	_, listed, _ := strings.Cut(full.notes, "in this version:\n")
	if diff := cmp.Diff(idle, slices.Sorted(strings.FieldsSeq(listed))); diff != "" {
		t.Error(diff)
	}
}

func remove(v values, path string) {
	head, rest, more := strings.Cut(path, ".")
	if !more {
		delete(v, head)
		return
	}
	remove(v[head].(values), rest)
}
