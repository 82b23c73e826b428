// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"liqo.io/liqo/test/clusters"
	"liqo.io/liqo/test/guides"
)

// Who types what the guide says sees what the guide says, by commands and by hand.
func TestGuideNetwork(t *testing.T) {
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if err := clusters.NewTunnel(b, a, where).Disconnect(ctx); err != nil {
			t.Error(err)
		}
		for _, c := range []*clusters.Cluster{a, b} { // init made them
			kubectl(t, c, "", "delete", "namespace", "--ignore-not-found", "liqo-tenant-"+a.ID, "liqo-tenant-"+b.ID)
		}
	})
	typeAll(t, "network", inOrder)
}

// The clusters peer both ways and part again, and say nothing that the guide does not tell of. What is left then is what stays, and
// nothing when that goes, too.
func TestGuidePeer(t *testing.T) {
	typedAndUndone(t, "peering", clusters.Staying(a.ID, b.ID), clusters.Staying(b.ID, a.ID))
}

func TestGuideAuthentication(t *testing.T) {
	typedAndUndone(t, "authentication", clusters.Staying(a.ID, b.ID))
}

// All of the guide of declarative peering: keys made by openssl, a fixed port, all modules of a cluster in one file and what depends on
// something before it, and a pod that waited before its namespace was offloaded.
func TestGuideDeclarative(t *testing.T) {
	t.Cleanup(func() {
		if t.Failed() { // else the guide did it
			for _, c := range []*clusters.Cluster{a, b} {
				_, _ = c.Kubectl("", "delete", "--ignore-not-found", "csr/guide-consumer", "namespace/demo")
			}
		}
	})
	typedAndUndone(t, "declarative")
}

// typedAndUndone types a guide whose end undoes what it did, but for what stays.
func typedAndUndone(t *testing.T, name string, staying ...map[string][]string) {
	t.Helper()
	before := everything(t)
	t.Cleanup(func() {
		if t.Failed() { // other stories need the clusters, too
			t.Log(errors.Join(unpeer(a, b), unpeer(b, a, "--delete-namespaces")))
		}
	})
	typeAll(t, name, only)
	if name == "authentication" || name == "declarative" { // by hand nobody waits for what follows from objects
		eventually(t, "only what stays to be left", func(ctx context.Context) error { return areAsBefore(ctx, before, staying...) })
	}
	isAsBefore(t, before, staying...)
	if err := unpeer(a, b, "--delete-namespaces"); err != nil {
		t.Fatal(err)
	}
	isAsBefore(t, before)
}

func unpeer(consumer, provider *clusters.Cluster, flags ...string) error {
	_, err := consumer.Say(append([]string{"unpeer", "--remote-kubeconfig", provider.Kubeconfig}, flags...)...)
	return err
}

// isAsBefore wants all objects to be as they were, but for some that stay.
func isAsBefore(t *testing.T, before map[*clusters.Cluster]clusters.Listing, staying ...map[string][]string) {
	t.Helper()
	if err := areAsBefore(t.Context(), before, staying...); err != nil {
		t.Error(err)
	}
}

func areAsBefore(ctx context.Context, before map[*clusters.Cluster]clusters.Listing, staying ...map[string][]string) error {
	var errs []error
	for c, before := range before {
		now, err := c.Listing(ctx)
		if err != nil {
			return err
		}
		var stays []string // some of it for both directions
		for _, of := range staying {
			stays = append(stays, of[c.ID]...)
		}
		slices.Sort(stays)
		if now, err = now.Without(slices.Compact(stays)...); err != nil {
			errs = append(errs, fmt.Errorf("in %s: %w", c.ID, err))
		}
		if diff := clusters.Changes(before, now); diff != "" {
			errs = append(errs, fmt.Errorf("left in %s, or gone from it (-before +after):\n%s", c.ID, diff))
		}
	}
	return errors.Join(errs...)
}

// typeAll types a guide line by line, and has shows compare what is seen with what the guide says.
func typeAll(t *testing.T, name string, shows func(output string, lines []string) error) {
	t.Helper()
	bin, err := filepath.Abs("../../bin")
	if err != nil {
		t.Fatal(err)
	}
	kubectlPath, err := exec.LookPath(clusters.KubectlPath())
	if err != nil {
		t.Fatal(err)
	}
	desk := &desk{dir: t.TempDir(), env: append(os.Environ(),
		"CLUSTER_1_KUBECONFIG_PATH="+a.Kubeconfig, "CLUSTER_2_KUBECONFIG_PATH="+b.Kubeconfig, "CONSUMER="+a.ID, "PROVIDER="+b.ID,
		"CONSUMER_KUBECONFIG_PATH="+a.Kubeconfig, "PROVIDER_KUBECONFIG_PATH="+b.Kubeconfig,
		"PATH="+bin+":"+filepath.Dir(kubectlPath)+":"+os.Getenv("PATH"))}
	for _, line := range guide(t, name) {
		t.Logf("%s$ %s", line.Cluster, line.Text)
		check := func(context.Context) error {
			out, err := desk.typeIn(line)
			if err == nil {
				err = shows(out, desk.filled(line.Shown))
			}
			if err != nil {
				err = fmt.Errorf("%w; all that is shown is\n%s", err, out)
			}
			return err
		}
		if line.Again {
			eventually(t, "what the guide shows", check)
		} else if err := check(t.Context()); err != nil {
			show(t)
			t.Fatal(err)
		}
	}
}

// guide are the lines to be typed of one of the guides.
func guide(t *testing.T, name string) []guides.Line {
	t.Helper()
	lines, err := guides.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

// A desk is where somebody types: a folder, and what the shell knows.
type desk struct {
	dir string
	env []string
}

var assigned = regexp.MustCompile(`(?s)^([A-Z_]+)=\$\((.*)\)$`)

// typeIn runs a line at a terminal where yes is typed whenever something is asked, and returns all that is seen.
func (d *desk) typeIn(line guides.Line) (string, error) {
	script, name := line.Text, ""
	if found := assigned.FindStringSubmatch(script); found != nil {
		name, script = found[1], found[2]
	}
	keyboard, terminal, err := newTerminal()
	if err != nil {
		return "", err
	}
	defer keyboard.Close()
	defer terminal.Close()
	if _, err := keyboard.WriteString("yes\n"); err != nil {
		return "", err
	}
	kubeconfig, ok := d.value("CLUSTER_" + line.Cluster + "_KUBECONFIG_PATH")
	if !ok {
		return "", fmt.Errorf("there is no cluster %s", line.Cluster)
	}
	var seen bytes.Buffer
	cmd := exec.Command("sh", "-c", script)
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = d.dir, append(d.env, "KUBECONFIG="+kubeconfig), terminal, &seen, &seen
	if err := cmd.Run(); err != nil {
		return seen.String(), fmt.Errorf("%s: %w", script, err)
	}
	if name != "" {
		d.env = append(d.env, name+"="+strings.TrimSpace(seen.String()))
	}
	return seen.String(), nil
}

// value is that of a variable, of which the last one counts: who runs the tests may have followed the guide, and exported others.
func (d *desk) value(name string) (string, bool) {
	for _, v := range slices.Backward(d.env) {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value, true
		}
	}
	return "", false
}

// filled has the values of variables in place of their names.
func (d *desk) filled(lines []string) []string {
	out := make([]string, len(lines))
	for i, line := range lines {
		out[i] = os.Expand(line, func(name string) string {
			if value, ok := d.value(name); ok {
				return value
			}
			return "$" + name
		})
	}
	return out
}

// inOrder wants lines among those that are seen, each after the one before it. Only the width of gaps may differ, and each * is a word.
func inOrder(output string, lines []string) error {
	return walk(output, lines, func(string) bool { return false })
}

// only is inOrder, and wants what liqoctl says of its steps to be those lines, or what newer versions say besides.
func only(output string, lines []string) error {
	return walk(output, lines, func(line string) bool { return steps.MatchString(line) && !besides.MatchString(line) })
}

var steps = regexp.MustCompile(`^ *(INFO|WARN|ERRO) `)

// walk goes through what is seen, line by line, and comes by those that are wanted, one after the other. None of the others may be strange.
func walk(output string, lines []string, strange func(string) bool) error {
	for line := range strings.Lines(output) {
		line = strings.TrimRight(line, "\r\n")
		switch {
		case len(lines) > 0 && pattern(lines[0]).MatchString(line):
			lines = lines[1:]
		case strange(line):
			return fmt.Errorf("nobody expects the line %q here", line)
		}
	}
	if len(lines) > 0 {
		return fmt.Errorf("%q is not shown where it should be", lines[0])
	}
	return nil
}

func pattern(line string) *regexp.Regexp {
	words := strings.Fields(line)
	for i, w := range words {
		words[i] = strings.ReplaceAll(regexp.QuoteMeta(w), `\*`, `\S+`)
	}
	return regexp.MustCompile(`^\s*` + strings.Join(words, `\s+`) + `\s*$`)
}

// newTerminal has two ends: what is written into the first one is typed at the second one.
func newTerminal() (keyboard, terminal *os.File, err error) {
	if keyboard, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		return nil, nil, err
	}
	fd := int(keyboard.Fd())
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		keyboard.Close()
		return nil, nil, fmt.Errorf("opening a terminal: %w", err)
	}
	return keyboard, terminal, nil
}

func TestGuideLines(t *testing.T) {
	const seen = "a  b\n INFO   (local) x is ready\nkind: Y\n"
	for _, test := range []struct {
		lines string
		found bool
	}{
		{"a b", true}, {"a b|INFO (local) * is ready|kind: *", true}, {"kind: Y|a b", false}, {"a", false}, {"INFO .local. x is ready", false},
	} {
		if err := inOrder(seen, strings.Split(test.lines, "|")); (err == nil) != test.found {
			t.Errorf("%s: %v", test.lines, err)
		}
	}
}
