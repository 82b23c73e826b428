// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package build

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"liqo.io/liqo/playground/internal/home"
	"liqo.io/liqo/playground/internal/progress"
	"liqo.io/liqo/playground/internal/spec"
)

func TestInstallHint(t *testing.T) {
	installed := func(path string) bool { return path != "ip" && path != "bridge" && path != "nft" }
	missing := missingTools(requiredTools, installed)
	if diff := cmp.Diff([]string{"nftables", "iproute2"}, debianPackages(missing)); diff != "" {
		t.Error(diff)
	}
	want := `apt-get was not found; install these programs (package names of Debian):
  nft                    package nftables
  ip                     package iproute2
  bridge                 package iproute2`
	if diff := cmp.Diff(want, installHint(missing)); diff != "" {
		t.Error(diff)
	}
}

func TestSourceHashOfProgram(t *testing.T) {
	files := fstest.MapFS{
		"go.mod": {Data: []byte("module x")}, "pause/main.go": {Data: []byte("package main")},
		"pause/main_test.go": {Data: []byte("package main")}, "httpd/main.go": {Data: []byte("package main")},
	}
	hash := func() string {
		p := program{name: "pause"}
		own, err := p.sourceFiles(files)
		if err != nil {
			t.Fatal(err)
		}
		s, err := p.sourceHash(t.Context(), own)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	before := hash()
	for file, changes := range map[string]bool{"httpd/main.go": false, "pause/main_test.go": false, "pause/main.go": true, "go.mod": true} {
		old := files[file]
		files[file] = &fstest.MapFile{Data: []byte("something else")}
		if (hash() != before) != changes {
			t.Errorf("%s was edited: hash changed %v, want %v", file, !changes, changes)
		}
		files[file] = old
	}
}

func TestKubernetesSources(t *testing.T) {
	sources := fstest.MapFS{
		"go.mod": {Data: []byte("module current")}, "go.sum": {Data: []byte("current")},
		"hyperkube/main.go": {Data: []byte("package main")}, "httpd/main.go": {Data: []byte("package main")},
	}
	for _, release := range spec.Releases {
		files, err := kubernetesPrograms(release)[0].sourceFiles(sources)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"go.mod", "go.sum", "hyperkube/main.go"}, slices.Sorted(maps.Keys(files))); diff != "" {
			t.Errorf("%s: %s", release, diff)
		}
		want := "module current"
		if release != spec.Kubernetes {
			want = "k8s.io/kubernetes " + release + "\n"
		}
		if !strings.Contains(string(files["go.mod"]), want) {
			t.Errorf("%s: go.mod lacks %q", release, want)
		}
	}
}

func TestSourceHashOfInstalledProgram(t *testing.T) {
	hash := func(version string, files fstest.MapFS) string {
		p := program{name: "x", install: "example.org/x@" + version}
		own, err := p.sourceFiles(files)
		if err != nil {
			t.Fatal(err)
		}
		s, err := p.sourceHash(t.Context(), own)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	sources := fstest.MapFS{"go.mod": {Data: []byte("module y")}, "x/main.go": {Data: []byte("package main")}}
	if hash("v1", nil) != hash("v1", sources) {
		t.Error("the hash depends on sources of other programs")
	}
	if hash("v1", nil) == hash("v2", nil) {
		t.Error("versions v1 and v2 have the same hash")
	}
}

func TestCopyModule(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", "github.com/google/go-cmp").Output()
	if err != nil {
		t.Fatal(err)
	}
	var dep struct{ Path, Version, Sum string }
	if err := json.Unmarshal(out, &dep); err != nil {
		t.Fatal(err)
	}
	version, folder := dep.Path+"@"+dep.Version, filepath.Join(t.TempDir(), upstream)
	if err := copyModule(t.Context(), version+" h1:other", folder); err == nil || !strings.Contains(err.Error(), "verifying") {
		t.Errorf("another hash: got error %v", err)
	}
	file := filepath.Join(folder, "cmp", "compare.go")
	for _, want := range []string{"package cmp", "kept"} { // a complete copy is not made again: other files were placed in it
		if err := copyModule(t.Context(), version+" "+dep.Sum, folder); err != nil {
			t.Fatal(err)
		}
		if data, err := os.ReadFile(file); err != nil || !strings.Contains(string(data), want) {
			t.Errorf("%s has no %q: %v", file, want, err)
		}
		if err := os.WriteFile(file, []byte("kept"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestWatchOutput(t *testing.T) {
	log := "go: downloading k8s.io/api v0.35.4\nk8s.io/api/core/v1\nk8s.io/api/apps/v1\n# k8s.io/kubernetes/cmd\nmain.go:3:1: syntax error\n"
	got := watchOutput(strings.NewReader(log), "x", progress.Discard())
	if diff := cmp.Diff("# k8s.io/kubernetes/cmd\nmain.go:3:1: syntax error", got); diff != "" {
		t.Error(diff)
	}
}

func TestBuildImage(t *testing.T) {
	dir := t.TempDir()
	source := filepath.Join(dir, "program")
	if err := os.WriteFile(source, []byte("elf"), 0o755); err != nil {
		t.Fatal(err)
	}
	b := Builder{Home: home.Home{Root: dir}, Log: progress.Discard()}
	if err := os.MkdirAll(b.Home.Images(), 0o755); err != nil {
		t.Fatal(err)
	}
	img := image{
		file: "x.tar", refs: []string{"docker.io/library/x:1", "docker.io/library/x:latest"}, entrypoint: []string{"/bin/program"},
		files: map[string]string{"/bin/program": source}, links: map[string]string{"/bin/sh": "program"},
	}
	if err := b.buildImage(img); err != nil {
		t.Fatal(err)
	}
	for _, ref := range img.refs {
		tag, err := name.NewTag(ref)
		if err != nil {
			t.Fatal(err)
		}
		got, err := tarball.ImageFromPath(filepath.Join(b.Home.Images(), "x.tar"), &tag)
		if err != nil {
			t.Fatal(err)
		}
		config, err := got.ConfigFile()
		if err != nil || len(config.RootFS.DiffIDs) != 1 || config.Config.Entrypoint[0] != "/bin/program" {
			t.Errorf("%s: %v %+v", ref, err, config)
		}
	}
}

func TestBuildLayerIsReproducible(t *testing.T) {
	source := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(source, []byte("elf"), 0o600); err != nil {
		t.Fatal(err)
	}
	img := image{files: map[string]string{"/bin/program": source}, links: map[string]string{"/bin/sh": "program"}}
	layer, err := img.buildLayer()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(source, time.Now(), time.Now()); err != nil {
		t.Fatal(err)
	}
	again, err := img.buildLayer()
	if err != nil || !bytes.Equal(layer, again) {
		t.Errorf("the second layer of the same files differs: %v", err)
	}
	want := `drwxr-xr-x bin/
drwxr-xr-x dev/
drwxr-xr-x etc/
drwxr-xr-x proc/
drwxr-xr-x sys/
dtrwxrwxrwx tmp/
drwxr-xr-x var/
-rw-r--r-- etc/group
-rw-r--r-- etc/nsswitch.conf
-rw-r--r-- etc/passwd
-rwxr-xr-x bin/program
Lrwxrwxrwx bin/sh -> program
`
	if diff := cmp.Diff(want, listLayer(t, layer)); diff != "" {
		t.Error(diff)
	}
}

func listLayer(t *testing.T, layer []byte) string {
	t.Helper()
	var out strings.Builder
	for r := tar.NewReader(bytes.NewReader(layer)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out.String()
		}
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "%s %s", h.FileInfo().Mode(), h.Name)
		if h.Linkname != "" {
			fmt.Fprintf(&out, " -> %s", h.Linkname)
		}
		out.WriteByte('\n')
	}
}

func TestAddProgram(t *testing.T) {
	img := image{files: map[string]string{}}
	if err := img.addProgram("ip"); err != nil {
		t.Fatal(err)
	}
	libraries := slices.DeleteFunc(slices.Sorted(maps.Keys(img.files)), func(p string) bool { return !strings.Contains(p, "/libc.so.") })
	if img.files["/sbin/ip"] == "" || len(libraries) != 1 {
		t.Errorf("the image has %v, want ip and its libraries", img.files)
	}
	if err := img.addProgram("no-such-program"); err == nil {
		t.Error("a missing program is no error")
	}
}
