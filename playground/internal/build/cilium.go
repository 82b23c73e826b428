// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package build

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"liqo.io/liqo/playground/internal/spec"
)

const (
	ciliumModule = "github.com/cilium/cilium"
	ciliumSum    = "h1:WeR71cqrGN0nvn0QEzerGYHiKAYhs77QaXeOUU7UQUI=" // go.sum has none of a module that is replaced
	upstream     = "upstream"                                        // folder of the copy, in that of the program's module
	clang        = "clang-19"
)

func ciliumProgram(name, pkg, description string) program {
	return program{
		name: "cilium-" + name, description: description, module: "cilium", tool: ciliumModule + "/" + pkg,
		copies: ciliumModule + "@" + spec.Cilium.Version() + " " + ciliumSum, ldflags: " -X " + ciliumModule + "/pkg/version.ciliumVersion=" + strings.TrimPrefix(spec.Cilium.Version(), "v"),
	}
}

// addCilium adds the sources of the BPF programs, which the agent compiles, the compiler's name, and what a script needs that copies the CNI plugin
// to the node.
func (b Builder) addCilium(img image) error {
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		return fmt.Errorf("finding busybox: %w", err)
	}
	img.files["/bin/busybox"] = busybox
	for _, applet := range []string{"sh", "cp", "mv"} {
		img.links["/bin/"+applet] = "busybox"
	}
	img.links["/sbin/clang"] = clang
	sources := filepath.Join(b.Home.Sources(), "cilium", upstream, "bpf")
	return filepath.WalkDir(sources, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			img.files["/var/lib/cilium/bpf"+strings.TrimPrefix(path, sources)] = path
		}
		return err
	})
}

// copyModule copies the sources of a module, given as module@version and hash, to a folder.
func copyModule(ctx context.Context, module, folder string) error {
	version, sum, _ := strings.Cut(module, " ")
	if copied, err := os.ReadFile(filepath.Join(folder, ".copied")); err == nil && string(copied) == module {
		return nil
	}
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", version)
	cmd.Dir, cmd.Env = os.TempDir(), append(os.Environ(), "GOWORK=off")
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("downloading %s: %w\n%s", version, err, out)
	}
	var downloaded struct{ Dir, Sum string }
	if err := json.Unmarshal(out, &downloaded); err != nil {
		return fmt.Errorf("reading what was downloaded of %s: %w", version, err)
	}
	if downloaded.Sum != sum {
		return fmt.Errorf("verifying %s: hash %s, want %s", version, downloaded.Sum, sum)
	}
	if err := os.RemoveAll(folder); err != nil {
		return fmt.Errorf("removing an older copy of %s: %w", version, err)
	}
	err = filepath.WalkDir(downloaded.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		rel, err := filepath.Rel(downloaded.Dir, path)
		if err != nil || strings.HasPrefix(rel, "vendor/") || strings.HasPrefix(rel, "Documentation/") {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		target := filepath.Join(folder, rel)
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		return os.WriteFile(target, data, 0o644)
	})
	if err != nil {
		return fmt.Errorf("copying %s: %w", version, err)
	}
	return os.WriteFile(filepath.Join(folder, ".copied"), []byte(module), 0o644)
}
