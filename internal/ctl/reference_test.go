// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/ui"
)

var update = flag.Bool("update", false, "rewrite the reference of the commands")

const referencePage = "../../docs/cli.md"

// commands is the tree of all commands, with flags that nobody set.
func commands() *cluster.Session {
	return &cluster.Session{
		Printer:    ui.NewPrinter(strings.NewReader(""), &bytes.Buffer{}, &bytes.Buffer{}),
		KubeFlags:  genericclioptions.NewConfigFlags(true),
		Executable: "liqoctl",
	}
}

func TestCommandReference(t *testing.T) {
	want := commandReference(newRootCommand(commands()))
	if *update {
		if err := os.WriteFile(referencePage, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(referencePage)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("docs/cli.md is old, rewrite it: go test ./internal/ctl -run Reference -update (-commands +page)\n%s", diff)
	}
}
