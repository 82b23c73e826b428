// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"liqo.io/liqo/internal/ctl/cluster"
)

// docsOptions hold the formats to write, and the folder.
type docsOptions struct {
	dir, format string
	headers     bool
}

// newDocsCommand returns the command that writes the reference of the commands for external publishing, a page for each command.
func newDocsCommand(c *cluster.Session) *cobra.Command {
	o := &docsOptions{}
	cmd := &cobra.Command{
		Use: "docs", Hidden: true, Args: cobra.NoArgs,
		Short: "Write the reference of the commands into a folder",
		RunE: func(*cobra.Command, []string) error {
			return writeDocs(c, o)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&o.dir, "dir", ".", "The folder, which is made if it is missing")
	fs.Var(cluster.OneOf(&o.format, "markdown", []string{"markdown", "man"}), "type", "Output format: markdown or man")
	fs.BoolVar(&o.headers, "generate-headers", false, "Begin each page of markdown with a header that has its title")
	return cmd
}

func writeDocs(c *cluster.Session, o *docsOptions) error {
	if err := os.MkdirAll(o.dir, 0o755); err != nil {
		return fmt.Errorf("making the folder: %w", err)
	}
	root := newRootCommand(c) // a new command, without a parsed command line
	root.DisableAutoGenTag, root.CompletionOptions.DisableDefaultCmd = true, true
	if err := o.writePages(root); err != nil {
		return fmt.Errorf("writing the pages: %w", err)
	}
	c.Success("The pages are in %s", o.dir)
	return nil
}

func (o *docsOptions) writePages(root *cobra.Command) error {
	if o.format == "man" {
		return doc.GenManTree(root, &doc.GenManHeader{Section: "1"}, o.dir)
	}
	header := func(file string) string {
		if !o.headers {
			return ""
		}
		command := strings.TrimSuffix(filepath.Base(file), ".md")
		return fmt.Sprintf("---\ntitle: %q\n---\n\n", strings.ReplaceAll(command, "_", " "))
	}
	return doc.GenMarkdownTreeCustom(root, o.dir, header, func(link string) string { return link })
}
