// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package gitops

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// program is a command of a Go module. Each is built in a copy of its module, with the requirements that its authors chose.
type program struct {
	name, module, version, pkg string
	// nested is a module in a folder of the same repository, which is no part of the module's archive: the published one takes its place.
	nested string
}

// Argo CD 3.2 is the last release whose parts are all published modules. So are the Flux controllers in these versions.
var (
	argocd              = program{name: "argocd", module: "github.com/argoproj/argo-cd/v3", version: "v3.2.11", pkg: "./cmd"}
	kustomize           = program{name: "kustomize", module: "sigs.k8s.io/kustomize/kustomize/v5", version: "v5.8.1", pkg: "."}
	sourceController    = program{name: "source-controller", module: "github.com/fluxcd/source-controller", version: "v1.8.0", pkg: ".", nested: "github.com/fluxcd/source-controller/api"}
	kustomizeController = program{name: "kustomize-controller", module: "github.com/fluxcd/kustomize-controller", version: "v1.9.6", pkg: ".", nested: "github.com/fluxcd/kustomize-controller/api"}
)

// builder keeps sources and programs of fixed versions in a folder between runs.
type builder struct{ dir string }

func (b builder) binary(p program) string {
	return filepath.Join(b.dir, "bin", p.name+"-"+p.version, p.name)
}

func (b builder) source(p program) string { return filepath.Join(b.dir, "src", p.name+"-"+p.version) }

// build makes the program unless it is there.
func (b builder) build(ctx context.Context, p program) error {
	if _, err := os.Stat(b.binary(p)); err == nil {
		if _, err := os.Stat(b.source(p)); err == nil { // it has the manifests
			return nil
		}
	}
	fmt.Printf("building %s %s (minutes the first time)\n", p.name, p.version)
	if err := b.unpack(ctx, p); err != nil {
		return fmt.Errorf("getting the sources of %s: %w", p.name, err)
	}
	if p.nested != "" {
		if err := b.run(ctx, p, "go", "mod", "edit", "-dropreplace", p.nested, "-require", p.nested+"@"+p.version); err != nil {
			return err
		}
	}
	made := b.binary(p) + ".tmp"
	if err := b.run(ctx, p, "go", "build", "-mod=mod", "-ldflags", "-s -w", "-o", made, p.pkg); err != nil {
		return err
	}
	return os.Rename(made, b.binary(p))
}

// unpack copies the module, whose archive is read-only.
func (b builder) unpack(ctx context.Context, p program) error {
	download := exec.CommandContext(ctx, "go", "mod", "download", "-json", p.module+"@"+p.version)
	download.Dir, download.Env = os.TempDir(), append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	out, err := download.Output()
	if err != nil {
		return fmt.Errorf("downloading %s@%s: %w\n%s", p.module, p.version, err, out)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(out, &module); err != nil {
		return fmt.Errorf("reading what go says of %s: %w", p.module, err)
	}
	if err := os.RemoveAll(b.source(p)); err != nil {
		return err
	}
	if err := os.CopyFS(b.source(p), os.DirFS(module.Dir)); err != nil {
		return err
	}
	return filepath.WalkDir(b.source(p), func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := os.Lstat(path)
		if err != nil || info.Mode()&os.ModeSymlink != 0 {
			return err
		}
		return os.Chmod(path, info.Mode()|0o200)
	})
}

func (b builder) run(ctx context.Context, p program, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = b.source(p), append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %s %v: %w\n%s", p.name, name, args, err, out)
	}
	return nil
}
