// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// docsOptions hold the formats to write, and the folder.
type docsOptions struct {
	dir, format string
	headers     bool
}

// newDocsCommand returns the command that writes the reference of the commands for external publishing: a page for each first-level
// command with its subcommands, and an index.
func (c *cli) newDocsCommand() *cobra.Command {
	o := &docsOptions{}
	cmd := &cobra.Command{
		Use: "docs", Hidden: true, Args: cobra.NoArgs,
		Short: "Write the reference of the commands into a folder",
		RunE: func(*cobra.Command, []string) error {
			return c.writeDocs(o)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&o.dir, "dir", ".", "The folder, which is made if it is missing")
	fs.Var(oneOf(&o.format, "markdown", []string{"markdown", "man"}), "type", "What to write: markdown or man")
	fs.BoolVar(&o.headers, "generate-headers", false, "Begin each page of markdown with a header that has its title")
	return cmd
}

func (c *cli) writeDocs(o *docsOptions) error {
	if err := os.MkdirAll(o.dir, 0o755); err != nil {
		return fmt.Errorf("making the folder: %w", err)
	}
	root := c.newRootCommand() // a fresh one, on which no command line was parsed
	pages := markdownPages(root, o.headers)
	if o.format == "man" {
		pages = manPages(root)
	}
	for _, name := range sortedKeys(pages) {
		if err := os.WriteFile(filepath.Join(o.dir, name), []byte(pages[name]), 0o644); err != nil {
			return fmt.Errorf("writing a page: %w", err)
		}
	}
	c.Success("%d pages are in %s", len(pages), o.dir)
	return nil
}

// markdownPages returns the pages of the reference by file name.
func markdownPages(root *cobra.Command, headers bool) map[string]string {
	pages := map[string]string{}
	add := func(name, title, text string) {
		if headers {
			text = fmt.Sprintf("---\ntitle: %q\n---\n\n", title) + text
		}
		pages[name] = text
	}
	var index strings.Builder
	fmt.Fprintf(&index, "# %s\n\n", root.CommandPath())
	writeIntroduction(&index)
	for _, first := range firstLevel(root) {
		file := root.Name() + "_" + first.Name() + ".md"
		fmt.Fprintf(&index, "| [`%s`](%s) | %s |\n", first.CommandPath(), file, first.Short)
		var page strings.Builder
		fmt.Fprintf(&page, "# %s\n", first.CommandPath())
		for _, cmd := range append([]*cobra.Command{first}, subcommandsOf(first)...) {
			describeCommand(&page, cmd)
		}
		add(file, first.CommandPath(), page.String())
	}
	flagsOfAll(&index, root)
	add(root.Name()+".md", root.CommandPath(), index.String())
	return pages
}

func firstLevel(root *cobra.Command) []*cobra.Command {
	var all []*cobra.Command
	for _, cmd := range root.Commands() {
		if !cmd.Hidden {
			all = append(all, cmd)
		}
	}
	return all
}

// manPages returns the same pages as man pages of section 1.
func manPages(root *cobra.Command) map[string]string {
	pages := map[string]string{}
	for _, first := range append([]*cobra.Command{root}, firstLevel(root)...) {
		name := root.Name()
		if first != root {
			name += "-" + first.Name()
		}
		var page strings.Builder
		fmt.Fprintf(&page, ".TH %s 1\n.SH NAME\n%s \\- %s\n", strings.ToUpper(escapeRoff(name)), escapeRoff(name), escapeRoff(first.Short))
		page.WriteString(".SH SYNOPSIS\n")
		commands := []*cobra.Command{first}
		if first == root {
			page.WriteString(".B " + escapeRoff(root.CommandPath()) + " COMMAND [flags]\n.SH COMMANDS\n")
			for _, cmd := range firstLevel(root) {
				fmt.Fprintf(&page, ".TP\n.BR %s (1)\n%s\n", escapeRoff(root.Name()+"-"+cmd.Name()), escapeRoff(cmd.Short))
			}
			manFlags(&page, "FLAGS OF EVERY COMMAND", root.PersistentFlags())
			pages[name+".1"] = page.String()
			continue
		}
		commands = append(commands, subcommandsOf(first)...)
		for _, cmd := range commands {
			fmt.Fprintf(&page, ".B %s\n.br\n", escapeRoff(cmd.UseLine()))
		}
		for _, cmd := range commands {
			manCommand(&page, cmd)
		}
		pages[name+".1"] = page.String()
	}
	return pages
}

func manCommand(page *strings.Builder, cmd *cobra.Command) {
	text := cmd.Long
	if text == "" {
		text = cmd.Short + "."
	}
	fmt.Fprintf(page, ".SH %s\n%s\n", strings.ToUpper(escapeRoff(cmd.CommandPath())), escapeRoff(text))
	manFlags(page, "Flags", cmd.NonInheritedFlags())
	if cmd.Example != "" {
		fmt.Fprintf(page, ".SS Examples\n.nf\n%s\n.fi\n", escapeRoff(strings.ReplaceAll(strings.TrimPrefix(cmd.Example, "  "), "\n  ", "\n")))
	}
}

func manFlags(page *strings.Builder, title string, flags *pflag.FlagSet) {
	if !flags.HasAvailableFlags() {
		return
	}
	fmt.Fprintf(page, ".SS %s\n", title)
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		fmt.Fprintf(page, ".TP\n.B %s\n%s", escapeRoff(name), escapeRoff(f.Usage))
		if f.DefValue != "" && f.DefValue != "[]" {
			fmt.Fprintf(page, " (default %s)", escapeRoff(f.DefValue))
		}
		page.WriteString("\n")
	})
}

// escapeRoff escapes a text for troff.
func escapeRoff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
