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

func TestDocsCommand(t *testing.T) {
	for format, pages := range map[string]map[string][]string{
		"markdown": {
			"liqoctl.md":                 {"## liqoctl\n", "* [liqoctl peer](liqoctl_peer.md)\t", "--kubeconfig string"},
			"liqoctl_peer.md":            {"---\ntitle: \"liqoctl peer\"\n---\n\n## liqoctl peer\n", "--gw-server-service-type", "### Examples\n"},
			"liqoctl_network_connect.md": {"\n## liqoctl network connect\n", "* [liqoctl network](liqoctl_network.md)\t"},
		},
		"man": {
			"liqoctl.1":                 {".TH \"LIQOCTL\" \"1\"", "liqoctl-peer(1)"},
			"liqoctl-peer.1":            {"liqoctl-peer - ", "--gw-server-service-type"},
			"liqoctl-network-connect.1": {"liqoctl-network-connect - "},
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
		if want := 1 + countPages(newRootCommand(commands())); err != nil || len(written) != want {
			t.Errorf("%d pages of %s, %v; want %d", len(written), format, err, want)
		}
	}
	liqoctl(t, nil, "docs", "--type", "html").refuses(t, "it is one of markdown, man")
	if slices.ContainsFunc(subcommandsOf(newRootCommand(commands())), func(cmd *cobra.Command) bool { return cmd.Name() == "docs" }) {
		t.Error("docs is no hidden command")
	}
}

// countPages returns the number of commands below a command that are shown.
func countPages(parent *cobra.Command) (n int) {
	for _, cmd := range parent.Commands() {
		if cmd.IsAvailableCommand() {
			n += 1 + countPages(cmd)
		}
	}
	return n
}
