// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"liqo.io/liqo/internal/testkit"
)

func TestErrorPrintedOnce(t *testing.T) {
	liqoctl(t, nil, "version", "--unknown").refuses(t, "error: unknown flag: --unknown")
	liqoctl(t, nil, "version", "extra").refuses(t, "unknown command")
	liqoctl(t, nil, "dance").refuses(t, `unknown command "dance" for "liqoctl"`)
	liqoctl(t, nil, "offload", "cluster").refuses(t, `unknown command "cluster" for "liqoctl offload"`)
	liqoctl(t, nil, "uninstall").refuses(t, "no terminal is available for a confirmation: add --skip-confirm")
	liqoctl(t, nil, "info", "--kubeconfig", "/nowhere").refuses(t, "/nowhere")
}

func TestVersionClient(t *testing.T) {
	r := liqoctl(t, nil, "version", "--client", "--kubeconfig", "/nowhere")
	r.succeeds(t)
	if r.stdout != "Client version: dev\n" || r.stderr != "" {
		t.Errorf("%q %q", r.stdout, r.stderr)
	}
}

func TestVersionWithoutServer(t *testing.T) {
	c := testkit.Cluster(t)
	r := liqoctl(t, c.Config, "version")
	if r.err == nil || r.stdout != "Client version: dev\nServer version: Unknown\n" {
		t.Errorf("%v: %q", r.err, r.stdout)
	}
	if want := ` WARN  Failed to retrieve Liqo server version: namespace "liqo" has no controller-manager of Liqo`; !strings.Contains(r.stderr, want) {
		t.Errorf("stderr is %q", r.stderr)
	}
}

func TestKubectlPlugin(t *testing.T) {
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := t.TempDir()
	if err := os.Symlink(binary, filepath.Join(path, pluginName)); err != nil {
		t.Fatal(err)
	}
	kubectl := func(args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl"), args...)
		cmd.Env = append(os.Environ(), "PATH="+path, "KUBECONFIG=/nowhere")
		output, err := cmd.CombinedOutput()
		return string(output), err
	}
	if output, err := kubectl("liqo", "version", "--client"); err != nil || output != "Client version: dev\n" {
		t.Errorf("kubectl liqo version: %v\n%s", err, output)
	}
	if output, err := kubectl("liqo", "info", "peer", "--help"); err != nil || !strings.Contains(output, "\n  kubectl liqo info peer [ID...] [flags]\n") {
		t.Errorf("kubectl liqo info peer --help: %v\n%s", err, output)
	}
	if output, err := kubectl("liqo", "dance"); err == nil || !strings.Contains(output, `unknown command "dance" for "kubectl liqo"`) {
		t.Errorf("kubectl liqo dance: %v\n%s", err, output)
	}
}

func TestHelpHasGroups(t *testing.T) {
	r := liqoctl(t, nil, "--help")
	r.succeeds(t)
	at := 0
	for _, want := range []string{"\nSet up:\n", "\n  peer ", "\nUse:\n", "\n  offload ", "\nInspect:\n", "\n  info ", "\nRepair:\n", "\n  force ", "\nAdditional Commands:\n", "\n  completion "} {
		i := strings.Index(r.stdout[at:], want)
		if i < 0 {
			t.Fatalf("%q is missing or out of order:\n%s", want, r.stdout)
		}
		at += i
	}
	if rest := r.stdout[at:]; strings.Contains(rest, "\n  docs ") {
		t.Errorf("hidden commands are shown:\n%s", r.stdout)
	}
}

func TestUnknownCommandSuggestions(t *testing.T) {
	for line, want := range map[string]string{
		"offlod":               "unknown command \"offlod\" for \"liqoctl\"\n INFO  Did you mean offload?\n",
		"create resourceslic":  "unknown command \"resourceslic\" for \"liqoctl create\"\n INFO  Did you mean resourceslice?\n",
		"network":              "",
		"network conect":       "unknown command \"conect\" for \"liqoctl network\"\n INFO  Did you mean connect?\n",
		"network sing-a-song":  "unknown command \"sing-a-song\" for \"liqoctl network\"\n INFO  The commands are listed by: liqoctl network --help\n",
		"create resourceslice": "accepts 1 arg(s), received 0: NAME is missing\n INFO  For example: liqoctl create resourceslice milan",
		"cordon tenant a b":    "accepts 1 arg(s), received 2\n INFO  For example: liqoctl cordon tenant rome\n",
	} {
		if r := liqoctl(t, nil, strings.Fields(line)...); want == "" {
			r.succeeds(t)
		} else {
			r.refuses(t, want)
		}
	}
}
