// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdxlib"
)

func TestVersion(t *testing.T) {
	for version, valid := range map[string]bool{
		"v0.2.0": true, "v1.22.333": true, "v1.0.0-rc.1": true, "v0.0.0-test": true,
		"": false, "0.2.0": false, "v1": false, "v1.2": false, "v01.2.3": false, "v1.2.3+build": false, "v1.2.3-": false, "v1.2.3/x": false, "dev": false,
	} {
		if err := checkVersion(version); (err == nil) != valid {
			t.Errorf("%q: %v", version, err)
		}
	}
}

func TestFields(t *testing.T) {
	const text = "name: liqo\nversion: 0.1.0\nappVersion: v0.1.0\n"
	for name, tc := range map[string]struct {
		pattern, want string
	}{
		"one line": {"^version: .*$", "name: liqo\nX\nappVersion: v0.1.0\n"},
		"none":     {"^kind: .*$", ""},
		"two":      {".*ersion: .*", ""},
	} {
		got, err := setFields([]byte(text), field{tc.pattern, "X"})
		if string(got) != tc.want || (err == nil) != (tc.want != "") {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

func TestReleaseNotes(t *testing.T) {
	const changelog = "# Change log\n\n## Unreleased\n\n- new\n\n## v0.2.0 (2026-12-01)\n\n### Added\n\n- old\n\n## [v0.1.0]\n\n- oldest\n"
	for name, tc := range map[string]struct {
		version string
		tagged  bool
		want    string
	}{
		"its own section":         {"v0.2.0", true, "# Liqo v0.2.0\n\n### Added\n\n- old\n"},
		"the last section":        {"v0.1.0", true, "# Liqo v0.1.0\n\n- oldest\n"},
		"a try before the tag":    {"v0.3.0", false, "# Liqo v0.3.0\n\n- new\n"},
		"a tag without a section": {"v0.3.0", true, ""},
		"a prefix of a version":   {"v0.2", true, ""},
	} {
		got, err := releaseNotes(changelog, tc.version, tc.tagged)
		if got != tc.want || (err == nil) != (tc.want != "") {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if got, err := releaseNotes("# Change log\n\n## Unreleased\n\n## v0.1.0\n\n- old\n", "v0.2.0", false); err != nil || got != "# Liqo v0.2.0\n\nNothing has changed since the last release.\n" {
		t.Errorf("a try right after a tag: %q, %v", got, err)
	}
}

func TestClientNames(t *testing.T) {
	for platform, want := range map[string]string{
		"linux/amd64": "liqoctl-linux-amd64.tar.gz liqoctl", "darwin/arm64": "liqoctl-darwin-arm64.tar.gz liqoctl",
		"windows/amd64": "liqoctl-windows-amd64.zip liqoctl.exe", "linux": "", "/amd64": "",
	} {
		c, err := newClient(platform)
		if err != nil {
			c = &clientArchive{}
		}
		if got := strings.TrimSpace(c.name + " " + c.executable); got != want {
			t.Errorf("%s: %q, %v", platform, got, err)
		}
	}
}

func TestKrewManifest(t *testing.T) {
	linux, err := newClient("linux/amd64")
	if err != nil {
		t.Fatal(err)
	}
	linux.sum = "abc"
	got, err := krewManifest("v0.2.0", "https://downloads.example.com/liqo", []clientArchive{*linux})
	if err != nil {
		t.Fatal(err)
	}
	const want = `apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: liqo
spec:
  description: |
    Installs Liqo, peers clusters, and offloads namespaces: pods of one cluster run in others.
  homepage: https://liqo.io/liqo
  platforms:
  - bin: liqoctl
    files:
    - from: liqoctl
      to: .
    - from: LICENSE
      to: .
    selector:
      matchLabels:
        arch: amd64
        os: linux
    sha256: abc
    uri: https://downloads.example.com/liqo/v0.2.0/liqoctl-linux-amd64.tar.gz
  shortDescription: Peer clusters and offload namespaces to them
  version: v0.2.0
`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestSBOM(t *testing.T) {
	shared := goModule{"example.com/a", "v1.0.0", "h1:x"}
	d := newSBOM("v0.2.0", "c0ffee", time.Unix(0, 0).UTC(), []program{
		{"liqo", "linux/amd64", "aa", "go1.26.0", []goModule{shared, {"example.com/b_c/v2", "v2.0.0+incompatible", "h1:y"}}},
		{"liqo", "linux/arm64", "bb", "go1.26.0", []goModule{shared}},
	})
	data, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	read, err := spdxjson.Read(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if err := spdxlib.ValidateDocument(read); err != nil {
		t.Error(err)
	}
	var packages, relations []string
	for _, p := range read.Packages {
		packages = append(packages, string(p.PackageSPDXIdentifier)+" "+p.PackageVersion)
	}
	for _, r := range read.Relationships {
		relations = append(relations, string(r.RefA.ElementRefID)+" "+r.Relationship+" "+string(r.RefB.ElementRefID))
	}
	amd, arm := "program-liqo-linux-amd64", "program-liqo-linux-arm64"
	if diff := cmp.Diff([]string{
		amd + " v0.2.0", arm + " v0.2.0", "module-example.com-a-v1.0.0 v1.0.0",
		"module-example.com-b-c-v2-v2.0.0-incompatible v2.0.0+incompatible", "module-stdlib-1.26.0 1.26.0",
	}, packages); diff != "" {
		t.Errorf("packages: -want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]string{
		"DOCUMENT DESCRIBES " + amd, amd + " DEPENDS_ON module-stdlib-1.26.0", amd + " DEPENDS_ON module-example.com-a-v1.0.0",
		amd + " DEPENDS_ON module-example.com-b-c-v2-v2.0.0-incompatible",
		"DOCUMENT DESCRIBES " + arm, arm + " DEPENDS_ON module-stdlib-1.26.0", arm + " DEPENDS_ON module-example.com-a-v1.0.0",
	}, relations); diff != "" {
		t.Errorf("relations: -want +got:\n%s", diff)
	}
}

func TestChecksums(t *testing.T) {
	if got := checksums([]fileSum{{"a", "01"}, {"b", "02"}}); got != "01  a\n02  b\n" {
		t.Errorf("got %q", got)
	}
}
