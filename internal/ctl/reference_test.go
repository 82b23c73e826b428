// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"liqo.io/liqo/internal/ctl/out"
)

var update = flag.Bool("update", false, "rewrite the reference of the commands")

const referencePage = "../../docs/cli.md"

func TestReferenceSaysWhatTheCommandsSay(t *testing.T) {
	c := &cli{
		Printer:    out.New(strings.NewReader(""), &bytes.Buffer{}, &bytes.Buffer{}),
		kubeFlags:  genericclioptions.NewConfigFlags(true),
		executable: "liqoctl",
	}
	want := reference(c.root())
	if *update {
		if err := os.WriteFile(referencePage, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	have, err := os.ReadFile(referencePage)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(have)); diff != "" {
		t.Errorf("docs/cli.md is old, rewrite it: go test ./internal/ctl -run Reference -update (-commands +page)\n%s", diff)
	}
}

// reference is the page about all commands below root.
func reference(root *cobra.Command) string {
	root.CompletionOptions.DisableDefaultCmd = true // said in one sentence
	var page strings.Builder
	page.WriteString("# liqoctl\n\n" +
		"This page is made from the commands; a test compares it. What the original has and this version has not is in [compatibility.md](compatibility.md).\n\n" +
		"The program is also a plugin of kubectl: call the binary `kubectl-liqo`. `liqoctl completion bash|zsh|fish|powershell` prints a completion script.\n" +
		"Progress goes to standard error, what was asked for to standard output. The exit code is 0 or 1.\n\n" +
		"| command | does |\n|---|---|\n")
	var all []*cobra.Command
	each(root, func(cmd *cobra.Command) { all = append(all, cmd) })
	for _, cmd := range all {
		fmt.Fprintf(&page, "| [`%s`](#%s) | %s |\n", cmd.CommandPath(), strings.ReplaceAll(cmd.CommandPath(), " ", "-"), cmd.Short)
	}
	for _, cmd := range all {
		describeCommand(&page, cmd)
	}
	page.WriteString("\n## Flags of every command\n\n")
	flagTable(&page, root.PersistentFlags())
	page.WriteString("\nThe other connection flags of kubectl, such as `--server` and `--token`, are accepted and not listed.\n")
	return page.String()
}

// each calls do for the commands that can be run.
func each(parent *cobra.Command, do func(*cobra.Command)) {
	for _, cmd := range parent.Commands() {
		if cmd.Runnable() && !cmd.Hidden {
			do(cmd)
		}
		each(cmd, do)
	}
}

func describeCommand(page *strings.Builder, cmd *cobra.Command) {
	text := cmd.Long
	if text == "" {
		text = cmd.Short + "."
	}
	fmt.Fprintf(page, "\n## %s\n\n%s\n\n```\n%s\n```\n", cmd.CommandPath(), text, cmd.UseLine())
	if len(cmd.Aliases) > 0 {
		fmt.Fprintf(page, "\nAlso called `%s`.\n", strings.Join(cmd.Aliases, "`, `"))
	}
	if own := cmd.NonInheritedFlags(); own.HasAvailableFlags() {
		page.WriteString("\n")
		flagTable(page, own)
	}
	if above := cmd.Parent(); above.HasParent() && above.PersistentFlags().HasAvailableFlags() {
		fmt.Fprintf(page, "\nAlso takes, from `%s`: %s.\n", above.CommandPath(), strings.Join(flagNames(above.PersistentFlags()), ", "))
	}
	if cmd.Example != "" {
		fmt.Fprintf(page, "\nExamples:\n\n```\n%s\n```\n", strings.ReplaceAll(strings.TrimPrefix(cmd.Example, "  "), "\n  ", "\n"))
	}
}

func flagTable(page *strings.Builder, flags *pflag.FlagSet) {
	page.WriteString("| flag | type | default | |\n|---|---|---|---|\n")
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		name := "`--" + f.Name + "`"
		if f.Shorthand != "" {
			name += ", `-" + f.Shorthand + "`"
		}
		value := ""
		if f.DefValue != "" && f.DefValue != "[]" {
			value = "`" + f.DefValue + "`"
		}
		fmt.Fprintf(page, "| %s | %s | %s | %s |\n", name, f.Value.Type(), value, strings.ReplaceAll(f.Usage, "|", "\\|"))
	})
}

func flagNames(flags *pflag.FlagSet) []string {
	var names []string
	flags.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, "`--"+f.Name+"`")
		}
	})
	return names
}
