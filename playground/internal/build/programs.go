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

// CoreDNS wants another Kubernetes minor than ours, so it is a module of its own. Its files end in .txt: a folder with
// a real go.mod could not be embedded.
//
//go:embed coredns
var corednsFiles embed.FS

// program is one binary and the sources that decide whether it is up to date.
type program struct {
	name    string
	about   string // what a human may want to know while waiting
	ldflags string
	own     bool   // a module of its own, not a package of this one
	install string // a package of somebody else's at a version, built as it is; no sources of ours
}

var (
	hyperkube = program{
		name: "hyperkube", about: "etcd, Kubernetes " + spec.Kubernetes + "; about 6 minutes the first time on 2 cores",
		ldflags: versionFlags(spec.Kubernetes),
	}
	kubectl  = program{name: "kubectl", about: "seconds, after Kubernetes", ldflags: versionFlags(spec.Kubernetes)}
	programs = []program{
		hyperkube,
		kubectl,
		{name: "coredns", about: "CoreDNS " + spec.CoreDNS + "; a minute the first time", own: true},
		{name: "pause", about: "the first container of every pod"},
		{name: "httpd", about: "the web server for tests and demos"},
	}
	kwok = program{
		name: "kwok", about: "pretends to be nodes, " + spec.Kwok + "; 2 minutes the first time",
		install: "sigs.k8s.io/kwok/cmd/kwok@" + spec.Kwok,
	}
)

func versionFlags(version string) string {
	const pkg = "k8s.io/component-base/version."
	parts := strings.Split(strings.TrimPrefix(version, "v"), ".")
	return fmt.Sprintf(" -X %[1]sgitVersion=%[2]s -X %[1]sgitMajor=%[3]s -X %[1]sgitMinor=%[4]s", pkg, version, parts[0], parts[1])
}

// program builds one binary unless the one that is there was made of the same sources by the same Go.
func (b Builder) program(ctx context.Context, p program) error {
	folder := filepath.Join(b.Home.Sources(), "playground")
	files, err := fs.Sub(b.Sources, ".")
	switch {
	case p.own:
		folder = filepath.Join(b.Home.Sources(), p.name)
		files, err = fs.Sub(corednsFiles, p.name)
	case p.install != "":
		folder = filepath.Join(b.Home.Sources(), p.name)
	}
	if err != nil {
		return fmt.Errorf("finding the sources of %s: %w", p.name, err)
	}
	stamp, err := p.stamp(ctx, files)
	if err != nil {
		return err
	}
	stampFile := filepath.Join(b.Home.Bin(), "."+p.name+".stamp")
	if have, err := os.ReadFile(stampFile); err == nil && string(have) == stamp && exists(b.Home.Program(p.name)) {
		return nil
	}
	b.Log.Say("building %s (%s)", p.name, p.about)
	if p.install == "" {
		if err := unpack(files, folder); err != nil {
			return err
		}
	}
	if err := b.compile(ctx, p, folder); err != nil {
		return err
	}
	return home.Write(stampFile, []byte(stamp), 0o644)
}

func exists(path string) bool { // a link is none of ours: kubectl was one
	file, err := os.Lstat(path)
	return err == nil && file.Mode().IsRegular()
}

// wants says which files of the sources a program is made of.
func (p program) wants(path string) bool {
	if p.install != "" {
		return false
	}
	return p.own || path == "go.mod" || strings.HasPrefix(path, p.name+"/") && !strings.HasSuffix(path, "_test.go")
}

func (p program) stamp(ctx context.Context, files fs.FS) (string, error) {
	sum := sha256.New()
	goVersion, err := exec.CommandContext(ctx, "go", "env", "GOVERSION", "GOARCH").Output()
	if err != nil {
		return "", fmt.Errorf("asking Go for its version (is Go installed and in PATH?): %w", err)
	}
	fmt.Fprintf(sum, "%s%s%s\n", goVersion, p.ldflags, p.install)
	err = eachFile(files, func(path string, data []byte) error {
		if p.wants(path) {
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

func unpack(files fs.FS, folder string) error {
	return eachFile(files, func(path string, data []byte) error {
		path = filepath.Join(folder, strings.TrimSuffix(path, ".txt"))
		if have, err := os.ReadFile(path); err == nil && bytes.Equal(have, data) {
			return nil
		}
		return home.Write(path, data, 0o644)
	})
}

func (b Builder) compile(ctx context.Context, p program, folder string) error {
	made := filepath.Join(folder, ".new", p.name)
	if err := os.MkdirAll(filepath.Dir(made), 0o755); err != nil {
		return fmt.Errorf("making a folder for %s: %w", p.name, err)
	}
	args := []string{"build", "-v", "-buildvcs=false", "-ldflags=-s -w" + p.ldflags, "-o", made, "./" + p.name}
	switch {
	case p.own:
		args[len(args)-1] = "."
	case p.install != "":
		args = []string{"install", "-v", "-ldflags=-s -w", p.install}
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOOS=linux", "GOBIN="+filepath.Dir(made))
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting Go: %w", err)
	}
	complaints := watch(stderr, p.name, b.Log)
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", p.name, err, complaints)
	}
	if err := os.Rename(made, b.Home.Program(p.name)); err != nil {
		return fmt.Errorf("placing %s: %w", p.name, err)
	}
	return nil
}

// watch counts the packages that Go names as it compiles them, and keeps the rest: complaints.
func watch(stderr io.Reader, name string, log *progress.Log) string {
	const quiet = 20 * time.Second
	var complaints []string
	modules, packages, said := 0, 0, time.Now()
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		line := lines.Text()
		switch {
		case strings.HasPrefix(line, "go: downloading"):
			modules++
		case strings.ContainsAny(line, " :") || strings.HasPrefix(line, "#"):
			complaints = append(complaints, line)
		default:
			packages++
		}
		log.Move("building %s: %d modules downloaded, %d packages compiled", name, modules, packages)
		if !log.Terminal() && time.Since(said) > quiet {
			said = time.Now()
			log.Say("building %s: %d modules downloaded, %d packages compiled", name, modules, packages)
		}
	}
	return strings.Join(complaints, "\n")
}
