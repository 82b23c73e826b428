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

	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/ui"
)

var update = flag.Bool("update", false, "rewrite the reference of the commands")

const referencePage = "../../docs/cli.md"

// commands is the tree of all commands, with flags that nobody set.
func commands() *cluster.Session {
	return &cluster.Session{
		Printer:    ui.NewPrinter(strings.NewReader(""), &bytes.Buffer{}, &bytes.Buffer{}),
		KubeFlags:  cluster.NewKubeFlags(),
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

// commandReference returns the reference page of all commands below root.
func commandReference(root *cobra.Command) string {
	root.CompletionOptions.DisableDefaultCmd = true // the introduction mentions it
	var page strings.Builder
	page.WriteString("# liqoctl\n\n" +
		"This page is made from the commands; a test compares it. What the original has and this version has not is in [compatibility.md](compatibility.md).\n\n")
	writeIntroduction(&page)
	all := subcommandsOf(root)
	for _, cmd := range all {
		fmt.Fprintf(&page, "| [`%s`](#%s) | %s |\n", cmd.CommandPath(), strings.ReplaceAll(cmd.CommandPath(), " ", "-"), cmd.Short)
	}
	for _, cmd := range all {
		describeCommand(&page, cmd)
	}
	flagsOfAll(&page, root)
	return page.String()
}

// writeIntroduction writes the introduction for all commands, and the head of their table.
func writeIntroduction(page *strings.Builder) {
	page.WriteString("The program is also a plugin of kubectl: call the binary `kubectl-liqo`. `liqoctl completion bash|zsh|fish|powershell` prints a completion script.\n" +
		"Progress goes to standard error, what was asked for to standard output. The exit code is 0 or 1.\n" +
		"An error ends with the part of these pages that explains it. If that is a section of this page, [begin here](troubleshooting.md#begin-here).\n\n" +
		"| command | does |\n|---|---|\n")
}

func flagsOfAll(page *strings.Builder, root *cobra.Command) {
	page.WriteString("\n## Flags of every command\n\n")
	flagTable(page, root.PersistentFlags())
	page.WriteString("\nThe other connection flags of kubectl, such as `--server` and `--token`, are accepted and not listed.\n")
}

// subcommandsOf returns the visible, runnable commands.
func subcommandsOf(parent *cobra.Command) []*cobra.Command {
	var all []*cobra.Command
	for _, cmd := range parent.Commands() {
		if cmd.Runnable() && !cmd.Hidden {
			all = append(all, cmd)
		}
		all = append(all, subcommandsOf(cmd)...)
	}
	return all
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
