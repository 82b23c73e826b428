// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package home

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"liqo.io/liqo/playground/internal/spec"
)

func openHome(t *testing.T) Home {
	t.Helper()
	t.Setenv("LIQO_PLAYGROUND_HOME", t.TempDir())
	t.Setenv("LIQO_PLAYGROUND_NAME", "pghome")
	h, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestClusters(t *testing.T) {
	h := openHome(t)
	for _, name := range []string{"c", "a"} {
		if err := h.Save(spec.Default(name, h.World)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(h.Cluster("b"), 0o755); err != nil { // left by a killed run
		t.Fatal(err)
	}
	clusters, err := h.Clusters()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range clusters {
		names = append(names, c.Name)
	}
	if diff := cmp.Diff([]string{"a", "c"}, names); diff != "" {
		t.Error(diff)
	}
	if _, err := h.Load("b"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a cluster that does not exist: %v", err)
	}
}

func TestLockWaits(t *testing.T) {
	h := openHome(t)
	unlock, err := h.Lock(func() { t.Error("waits although no other run has the lock") })
	if err != nil {
		t.Fatal(err)
	}
	waiting, done := make(chan struct{}), make(chan error, 1)
	go func() {
		second, err := h.Lock(func() { close(waiting) })
		if err == nil {
			second()
		}
		done <- err
	}()
	<-waiting
	unlock()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestClaim(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("the claim is a file in /run: only root can check it")
		return
	}
	first := openHome(t)
	t.Cleanup(func() { _ = first.Unclaim() })
	if err := first.Claim(); err != nil {
		t.Fatal(err)
	}
	if err := first.Claim(); err != nil {
		t.Errorf("the owner itself: %v", err)
	}
	second := openHome(t)
	if err := second.Claim(); err == nil || !strings.Contains(err.Error(), first.Root) {
		t.Errorf("another home: %v", err)
	}
	if err := os.RemoveAll(first.Root); err != nil {
		t.Fatal(err)
	}
	if err := second.Claim(); err != nil {
		t.Errorf("the owner is gone: %v", err)
	}
}

func TestWriteReplacesFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x", "file")
	for _, text := range []string{"first", "second"} {
		if err := Write(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, _ := os.ReadFile(path); string(got) != text {
			t.Errorf("got %q, want %q", got, text)
		}
	}
	if files, _ := os.ReadDir(filepath.Dir(path)); len(files) != 1 {
		t.Errorf("temporary files remain: %v", files)
	}
}
