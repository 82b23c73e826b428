// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package gitops

import (
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// repository is a git repository that is served over HTTP on the loopback interface, and the checkout that an administrator works in.
type repository struct {
	checkout, url string
}

// newRepository serves a repository with what fill writes into its first commit.
func newRepository(t *testing.T, fill func(checkout string)) *repository {
	t.Helper()
	root := t.TempDir()
	r := &repository{checkout: filepath.Join(root, "checkout")}
	bare := filepath.Join(root, "served", "peering.git")
	git, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	runGit(t, root, "init", "--bare", "--initial-branch=main", bare)
	runGit(t, root, "clone", "--quiet", bare, r.checkout)
	runGit(t, r.checkout, "checkout", "-q", "-B", "main")
	server := httptest.NewServer(&cgi.Handler{
		Path: git, Args: []string{"http-backend"}, Dir: root,
		Env: []string{"GIT_PROJECT_ROOT=" + filepath.Dir(bare), "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"},
	})
	t.Cleanup(server.Close)
	r.url = server.URL + "/peering.git"
	fill(r.checkout)
	r.commit(t, "The peering")
	return r
}

// commit makes everything in the checkout the newest commit that is served.
func (r *repository) commit(t *testing.T, message string) {
	t.Helper()
	runGit(t, r.checkout, "add", "--all")
	runGit(t, r.checkout, "-c", "user.name=admin", "-c", "user.email=admin@example.org", "commit", "--quiet", "-m", message)
	runGit(t, r.checkout, "push", "--quiet", "origin", "main")
}

// edit changes a file of the checkout.
func (r *repository) edit(t *testing.T, path string, change func(string) string) {
	t.Helper()
	file := filepath.Join(r.checkout, path)
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	after := change(string(before))
	if after == string(before) {
		t.Fatalf("%s has nothing of what was to be changed", path)
	}
	if err := os.WriteFile(file, []byte(after), 0o600); err != nil {
		t.Fatal(err)
	}
}

func runGit(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}
