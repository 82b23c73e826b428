// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// Whoever copies a line from a page, or from an example of a command, gets no error about how it is written.
func TestCommandsInDocs(t *testing.T) {
	found := 0
	for _, page := range pages(t) {
		data, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		lines, named := codeLines(string(data))
		for _, line := range lines {
			if err := parses(line); err != nil {
				t.Errorf("%s: %s: %v", filepath.Base(page), line, err)
			}
		}
		for _, line := range named {
			if err := exists(line); err != nil {
				t.Errorf("%s: %s: %v", filepath.Base(page), line, err)
			}
		}
		found += len(lines) + len(named)
	}
	if found < 100 {
		t.Errorf("only %d lines were found", found)
	}
	for _, cmd := range subcommandsOf(newRootCommand(commands())) {
		for line := range strings.Lines(cmd.Example) {
			if err := parses(strings.TrimSpace(line)); err != nil {
				t.Errorf("example of %s: %s: %v", cmd.CommandPath(), strings.TrimSpace(line), err)
			}
		}
	}
}

// Guides of the original, also of versions before 1.0, have these.
func TestCommandsInOlderGuides(t *testing.T) {
	for line := range strings.Lines(`liqoctl --kubeconfig=$CONSUMER peer --remote-kubeconfig $PROVIDER
liqoctl --kubeconfig $PROVIDER peer --remote-kubeconfig $CONSUMER
liqoctl --kubeconfig $CONSUMER unpeer --remote-kubeconfig $PROVIDER
liqoctl info peer cl01 cl02
liqoctl info peer -o json
liqoctl info peer cl01 --get authentication.resourceslices
liqoctl info peer cl01 --get network.gateway
liqoctl info --get clusterid
liqoctl network init --kubeconfig $ONE --remote-kubeconfig $TWO
liqoctl network connect --kubeconfig $ONE --remote-kubeconfig $TWO --server-service-type NodePort
liqoctl network connect --server-port 51840 --node-port 0 --load-balancer-ip "" --mtu 1340
liqoctl network disconnect --kubeconfig $ONE --remote-kubeconfig $TWO --wait
liqoctl network reset --kubeconfig $ONE --remote-kubeconfig $TWO
liqoctl generate configuration > conf-client.yaml
liqoctl create gatewayserver server --remote-cluster-id <CLIENT> --service-type NodePort -o yaml
liqoctl create gatewayclient client --remote-cluster-id <SERVER> --addresses <IP> --port 32133 -o yaml
liqoctl generate publickey --gateway-type server --gateway-name server > publickey-server.yaml
`) {
		if err := parses(strings.TrimSpace(line)); err != nil {
			t.Errorf("%s: %v", strings.TrimSpace(line), err)
		}
	}
}

// Entries of k9s have commands that can run.
func TestK9sPlugins(t *testing.T) {
	data, err := os.ReadFile("../../examples/k9s/plugins.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Plugins map[string]struct {
			ShortCut, Description, Command string
			Scopes, Args                   []string
			Background                     bool
		}
	}
	if err := yaml.UnmarshalStrict(data, &file); err != nil {
		t.Fatal(err)
	}
	keys := map[string]string{}
	for name, plugin := range file.Plugins {
		line := strings.NewReplacer("$NAMESPACE", "shop", "$NAME", "milan", "$CONTEXT", "rome").Replace(plugin.Args[1])
		line, shown, _ := strings.Cut(line, " 2>&1 | ")
		if shown != "less -R" || plugin.Command != "sh" {
			t.Errorf("%s shows nothing", name)
		}
		if err := parses(line); err != nil {
			t.Errorf("%s: %s: %v", name, line, err)
		}
		for _, scope := range plugin.Scopes {
			if other := keys[scope+plugin.ShortCut]; other != "" {
				t.Errorf("%s and %s have the same key", name, other)
			}
			keys[scope+plugin.ShortCut] = name
		}
	}
	if len(file.Plugins) == 0 {
		t.Error("there is no entry")
	}
}

func TestPeerOutputInDocs(t *testing.T) {
	for page, outputs := range map[string][]string{
		"peering.md":               {"```\n" + guided() + "```\n"},
		"tutorial-own-clusters.md": {"```\n" + initialised + connected + established + authenticated + sliced + "```\n", disconnected + "```\n"},
	} {
		text, err := os.ReadFile("../../docs/" + page)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range outputs {
			if !strings.Contains(string(text), want) {
				t.Errorf("docs/%s does not show\n%s", page, want)
			}
		}
	}
}

// pages are all but the one that is made from the commands, which has their usage.
func pages(t *testing.T) []string {
	t.Helper()
	all := []string{"../../README.md", "../../CONTRIBUTING.md"}
	for _, root := range []string{"../../docs", "../../examples"} {
		err := filepath.WalkDir(root, func(name string, _ fs.DirEntry, err error) error {
			if filepath.Ext(name) == ".md" && filepath.Base(name) != "cli.md" {
				all = append(all, name)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

var codeSpan = regexp.MustCompile("`(liqoctl [a-z][^`]*)`")

// codeLines are the commands of a page: in blocks of code the lines that begin with liqoctl, joined where they go on. Elsewhere commands
// are named, between backquotes, and need not be whole.
func codeLines(text string) (lines, named []string) {
	inside := false
	for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", " ")) {
		line = strings.TrimPrefix(strings.TrimSpace(line), "$ ")
		switch {
		case strings.HasPrefix(line, "```"):
			inside = !inside
		case inside && strings.HasPrefix(line, "liqoctl "):
			lines = append(lines, line)
		case !inside:
			for _, span := range codeSpan.FindAllStringSubmatch(line, -1) {
				named = append(named, span[1])
			}
		}
	}
	return lines, named
}

// exists tells whether there is a command of that name, with flags of those names.
func exists(line string) error {
	root := newRootCommand(commands())
	all := words(filled(line))[1:]
	if all[0] == "completion" { // cobra makes it when a command line is read
		return nil
	}
	cmd, args, err := root.Find(all)
	if err != nil {
		return err
	}
	if last := len(args) - 1; last >= 0 && strings.HasPrefix(args[last], "--") && !strings.Contains(args[last], "=") {
		if f := cmd.Flag(args[last][2:]); f != nil && f.NoOptDefVal == "" {
			args[last] += "=1" // named without a value
		}
	}
	if err := cmd.ParseFlags(args); err != nil {
		return err
	}
	if len(cmd.Flags().Args()) == 0 {
		return nil
	}
	return cmd.ValidateArgs(cmd.Flags().Args())
}

// toBeFilled is what a page leaves to its reader.
var toBeFilled = regexp.MustCompile(`<[a-zA-Z-]+>…?`)

func filled(line string) string { return toBeFilled.ReplaceAllString(line, "x") }

// parses tells whether a line names a command, with flags and arguments that it takes.
func parses(line string) error {
	root := newRootCommand(commands())
	cmd, args, err := root.Find(words(filled(line))[1:])
	if err != nil {
		return err
	}
	if err := cmd.ParseFlags(args); err != nil {
		return err
	}
	if err := cmd.ValidateArgs(cmd.Flags().Args()); err != nil {
		return err
	}
	if err := cmd.ValidateRequiredFlags(); err != nil {
		return err
	}
	return cmd.ValidateFlagGroups()
}

// words splits a line as a shell does, up to a comment, a redirection or another command.
func words(line string) []string {
	var all []string
	word, begun, quoted := "", false, rune(0)
	for _, r := range line + " " {
		switch {
		case r == quoted:
			quoted = 0
		case quoted == 0 && (r == '"' || r == '\''):
			quoted, begun = r, true
		case quoted != 0 || r != ' ':
			word, begun = word+string(r), true
		case begun:
			if slices.Contains([]string{">", ">>", "|", "||", "&&", ";"}, word) || strings.HasPrefix(word, "#") {
				return all
			}
			all, word, begun = append(all, word), "", false
		}
	}
	return all
}

func TestShellWords(t *testing.T) {
	for line, want := range map[string][]string{
		`liqoctl info`:                                              {"liqoctl", "info"},
		`liqoctl info --get clusterid  # the ID`:                    {"liqoctl", "info", "--get", "clusterid"},
		`liqoctl get nonce > nonce`:                                 {"liqoctl", "get", "nonce"},
		`liqoctl generate tenant --nonce "$(cat my nonce)" | tee x`: {"liqoctl", "generate", "tenant", "--nonce", "$(cat my nonce)"},
		`liqoctl network connect --load-balancer-ip "" --wait`:      {"liqoctl", "network", "connect", "--load-balancer-ip", "", "--wait"},
		`liqoctl peer --remote-kubeconfig <file>`:                   {"liqoctl", "peer", "--remote-kubeconfig", "<file>"},
	} {
		if got := words(line); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

func TestInvalidLinesInDocs(t *testing.T) {
	for line, want := range map[string]string{
		"liqoctl dance":                             `unknown command "dance"`,
		"liqoctl network dance":                     `unknown command "dance"`,
		"liqoctl peer --remote-kubconfig x":         "unknown flag: --remote-kubconfig",
		"liqoctl create resourceslice":              "accepts 1 arg(s), received 0",
		"liqoctl delete peering-user":               `required flag(s) "consumer-cluster-id" not set`,
		"liqoctl --kubeconfig=a peer rome":          `unknown command "rome"`,
		"liqoctl generate publickey --gateway-type": "flag needs an argument",
	} {
		if err := parses(line); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", line, err, want)
		}
	}
	for line, want := range map[string]string{
		"liqoctl network dance":      `unknown command "dance"`,
		"liqoctl network init --mtu": "unknown flag: --mtu",
		"liqoctl version extra":      "unknown command",
	} {
		if err := exists(line); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", line, err, want)
		}
	}
	for _, line := range []string{"liqoctl network connect --mtu", "liqoctl create resourceslice", "liqoctl completion bash|zsh"} {
		if err := exists(line); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
}
