// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestDocsWritesAPageForEachCommand(t *testing.T) {
	for format, pages := range map[string]map[string][]string{
		"markdown": {
			"liqoctl.md":         {"# liqoctl\n", "| [`liqoctl peer`](liqoctl_peer.md) |", "## Flags of every command", "`--kubeconfig`"},
			"liqoctl_peer.md":    {"---\ntitle: \"liqoctl peer\"\n---\n\n# liqoctl peer\n\n## liqoctl peer\n", "`--gw-server-service-type`"},
			"liqoctl_network.md": {"\n## liqoctl network connect\n", "\n## liqoctl network reset\n"},
		},
		"man": {
			"liqoctl.1":         {".TH LIQOCTL 1\n", ".BR liqoctl\\-peer (1)\n"},
			"liqoctl-peer.1":    {".TH LIQOCTL\\-PEER 1\n", ".B \\-\\-gw\\-server\\-service\\-type\n"},
			"liqoctl-network.1": {".SH LIQOCTL NETWORK CONNECT\n"},
		},
	} {
		dir := filepath.Join(t.TempDir(), "pages")
		liqoctl(t, nil, "docs", "--dir", dir, "--type", format, "--generate-headers").succeeds(t)
		for name, wants := range pages {
			text, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Error(err)
			}
			for _, want := range wants {
				if !strings.Contains(string(text), want) {
					t.Errorf("%s has no %q:\n%s", name, want, text)
				}
			}
		}
		written, err := os.ReadDir(dir)
		if want := 1 + len(firstLevel(commands().newRootCommand())); err != nil || len(written) != want {
			t.Errorf("%d pages of %s, %v; want %d", len(written), format, err, want)
		}
	}
	liqoctl(t, nil, "docs", "--type", "html").refuses(t, "it is one of markdown, man")
	if slices.ContainsFunc(subcommandsOf(commands().newRootCommand()), func(cmd *cobra.Command) bool { return cmd.Name() == "docs" }) {
		t.Error("docs is no hidden command")
	}
}

func TestTextsForTroffAreNoRequests(t *testing.T) {
	if got, want := escapeRoff("a-b\n.c\n'd\\"), "a\\-b\n\\&.c\n\\&'d\\e"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
