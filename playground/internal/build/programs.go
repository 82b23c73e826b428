// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package build

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"liqo.io/liqo/playground/internal/home"
	"liqo.io/liqo/playground/internal/progress"
	"liqo.io/liqo/playground/internal/spec"
)

// CoreDNS requires another Kubernetes minor version, so it is built as a separate module. Its files end in .txt, because a folder with a
// go.mod cannot be embedded.
//
//go:embed coredns
var corednsFiles embed.FS

// program describes a binary and the sources that it is built from.
type program struct {
	name        string
	description string // shown while the program is built
	ldflags     string
	ownModule   bool   // the program is a separate module, not a package of this module
	install     string // package@version of a third-party program, for go install; "" if the program is built from sources of this module
}

var (
	hyperkube = program{
		name: "hyperkube", description: "etcd, Kubernetes " + spec.Kubernetes + "; about 6 minutes the first time on 2 cores",
		ldflags: versionFlags(spec.Kubernetes),
	}
	kubectl  = program{name: "kubectl", description: "seconds, after Kubernetes", ldflags: versionFlags(spec.Kubernetes)}
	programs = []program{
		hyperkube,
		kubectl,
		{name: "coredns", description: "CoreDNS " + spec.CoreDNS + "; a minute the first time", ownModule: true},
		{name: "pause", description: "the first container of every pod"},
		{name: "httpd", description: "the web server for tests and demos"},
	}
	kwok = program{
		name: "kwok", description: "simulates nodes, " + spec.Kwok + "; 2 minutes the first time",
		install: "sigs.k8s.io/kwok/cmd/kwok@" + spec.Kwok,
	}
)

func versionFlags(version string) string {
	const pkg = "k8s.io/component-base/version."
	parts := strings.Split(strings.TrimPrefix(version, "v"), ".")
	return fmt.Sprintf(" -X %[1]sgitVersion=%[2]s -X %[1]sgitMajor=%[3]s -X %[1]sgitMinor=%[4]s", pkg, version, parts[0], parts[1])
}

// buildProgram builds a binary unless the existing one was built from the same sources by the same version of Go.
func (b Builder) buildProgram(ctx context.Context, p program) error {
	folder := filepath.Join(b.Home.Sources(), "playground")
	files, err := fs.Sub(b.Sources, ".")
	switch {
	case p.ownModule:
		folder = filepath.Join(b.Home.Sources(), p.name)
		files, err = fs.Sub(corednsFiles, p.name)
	case p.install != "":
		folder = filepath.Join(b.Home.Sources(), p.name)
	}
	if err != nil {
		return fmt.Errorf("finding the sources of %s: %w", p.name, err)
	}
	stamp, err := p.sourceHash(ctx, files)
	if err != nil {
		return err
	}
	stampFile := filepath.Join(b.Home.Bin(), "."+p.name+".stamp")
	if built, err := os.ReadFile(stampFile); err == nil && string(built) == stamp && isRegularFile(b.Home.Program(p.name)) {
		return nil
	}
	b.Log.Print("building %s (%s)", p.name, p.description)
	if p.install == "" {
		if err := unpackSources(files, folder); err != nil {
			return err
		}
	}
	if err := b.compileProgram(ctx, p, folder); err != nil {
		return err
	}
	return home.Write(stampFile, []byte(stamp), 0o644)
}

// isRegularFile reports whether the path is a file and not a link: an earlier release created kubectl as a link.
func isRegularFile(path string) bool {
	file, err := os.Lstat(path)
	return err == nil && file.Mode().IsRegular()
}

// ownsSource reports whether the program is built from a file of the sources.
func (p program) ownsSource(path string) bool {
	if p.install != "" {
		return false
	}
	return p.ownModule || path == "go.mod" || strings.HasPrefix(path, p.name+"/") && !strings.HasSuffix(path, "_test.go")
}

// sourceHash returns a hash of the version of Go, the flags and the sources of the program.
func (p program) sourceHash(ctx context.Context, files fs.FS) (string, error) {
	sum := sha256.New()
	goVersion, err := exec.CommandContext(ctx, "go", "env", "GOVERSION", "GOARCH").Output()
	if err != nil {
		return "", fmt.Errorf("reading the version of Go (is Go installed and in PATH?): %w", err)
	}
	fmt.Fprintf(sum, "%s%s%s\n", goVersion, p.ldflags, p.install)
	err = eachFile(files, func(path string, data []byte) error {
		if p.ownsSource(path) {
			fmt.Fprintf(sum, "%s %d\n%s", path, len(data), data)
		}
		return nil
	})
	return hex.EncodeToString(sum.Sum(nil)), err
}

func eachFile(files fs.FS, visit func(path string, data []byte) error) error {
	return fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(files, path)
		if err != nil {
			return err
		}
		return visit(path, data)
	})
}

func unpackSources(files fs.FS, folder string) error {
	return eachFile(files, func(path string, data []byte) error {
		path = filepath.Join(folder, strings.TrimSuffix(path, ".txt"))
		if current, err := os.ReadFile(path); err == nil && bytes.Equal(current, data) {
			return nil
		}
		return home.Write(path, data, 0o644)
	})
}

func (b Builder) compileProgram(ctx context.Context, p program, folder string) error {
	output := filepath.Join(folder, ".new", p.name)
	if err := os.MkdirAll(filepath.Dir(output), 0o755); err != nil {
		return fmt.Errorf("creating a folder for %s: %w", p.name, err)
	}
	args := []string{"build", "-v", "-buildvcs=false", "-ldflags=-s -w" + p.ldflags, "-o", output, "./" + p.name}
	switch {
	case p.ownModule:
		args[len(args)-1] = "."
	case p.install != "":
		args = []string{"install", "-v", "-ldflags=-s -w", p.install}
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOOS=linux", "GOBIN="+filepath.Dir(output))
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting Go: %w", err)
	}
	problems := watchOutput(stderr, p.name, b.Log)
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", p.name, err, problems)
	}
	if err := os.Rename(output, b.Home.Program(p.name)); err != nil {
		return fmt.Errorf("placing %s: %w", p.name, err)
	}
	return nil
}

// watchOutput shows the progress of the Go compiler, which prints the name of each package, and returns the lines that report errors.
func watchOutput(stderr io.Reader, name string, log *progress.Log) string {
	const reportInterval = 20 * time.Second
	var problems []string
	modules, packages, lastReport := 0, 0, time.Now()
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		line := lines.Text()
		switch {
		case strings.HasPrefix(line, "go: downloading"):
			modules++
		case strings.ContainsAny(line, " :") || strings.HasPrefix(line, "#"):
			problems = append(problems, line)
		default:
			packages++
		}
		log.PrintProgress("building %s: %d modules downloaded, %d packages compiled", name, modules, packages)
		if !log.IsTerminal() && time.Since(lastReport) > reportInterval {
			lastReport = time.Now()
			log.Print("building %s: %d modules downloaded, %d packages compiled", name, modules, packages)
		}
	}
	return strings.Join(problems, "\n")
}
