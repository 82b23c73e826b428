// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// source is the state of the repository from which a release is made.
type source struct {
	commit string
	// date is the time of the commit, and of every file in the release.
	date time.Time
	// tagged reports that the commit has the tag of the release.
	tagged bool
	// toolchain is the version of Go.
	toolchain string
	changelog string
}

// versionPattern is a version as Go modules and container tags both accept it.
var versionPattern = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$`)

func checkVersion(version string) error {
	if !versionPattern.MatchString(version) {
		return fmt.Errorf("invalid version %q: must be like v1.2.3 or v1.2.3-rc.1 (make release VERSION=v1.2.3)", version)
	}
	return nil
}

func readSource(ctx context.Context, o *options) (*source, error) {
	s := &source{}
	changes, err := output(ctx, o.root, nil, "git", "status", "--porcelain")
	if err != nil {
		return nil, err
	}
	if changes != "" && !o.dirty {
		return nil, fmt.Errorf("the source tree has changes that are not committed:\n%s", changes)
	}
	if s.commit, err = output(ctx, o.root, nil, "git", "rev-parse", "HEAD"); err != nil {
		return nil, err
	}
	tags, err := output(ctx, o.root, nil, "git", "tag", "--points-at", "HEAD")
	if err != nil {
		return nil, err
	}
	for tag := range strings.FieldsSeq(tags) {
		s.tagged = s.tagged || tag == o.version
	}
	committed, err := output(ctx, o.root, nil, "git", "log", "-1", "--format=%ct")
	if err != nil {
		return nil, err
	}
	seconds, err := strconv.ParseInt(cmp.Or(os.Getenv("SOURCE_DATE_EPOCH"), committed), 10, 64)
	if err != nil {
		return nil, fmt.Errorf("reading SOURCE_DATE_EPOCH: %w", err)
	}
	s.date = time.Unix(seconds, 0).UTC()
	if s.toolchain, err = output(ctx, o.root, nil, "go", "env", "GOVERSION"); err != nil {
		return nil, err
	}
	changelog, err := os.ReadFile(filepath.Join(o.root, "CHANGELOG.md"))
	s.changelog = string(changelog)
	return s, err
}

// output runs a program in a folder and returns what it printed.
func output(ctx context.Context, folder string, env []string, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), env...)
	var problem strings.Builder
	cmd.Stderr = &problem
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("running %s %s: %w\n%s", program, strings.Join(args, " "), err, problem.String())
	}
	return strings.TrimSpace(string(out)), nil
}
