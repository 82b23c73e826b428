// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"liqo.io/liqo/deploy"
	"liqo.io/liqo/internal/kube"
	"liqo.io/liqo/internal/testkit"
)

// pluginName is what kubectl looks for in the PATH when `kubectl liqo` is typed.
const pluginName = "kubectl-liqo"

// Under the name of the plugin the test binary is the program.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) != pluginName {
		testkit.Main(m)
		return
	}
	if err := Run(context.Background(), Options{Args: os.Args, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Chart: deploy.Chart()}); err != nil {
		os.Exit(1)
	}
}

// result is what a command left on its streams.
type result struct {
	stdout, stderr string
	err            error
}

// liqoctl runs the program on a cluster, as a user would with a pipe on every stream.
func liqoctl(t *testing.T, cfg *rest.Config, args ...string) result {
	t.Helper()
	return liqoctlUntil(t.Context(), t, cfg, args...)
}

// pseudoUntil begins the pseudo-argument of untilMissing.
const pseudoUntil = "--until-missing="

// untilMissing is a pseudo-argument for liqoctl: the time of the command is over when it waits for a condition with this text.
func untilMissing(text string) string { return pseudoUntil + text }

// withoutPseudo returns the context and the arguments of a command with pseudo-arguments.
func withoutPseudo(ctx context.Context, args []string) (context.Context, []string) {
	var real []string
	for _, arg := range args {
		text, ok := strings.CutPrefix(arg, pseudoUntil)
		if !ok {
			real = append(real, arg)
			continue
		}
		end, over := newOvertime(ctx)
		ctx = kube.WithProgress(end, func(missing string) {
			if strings.Contains(missing, text) {
				over()
			}
		})
	}
	return ctx, real
}

// liqoctlUntil is liqoctl, interrupted at the end of ctx.
func liqoctlUntil(ctx context.Context, t *testing.T, cfg *rest.Config, args ...string) result {
	t.Helper()
	ctx, args = withoutPseudo(ctx, args)
	if cfg != nil {
		args = append(args, "--kubeconfig", kubeconfigFile(t, cfg))
	}
	var stdout, stderr bytes.Buffer
	err := Run(ctx, Options{
		Args:  append([]string{"liqoctl"}, args...),
		Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr,
		Chart: deploy.Chart(), CompletionTimeout: time.Minute,
	})
	return result{stdout.String(), stderr.String(), err}
}

func kubeconfigFile(t *testing.T, cfg *rest.Config) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, testkit.Kubeconfig(t, cfg), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// refuses checks that a command failed with exactly one error line, which says the wanted words.
func (r result) refuses(t *testing.T, words ...string) {
	t.Helper()
	if r.err == nil {
		t.Errorf("it did not fail:\n%s%s", r.stdout, r.stderr)
	}
	if n := strings.Count(r.stderr, " ERRO "); n != 1 {
		t.Errorf("%d error lines instead of one:\n%s", n, r.stderr)
	}
	r.explains(t)
	for _, w := range words {
		if !strings.Contains(r.stderr, w) {
			t.Errorf("%q is missing:\n%s", w, r.stderr)
		}
	}
}

var explanation = regexp.MustCompile(`\n INFO  See docs/([a-z-]+\.md)#([a-z0-9-]+)\n`)

// explains checks that an error names a part of the documentation that exists.
func (r result) explains(t *testing.T) {
	t.Helper()
	found := explanation.FindStringSubmatch(r.stderr)
	if found == nil {
		t.Errorf("the error names no part of the documentation:\n%s", r.stderr)
		return
	}
	page, err := os.ReadFile("../../docs/" + found[1])
	if err != nil {
		t.Fatal(err)
	}
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(string(page), -1) {
		if anchor := regexp.MustCompile(`[^a-z0-9 _-]`).ReplaceAllString(strings.ToLower(heading[1]), ""); strings.ReplaceAll(anchor, " ", "-") == found[2] {
			return
		}
	}
	t.Errorf("docs/%s has no section %s", found[1], found[2])
}

func (r result) succeeds(t *testing.T, words ...string) {
	t.Helper()
	if r.err != nil {
		t.Fatalf("%v\n%s%s", r.err, r.stdout, r.stderr)
	}
	for _, w := range words {
		if !strings.Contains(r.stdout+r.stderr+comparableOutput(r.stderr, w), w) {
			t.Errorf("%q is missing:\n%s%s", w, r.stdout, r.stderr)
		}
	}
}
