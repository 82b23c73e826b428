// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A clone that was cut off before the release says what to do.
func TestMissingRelease(t *testing.T) {
	folder := t.TempDir()
	git := func(args ...string) {
		t.Helper()
		if _, err := output(folder, "git", append([]string{"-c", "user.name=a", "-c", "user.email=a@b.example"}, args...)...); err != nil {
			t.Fatal(err)
		}
	}
	commit := func() {
		t.Helper()
		if err := os.WriteFile(filepath.Join(folder, "a"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		git("add", "a")
		git("commit", "--allow-empty", "-q", "-m", "a")
	}
	git("init", "-q")
	commit()
	if _, err := Previous(folder); err == nil || !strings.Contains(err.Error(), "git fetch --unshallow --tags") {
		t.Errorf("it says %v", err)
	}
	git("tag", "v0.1.0")
	commit()
	git("tag", "v0.2.0") // this tree is a release itself
	if ref, err := Previous(folder); ref != "v0.1.0" {
		t.Errorf("before v0.2.0 there is %q, %v", ref, err)
	}
	commit()
	if ref, err := Previous(folder); ref != "v0.2.0" {
		t.Errorf("after v0.2.0 there is %q, %v", ref, err)
	}
}
