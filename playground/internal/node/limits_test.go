// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"os"
	"path/filepath"
	"testing"
)

func TestRaiseLimit(t *testing.T) {
	for before, want := range map[string]string{"128\n": "1024", "1024\n": "1024\n", "65536\n": "65536\n"} {
		file := filepath.Join(t.TempDir(), "limit")
		if err := os.WriteFile(file, []byte(before), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := raiseLimit(file, 1024); err != nil {
			t.Fatal(err)
		}
		if got, _ := os.ReadFile(file); string(got) != want {
			t.Errorf("%q became %q, want %q", before, got, want)
		}
	}
}

func TestRaiseLimitOfInvalidNumber(t *testing.T) {
	file := filepath.Join(t.TempDir(), "limit")
	if err := os.WriteFile(file, []byte("max"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := raiseLimit(file, 1024); err == nil {
		t.Error("no error")
	}
}
