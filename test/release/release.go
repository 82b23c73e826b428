// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package release builds the release before this tree, for tests that have it beside this one.
package release

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

//go:embed previous.txt
var previousText string

// Previous is the release before this tree: the latest tag before this commit or, where there is none, what previous.txt says.
func Previous(root string) (ref string, err error) {
	if ref, err = output(root, "git", "describe", "--tags", "--abbrev=0", "HEAD^"); err != nil {
		lines := strings.Fields(previousText)
		ref = lines[len(lines)-1]
	}
	if _, err := output(root, "git", "cat-file", "-e", ref+"^{commit}"); err != nil {
		return "", fmt.Errorf("this clone does not have %s, the release to upgrade from: get it by git fetch --unshallow --tags", ref)
	}
	return ref, nil
}

// Build makes liqoctl and the image of what a ref names in a folder, which say that they are this version.
func Build(root, ref, version, folder string) (liqoctl, image string, err error) {
	archive := filepath.Join(folder, "source.tar")
	if _, err := output(root, "git", "archive", "--output", archive, ref); err != nil {
		return "", "", err
	}
	if _, err := output(folder, "tar", "-xf", archive); err != nil {
		return "", "", err
	}
	if _, err := output(folder, "make", "build", "image", "VERSION="+version); err != nil {
		return "", "", fmt.Errorf("building %s: %w", ref, err)
	}
	return filepath.Join(folder, "bin", "liqoctl"), filepath.Join(folder, "dist", "liqo.tar"), nil
}

func output(folder, program string, args ...string) (string, error) {
	cmd := exec.Command(program, args...)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "MAKEFLAGS=")                                                      // of a make that runs this
	cmd.Env = slices.DeleteFunc(cmd.Env, func(e string) bool { return strings.HasPrefix(e, "GIT_") }) // of a git that does
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s %s: %w\n%s", program, strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out)), err
}
