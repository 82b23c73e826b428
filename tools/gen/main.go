// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Program gen writes what controller-gen derives from the Go sources into the chart: the CRDs of api/ and, for each file of
// internal/app and the packages in it that has RBAC markers, the rights of that process. Its argument is the root of the repository.
//
// A marker with namespace=tenant or namespace=offloaded is about every namespace of that sort.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

const (
	crdDir  = "deploy/chart/crds"
	rbacDir = "deploy/chart/files/rbac"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: gen <root of the repository>")
	}
	if err := errors.Join(os.Chdir(os.Args[1]), crds(), rbac()); err != nil {
		log.Fatal(err)
	}
}

// crds starts from an empty directory, so that a kind that is gone leaves no file behind.
func crds() error {
	if err := clean(crdDir); err != nil {
		return err
	}
	if _, err := controllerGen(".", "crd:generateEmbeddedObjectMeta=true,maxDescLen=0", "paths=./api/...", "output:crd:dir="+crdDir); err != nil {
		return err
	}
	files, err := filepath.Glob(crdDir + "/*.yaml")
	if err != nil {
		return fmt.Errorf("listing CRDs: %w", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("reading a CRD: %w", err)
		}
		if data, err = rewrite(data); err != nil {
			return fmt.Errorf("rewriting %s: %w", file, err)
		}
		if err := os.WriteFile(file, data, 0o644); err != nil {
			return fmt.Errorf("writing a CRD: %w", err)
		}
	}
	return nil
}

func rbac() error {
	if err := clean(rbacDir); err != nil {
		return err
	}
	var files []string
	for _, pattern := range []string{"internal/app/*.go", "internal/app/*/*.go"} {
		matches, err := filepath.Glob(pattern)
		if err != nil {
			return fmt.Errorf("listing processes: %w", err)
		}
		files = append(files, matches...)
	}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("reading a process: %w", err)
		}
		markers := markerLine.FindAll(source, -1)
		if len(markers) == 0 {
			continue
		}
		role := roleOf(file)
		manifest, err := rights("liqo-"+role, bytes.Join(markers, []byte("\n")))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(rbacDir, role+".yaml"), manifest, 0o644); err != nil {
			return fmt.Errorf("writing the rights of %s: %w", role, err)
		}
	}
	return nil
}

var markerLine = regexp.MustCompile(`(?m)^// \+kubebuilder:rbac:.*$`)

// rights generates the roles of one process. controller-gen reads whole packages and every process has its file in one
// package, so the markers of the file are made a package of their own.
func rights(role string, markers []byte) ([]byte, error) {
	dir, err := os.MkdirTemp("", "rbac")
	if err != nil {
		return nil, fmt.Errorf("making a directory: %w", err)
	}
	defer os.RemoveAll(dir)
	source := append([]byte("package rights\n\n"), append(markers, '\n')...)
	err = errors.Join(
		os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module rights\n"), 0o644),
		os.WriteFile(filepath.Join(dir, "rights.go"), source, 0o644))
	if err != nil {
		return nil, fmt.Errorf("writing the markers of %s: %w", role, err)
	}
	return controllerGen(dir, "rbac:roleName="+role, "paths=.", "output:rbac:stdout")
}

var roles = map[string]string{
	"controllermanager": "controller-manager",
	"crdreplicator":     "crd-replicator",
	"metricagent":       "metric-agent",
	"uninstaller":       "pre-delete",
	"virtualkubelet":    "virtual-kubelet",
}

// roleOf is the chart's name of the process that a file of internal/app describes.
func roleOf(file string) string {
	base := strings.TrimSuffix(filepath.Base(file), ".go")
	if role, ok := roles[strings.ReplaceAll(base, "_", "")]; ok {
		return role
	}
	return strings.ReplaceAll(base, "_", "-")
}

func clean(dir string) error {
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755)); err != nil {
		return fmt.Errorf("emptying %s: %w", dir, err)
	}
	return nil
}

// controllerGen runs the pinned controller-gen in a directory.
func controllerGen(dir string, args ...string) ([]byte, error) {
	path, err := exec.Command("go", "tool", "-modfile=tools/go.mod", "-n", "controller-gen").Output()
	if err != nil {
		return nil, fmt.Errorf("building controller-gen: %w", err)
	}
	cmd := exec.Command(strings.TrimSpace(string(path)), args...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("running controller-gen %s: %w", strings.Join(args, " "), err)
	}
	return out, nil
}
