// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package build

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"liqo.io/liqo/playground/internal/progress"
)

// need is something that clusters use and Go does not bring.
type need struct {
	path string // of a file, or the name of a program in PATH
	deb  string // the Debian package that has it
}

var needs = []need{
	{"containerd", "containerd"},
	{"ctr", "containerd"},
	{"runc", "runc"},
	{"/usr/lib/cni/ptp", "containernetworking-plugins"},
	{"nft", "nftables"},
	{"conntrack", "conntrack"},
	{"ip", "iproute2"},
	{"bridge", "iproute2"},
	{"busybox", "busybox-static"},
	{"mount", "mount"},
}

// Packages installs what is missing on Debian, and says what to install elsewhere.
func Packages(ctx context.Context, log *progress.Log) error {
	absent := missing(needs, found)
	if len(absent) == 0 {
		return nil
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return errors.New(elsewhere(absent))
	}
	debs := packagesOf(absent)
	if os.Geteuid() != 0 {
		return fmt.Errorf("packages are missing; run as root:\n  apt-get update && apt-get install -y %s", strings.Join(debs, " "))
	}
	log.Say("installing packages: %s", strings.Join(debs, " "))
	for _, args := range [][]string{{"update", "-qq"}, append([]string{"install", "-y", "-qq", "--no-install-recommends"}, debs...)} {
		cmd := exec.CommandContext(ctx, "apt-get", args...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("installing packages (apt-get %s): %w\n%s", strings.Join(args, " "), err, out)
		}
	}
	return nil
}

func found(path string) bool {
	_, err := exec.LookPath(path)
	return err == nil
}

func missing(all []need, has func(string) bool) []need {
	return slices.DeleteFunc(slices.Clone(all), func(n need) bool { return has(n.path) })
}

func packagesOf(absent []need) []string {
	var debs []string
	for _, n := range absent {
		if !slices.Contains(debs, n.deb) {
			debs = append(debs, n.deb)
		}
	}
	return debs
}

func elsewhere(absent []need) string {
	var b strings.Builder
	b.WriteString("please install (this is no Debian, so the names are Debian's):\n")
	for _, n := range absent {
		fmt.Fprintf(&b, "  %-22s package %s\n", n.path, n.deb)
	}
	return strings.TrimSuffix(b.String(), "\n")
}
