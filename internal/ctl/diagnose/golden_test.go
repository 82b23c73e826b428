// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the files that the Headlamp plugin is tested with and made of")

// goldenCase is an explanation with the objects that it is made of. The tests of plugins/headlamp read it.
type goldenCase struct {
	Facts       map[string]any `json:"facts"`
	Explanation *Explanation   `json:"explanation"`
}

const goldenCases = "testdata/explanations.json"

// checkGolden compares the case of a test with the file, or writes it there.
func checkGolden(t *testing.T, name string, s *Scene, e *Explanation) {
	t.Helper()
	encode := func(c any) any {
		data, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		var out any
		if err := json.Unmarshal(data, &out); err != nil {
			t.Fatal(err)
		}
		return prune(out)
	}
	all := map[string]any{}
	if data, err := os.ReadFile(goldenCases); err == nil {
		if err := json.Unmarshal(data, &all); err != nil {
			t.Fatal(err)
		}
	} else if !*update {
		t.Fatal(err)
	}
	got := encode(goldenCase{s.objects(), e})
	if *update {
		all[name] = got
		writeGolden(t, all)
	}
	if diff := cmp.Diff(all[name], got); diff != "" {
		t.Errorf("%s is old, rewrite it: go test ./internal/ctl/diagnose -update, then test/run.sh headlamp (-golden +explanation)\n%s", goldenCases, diff)
	}
}

// objects returns the scene as lists of objects by kind.
func (s *Scene) objects() map[string]any {
	pods := append([]any{}, s.Pod)
	for i := range s.Pods {
		pods = append(pods, s.Pods[i])
	}
	for i := range s.OffloadedPods {
		pods = append(pods, s.OffloadedPods[i])
	}
	return map[string]any{"now": s.Now, "clusterID": s.ClusterID, "unreadable": s.Unreadable, "objects": map[string]any{
		"Node": s.Nodes, "ForeignCluster": s.Peers, "VirtualNode": s.VirtualNodes, "ResourceSlice": s.Slices, "Tenant": s.Tenants, "Connection": s.Connections,
		"Pod": pods, "PersistentVolumeClaim": s.Claims, "Namespace": []any{s.Namespace}, "NamespaceOffloading": []any{s.Offloading}, "NamespaceMap": s.Maps, "Event": s.Events,
	}}
}

// prune leaves out what is empty.
func prune(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for key, one := range value {
			if one = prune(one); one == nil {
				delete(value, key)
			} else {
				value[key] = one
			}
		}
		if len(value) == 0 {
			return nil
		}
	case []any:
		var out []any
		for _, one := range value {
			if one = prune(one); one != nil {
				out = append(out, one)
			}
		}
		if len(out) == 0 {
			return nil
		}
		return out
	case string:
		if value == "" {
			return nil
		}
	case float64:
		if value == 0 {
			return nil
		}
	}
	return value
}

// writeGolden writes an entry per line.
func writeGolden(t *testing.T, all map[string]any) {
	t.Helper()
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		data, err := json.Marshal(all[name])
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, fmt.Sprintf(" %q: %s", name, data))
	}
	if err := os.WriteFile(goldenCases, []byte("{\n"+strings.Join(lines, ",\n")+"\n}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestPluginGuides has the Headlamp plugin give the same advice.
func TestPluginGuides(t *testing.T) {
	type advice struct {
		Text   string `json:"text,omitempty"`
		Remedy string `json:"remedy"`
		Page   string `json:"page"`
	}
	convert := func(all map[string]guide) map[string]advice {
		out := map[string]advice{}
		for reason, g := range all {
			out[reason] = advice{Remedy: g.remedy, Page: g.page}
		}
		return out
	}
	var refused []advice
	for _, r := range refusals {
		refused = append(refused, advice{r.text, r.guide.remedy, r.guide.page})
	}
	content := map[string]any{"peer": convert(guides), "reflection": convert(reflectionReasons), "mapping": convert(mappingGuides), "protection": convert(protectionGuides), "refusals": refused}
	const file = "../../../plugins/headlamp/src/guides.json"
	got, err := json.MarshalIndent(content, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(file, append(got, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.TrimSpace(string(want)), string(got)); diff != "" {
		t.Errorf("%s is old, rewrite it: go test ./internal/ctl/diagnose -update, then test/run.sh headlamp (-file +rules)\n%s", file, diff)
	}
}
