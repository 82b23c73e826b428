// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package archtest

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type module struct {
	Require []struct {
		Path, Version string
		Indirect      bool
	}
	Replace []struct {
		New struct{ Path, Version string }
	}
}

func readModule(t *testing.T, dir string) module {
	t.Helper()
	cmd := exec.Command("go", "mod", "edit", "-json")
	cmd.Dir = filepath.Join(root, dir)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("reading %s/go.mod: %v", dir, err)
	}
	var m module
	if err := json.Unmarshal(out, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestDependencyReasons(t *testing.T) {
	var want []string
	for _, r := range readModule(t, ".").Require {
		if !r.Indirect {
			want = append(want, r.Path)
		}
	}
	doc, err := os.ReadFile(filepath.Join(root, "docs/dependencies.md"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\| (.+) \\|$").FindAllStringSubmatch(string(doc), -1) {
		got = append(got, row[1])
		if len(strings.Fields(row[2])) < 4 {
			t.Errorf("docs/dependencies.md: %s has no reason", row[1])
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("docs/dependencies.md and go.mod differ (-go.mod +docs):\n%s", diff)
	}
}

func TestKubernetesMinor(t *testing.T) {
	minors := map[string][]string{}
	for _, dir := range []string{".", "playground"} {
		m := readModule(t, dir)
		add := func(path, version string) {
			if p := strings.SplitN(path, "/", 2); p[0] == "k8s.io" && strings.HasPrefix(version, "v0.") && strings.Count(version, "-") == 0 && version != "v0.0.0" {
				minor := strings.Join(strings.Split(version, ".")[:2], ".")
				minors[minor] = append(minors[minor], dir+": "+path+" "+version)
			}
		}
		for _, r := range m.Require {
			add(r.Path, r.Version)
		}
		for _, r := range m.Replace {
			add(r.New.Path, r.New.Version)
		}
	}
	if len(minors) != 1 {
		t.Errorf("more than one Kubernetes minor: %v", minors)
	}
}
