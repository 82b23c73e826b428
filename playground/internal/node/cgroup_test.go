// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"os"
	"path/filepath"
	"testing"
)

func TestSetCPUWeights(t *testing.T) {
	for file, weight := range cpuWeights {
		root := t.TempDir()
		for _, dir := range []string{"play", "play/a1"} {
			if err := os.Mkdir(filepath.Join(root, dir), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(root, dir, file), []byte("1"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if err := setCPUWeights(root, "/play/a1"); err != nil {
			t.Fatal(err)
		}
		for _, dir := range []string{"play", "play/a1"} {
			if got, _ := os.ReadFile(filepath.Join(root, dir, file)); string(got) != weight {
				t.Errorf("%s of %s: %s, want %s", file, dir, got, weight)
			}
		}
	}
}

func TestSetCPUWeightsSkipsOtherHierarchies(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "play/a1"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := setCPUWeights(root, "play/a1"); err != nil {
		t.Fatal(err)
	}
	if files, _ := os.ReadDir(filepath.Join(root, "play/a1")); len(files) > 0 {
		t.Errorf("created %v", files)
	}
}
