// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package build

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"liqo.io/liqo/playground/internal/home"
	"liqo.io/liqo/playground/internal/progress"
	"liqo.io/liqo/playground/internal/spec"
)

// CoreDNS and the older releases of Kubernetes need other versions of Kubernetes modules than this module, and CNIs have many modules of their
// own, so each is a separate module. Their files end in .txt: a folder with a real go.mod could not be embedded.
//
//go:embed cilium cni coredns kubernetes
var moduleFiles embed.FS

// program describes a binary and the sources that it is built from.
type program struct {
	name        string
	description string // shown while the program is built
	ldflags     string
	release     string // of Kubernetes, for its programs
	module      string // folder of the program's own module in moduleFiles, "" if the program belongs to this module
	install     string // package@version of a third-party program, for go install; "" if the program is built from sources of this module
	tool        string // package of a third-party program that go.mod of this module lists as a tool, so that it shares compiled packages with Kubernetes
	tags        string
	copies      string // module@version that go.mod of the program's own module replaces by a copy, in which files of moduleFiles replace others
	cgo         bool
}

// kubernetesPrograms returns the programs of a Kubernetes release.
func kubernetesPrograms(release string) []program {
	all := []program{
		{name: hyperkube, description: "etcd, Kubernetes " + release + "; about 6 minutes the first time on 2 cores"},
		{name: "kubectl", description: "seconds, after Kubernetes"},
	}
	for i := range all {
		all[i].release, all[i].ldflags = release, versionFlags(release)
		if release != spec.Kubernetes {
			all[i].module = "kubernetes/" + spec.Minor(release)
		}
	}
	return all
}

// hyperkube is the program that is etcd and every Kubernetes program that keeps running.
const hyperkube = "hyperkube"

// nodePrograms are the programs of every node and the images of every cluster.
var nodePrograms = []program{
	containerdProgram("containerd", "the container runtime "+spec.Containerd+"; 2 minutes the first time"),
	containerdProgram("containerd-shim-runc-v2", "seconds, after containerd"),
	containerdProgram("ctr", "seconds, after containerd"),
	{
		name: "runc", description: "starts containers, " + spec.Runc + "; half a minute the first time",
		install: "github.com/opencontainers/runc@" + spec.Runc, tags: "seccomp", cgo: true,
	},
	{name: "coredns", description: "CoreDNS " + spec.CoreDNS + "; a minute the first time", module: "coredns"},
	{name: "metrics-server", description: "metrics-server " + spec.MetricsServer + "; half a minute the first time, after Kubernetes"},
	{
		name: "local-path-provisioner", description: "provisions volumes, " + spec.LocalPathProvisioner + "; seconds, after Kubernetes",
		tool: "github.com/rancher/local-path-provisioner",
	},
	{name: "pause", description: "the first container of every pod"},
	{name: "httpd", description: "the web server for tests and demos"},
}

// cniPrograms are the programs of CNIs. Flannel and kube-router share a module, so that they share compiled packages; it is flannel itself.
var cniPrograms = map[spec.CNI][]program{
	spec.Flannel: {{
		name: "flannel", description: "the CNI, " + spec.Flannel.Version() + "; seconds, after Kubernetes", module: "cni",
	}},
	spec.KubeRouter: {{
		name: "kube-router", description: "the CNI, " + spec.KubeRouter.Version() + "; a minute the first time, after Kubernetes", module: "cni",
		tool: "github.com/cloudnativelabs/kube-router/v2/cmd/kube-router",
	}},
	spec.Cilium: {
		ciliumProgram("agent", "daemon", "the CNI, "+spec.Cilium.Version()+"; 3 minutes the first time"),
		ciliumProgram("cni", "plugins/cilium-cni", "the CNI plugin; seconds, after the agent"),
		ciliumProgram("operator", "operator", "creates the CRDs; half a minute, after the agent"),
	},
}

var kwok = program{
	name: "kwok", description: "simulates nodes, " + spec.Kwok + "; 2 minutes the first time",
	install: "sigs.k8s.io/kwok/cmd/kwok@" + spec.Kwok,
}

func containerdProgram(name, description string) program {
	return program{name: name, description: description, install: "github.com/containerd/containerd/v2/cmd/" + name + "@" + spec.Containerd}
}

func versionFlags(version string) string {
	const pkg = "k8s.io/component-base/version."
	parts := strings.Split(strings.TrimPrefix(version, "v"), ".")
	return fmt.Sprintf(" -X %[1]sgitVersion=%[2]s -X %[1]sgitMajor=%[3]s -X %[1]sgitMinor=%[4]s", pkg, version, parts[0], parts[1])
}

// outputFolder returns the folder that the program is placed in.
func (b Builder) outputFolder(p program) string {
	return b.Home.Assets(cmp.Or(p.release, spec.Kubernetes))
}

// buildProgram builds a binary unless the existing one was built from the same sources by the same version of Go.
func (b Builder) buildProgram(ctx context.Context, p program) error {
	files, err := p.sourceFiles(b.Sources)
	if err != nil {
		return fmt.Errorf("reading the sources of %s: %w", p.name, err)
	}
	stamp, err := p.sourceHash(ctx, files)
	if err != nil {
		return err
	}
	output := filepath.Join(b.outputFolder(p), p.name)
	stampFile := filepath.Join(b.outputFolder(p), "."+p.name+".stamp")
	if built, err := os.ReadFile(stampFile); err == nil && string(built) == stamp && isRegularFile(output) {
		return nil
	}
	b.Log.Print("building %s (%s)", p.name, p.description)
	folder := filepath.Join(b.Home.Sources(), cmp.Or(p.module, p.installFolder(), "playground"))
	if p.copies != "" {
		if err := copyModule(ctx, p.copies, filepath.Join(folder, upstream)); err != nil {
			return err
		}
	}
	if err := unpackSources(files, folder); err != nil {
		return err
	}
	if err := b.compileProgram(ctx, p, folder, output); err != nil {
		return err
	}
	return home.Write(stampFile, []byte(stamp), 0o644)
}

// installFolder returns the folder in which a third-party program is installed from, "" for other programs.
func (p program) installFolder() string {
	if p.install == "" {
		return ""
	}
	return p.name
}

// sourceFiles returns the files that the program is built from, by their path in the folder of its module.
func (p program) sourceFiles(sources fs.FS) (map[string][]byte, error) {
	files := map[string][]byte{}
	if p.install != "" {
		return files, nil
	}
	if p.module != "" {
		err := eachFile(moduleFiles, p.module, func(path string, data []byte) {
			files[strings.TrimSuffix(strings.TrimPrefix(path, p.module+"/"), ".txt")] = data
		})
		if err != nil || p.release == "" {
			return files, err
		}
	}
	err := eachFile(sources, ".", func(path string, data []byte) {
		own := strings.HasPrefix(path, p.name+"/") && !strings.HasSuffix(path, "_test.go")
		if own || p.module == "" && (path == "go.mod" || path == "go.sum") {
			files[path] = data
		}
	})
	return files, err
}

// isRegularFile reports whether the path is a file and not a link: an earlier release created kubectl as a link.
func isRegularFile(path string) bool {
	file, err := os.Lstat(path)
	return err == nil && file.Mode().IsRegular()
}

// sourceHash returns a hash of the version of Go, the flags and the sources of the program. What go.sum has to do with the program
// follows from go.mod.
func (p program) sourceHash(ctx context.Context, files map[string][]byte) (string, error) {
	sum := sha256.New()
	goVersion, err := exec.CommandContext(ctx, "go", "env", "GOVERSION", "GOARCH").Output()
	if err != nil {
		return "", fmt.Errorf("reading the version of Go (is Go installed and in PATH?): %w", err)
	}
	fmt.Fprintf(sum, "%s%s%s%s\n", goVersion, p.ldflags, p.install+p.copies+p.tool, p.tags)
	for _, path := range slices.Sorted(maps.Keys(files)) {
		if path != "go.sum" {
			fmt.Fprintf(sum, "%s %d\n%s", path, len(files[path]), files[path])
		}
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

func eachFile(files fs.FS, root string, visit func(path string, data []byte)) error {
	return fs.WalkDir(files, root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(files, path)
		if err != nil {
			return err
		}
		visit(path, data)
		return nil
	})
}

func unpackSources(files map[string][]byte, folder string) error {
	for name, data := range files {
		path := filepath.Join(folder, name)
		if current, err := os.ReadFile(path); err == nil && bytes.Equal(current, data) {
			continue
		}
		if err := home.Write(path, data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (b Builder) compileProgram(ctx context.Context, p program, folder, output string) error {
	built := filepath.Join(folder, ".new", p.name)
	if err := os.MkdirAll(filepath.Dir(built), 0o755); err != nil {
		return fmt.Errorf("creating a folder for %s: %w", p.name, err)
	}
	args := []string{"build", "-v", "-buildvcs=false", "-ldflags=-s -w" + p.ldflags, "-o", built, "./" + p.name}
	switch {
	case p.tool != "":
		args[len(args)-1] = p.tool
	case p.module != "" && p.release == "":
		args[len(args)-1] = "."
	case p.install != "":
		args = []string{"install", "-v", "-ldflags=-s -w", "-tags=" + p.tags, p.install}
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOOS=linux", "GOBIN="+filepath.Dir(built))
	if p.cgo {
		cmd.Env = append(cmd.Env, "CGO_ENABLED=1")
	}
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
	if err := os.MkdirAll(filepath.Dir(output), 0o755); err != nil {
		return fmt.Errorf("creating the folder of %s: %w", output, err)
	}
	if err := os.Rename(built, output); err != nil {
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
