// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package thirdparty builds programs that tests run beside Liqo from their Go modules, and images of them.
package thirdparty

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Program is a command of a Go module. Each is built in a copy of its module, with the requirements that its authors chose.
type Program struct {
	Name, Module, Version, Package string
	// Nested are modules in folders of the same repository, which are no part of the module's archive: the published ones take their places.
	Nested []string
	// Tags are build tags, with commas in between.
	Tags string
}

// Builder keeps sources and programs of fixed versions in a folder between runs.
type Builder struct{ Folder string }

// NewBuilder returns the builder whose folder the environment variable names, or else the one of that name in the user's cache.
func NewBuilder(variable, name string) (Builder, error) {
	cache, err := os.UserCacheDir()
	return Builder{Folder: cmp.Or(os.Getenv(variable), filepath.Join(cache, name))}, err
}

// Binary returns the path of a built program.
func (b Builder) Binary(p Program) string {
	return filepath.Join(b.Folder, "bin", p.Name+"-"+p.Version, p.Name)
}

// Source returns the folder with the copy of the program's module.
func (b Builder) Source(p Program) string {
	return filepath.Join(b.Folder, "src", p.Name+"-"+p.Version)
}

// Build builds the program unless it is there.
func (b Builder) Build(ctx context.Context, p Program) error {
	if _, err := os.Stat(b.Binary(p)); err == nil {
		if _, err := os.Stat(b.Source(p)); err == nil { // it has the manifests
			return nil
		}
	}
	fmt.Printf("building %s %s (minutes the first time)\n", p.Name, p.Version)
	if err := b.unpack(ctx, p); err != nil {
		return fmt.Errorf("getting the sources of %s: %w", p.Name, err)
	}
	for _, nested := range p.Nested {
		if err := b.run(ctx, p, "go", "mod", "edit", "-dropreplace", nested, "-require", nested+"@"+p.Version); err != nil {
			return err
		}
	}
	made := b.Binary(p) + ".tmp"
	if err := b.run(ctx, p, "go", "build", "-mod=mod", "-tags", p.Tags, "-ldflags", "-s -w", "-o", made, p.Package); err != nil {
		return err
	}
	return os.Rename(made, b.Binary(p))
}

// unpack copies the module, whose archive is read-only.
func (b Builder) unpack(ctx context.Context, p Program) error {
	download := exec.CommandContext(ctx, "go", "mod", "download", "-json", p.Module+"@"+p.Version)
	download.Dir, download.Env = os.TempDir(), append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	out, err := download.Output()
	if err != nil {
		return fmt.Errorf("downloading %s@%s: %w\n%s", p.Module, p.Version, err, out)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(out, &module); err != nil {
		return fmt.Errorf("reading what go says of %s: %w", p.Module, err)
	}
	if err := os.RemoveAll(b.Source(p)); err != nil {
		return err
	}
	if err := os.CopyFS(b.Source(p), os.DirFS(module.Dir)); err != nil {
		return err
	}
	return filepath.WalkDir(b.Source(p), func(path string, _ os.DirEntry, err error) error {
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

func (b Builder) run(ctx context.Context, p Program, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = b.Source(p), append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %s %v: %w\n%s", p.Name, name, args, err, out)
	}
	return nil
}
