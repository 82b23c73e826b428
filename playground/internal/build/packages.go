// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package build

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"liqo.io/liqo/playground/internal/progress"
	"liqo.io/liqo/playground/internal/spec"
)

// requiredTool is a program that clusters need and that is not built from Go modules.
type requiredTool struct {
	path          string // path of a file, or name of a program in PATH
	debianPackage string // Debian package that contains the program
}

var requiredTools = []requiredTool{
	{"gcc", "gcc"}, // for runc
	{"pkg-config", "pkg-config"},
	{"/usr/include/stdlib.h", "libc6-dev"},
	{"/usr/include/seccomp.h", "libseccomp-dev"},
	{"/usr/lib/cni/ptp", "containernetworking-plugins"},
	{"nft", "nftables"},
	{"conntrack", "conntrack"},
	{"ip", "iproute2"},
	{"bridge", "iproute2"},
	{"busybox", "busybox-static"},
	{"mount", "mount"},
}

// cniTools are what the images of CNIs need beyond that.
var cniTools = map[spec.CNI][]requiredTool{
	spec.Flannel:    {{xtables, "iptables"}},
	spec.KubeRouter: {{xtables, "iptables"}, {"ipset", "ipset"}},
	spec.Cilium:     {{xtables, "iptables"}, {"ipset", "ipset"}, {clang, clang}, {"bpftool", "bpftool"}},
}

const xtables = "xtables-nft-multi" // iptables is a link to it

// installPackages installs missing tools on Debian. On other systems the error lists what to install.
func installPackages(ctx context.Context, log *progress.Log, tools []requiredTool) error {
	missing := missingTools(tools, toolInstalled)
	if len(missing) == 0 {
		return nil
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return errors.New(installHint(missing))
	}
	debs := debianPackages(missing)
	if os.Geteuid() != 0 {
		return fmt.Errorf("packages are missing; run as root:\n  apt-get update && apt-get install -y %s", strings.Join(debs, " "))
	}
	log.Print("installing packages: %s", strings.Join(debs, " "))
	for _, args := range [][]string{{"update", "-qq"}, append([]string{"install", "-y", "-qq", "--no-install-recommends"}, debs...)} {
		cmd := exec.CommandContext(ctx, "apt-get", args...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("installing packages (apt-get %s): %w\n%s", strings.Join(args, " "), err, out)
		}
	}
	return nil
}

func toolInstalled(path string) bool {
	if filepath.IsAbs(path) {
		_, err := os.Stat(path)
		return err == nil
	}
	_, err := exec.LookPath(path)
	return err == nil
}

func missingTools(tools []requiredTool, installed func(string) bool) []requiredTool {
	return slices.DeleteFunc(slices.Clone(tools), func(tool requiredTool) bool { return installed(tool.path) })
}

func debianPackages(missing []requiredTool) []string {
	var debs []string
	for _, tool := range missing {
		if !slices.Contains(debs, tool.debianPackage) {
			debs = append(debs, tool.debianPackage)
		}
	}
	return debs
}

func installHint(missing []requiredTool) string {
	var b strings.Builder
	b.WriteString("apt-get was not found; install these programs (package names of Debian):\n")
	for _, tool := range missing {
		fmt.Fprintf(&b, "  %-22s package %s\n", tool.path, tool.debianPackage)
	}
	return strings.TrimSuffix(b.String(), "\n")
}
