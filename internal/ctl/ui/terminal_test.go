// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pterm/pterm"
	"golang.org/x/sys/unix"
)

// glass is what somebody sees of a terminal of 80 columns.
type glass struct {
	*os.File
	printed string // so far, with what colours and clears it
}

// newTerminal returns a terminal, and what is seen of it.
func newTerminal(t *testing.T) (*os.File, *glass) {
	t.Helper()
	seen, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatalf("opening a terminal: %v", err)
	}
	t.Cleanup(func() { seen.Close() })
	number, err := unix.IoctlGetInt(int(seen.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(seen.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatalf("opening a terminal: %v", err)
	}
	terminal, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatalf("opening a terminal: %v", err)
	}
	t.Cleanup(func() { terminal.Close() })
	return terminal, &glass{File: seen}
}

// until reads what is printed until it is seen so, with colours if those are meant.
func (g *glass) until(t *testing.T, want string) {
	t.Helper()
	for range 100 {
		if strings.Contains(g.printed, want) || strings.Contains(g.screen(), want) {
			return
		}
		buf := make([]byte, 4096)
		n, err := g.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		g.printed += string(buf[:n])
	}
	t.Fatalf("%q is not seen, but\n%s", want, g.screen())
}

// screen is what is seen now. What is printed at the begin of a line covers what is there.
func (g *glass) screen() string {
	var all strings.Builder
	text := strings.ReplaceAll(g.printed, "\x1b[K", strings.Repeat(" ", 80)+"\r")
	for line := range strings.SplitSeq(strings.ReplaceAll(text, "\r\n", "\n"), "\n") {
		seen := make([]rune, 0, 80)
		for over := range strings.SplitSeq(pterm.RemoveColorFromString(line), "\r") {
			written := []rune(over)
			seen = append(written, seen[min(len(seen), len(written)):]...)
		}
		all.WriteString(strings.TrimRight(string(seen), " ") + "\n")
	}
	return strings.TrimRight(all.String(), "\n") + "\n"
}

func TestSpinnerShowsWait(t *testing.T) {
	terminal, g := newTerminal(t)
	p := NewPrinter(terminal, terminal, terminal)
	step := p.Scope("remote").Spin("Waiting for the pod")
	step.Waits("it has no node")
	g.until(t, "  (remote) Waiting for the pod: it has no node (")
	if magenta := "\x1b[35m⠋"; !strings.Contains(g.printed, magenta) {
		t.Errorf("no spinner of the colour of the remote cluster in %q", g.printed)
	}
	step.started = time.Now().Add(-time.Hour)
	p.Scope("local").Success("Nonce retrieved")
	g.until(t, "  (remote) Waiting for the pod: it has no node (1h0m") // since it began, not since the line
	step.Waits("")
	g.until(t, "  (remote) Waiting for the pod (1h0m")
	step.Stop()
	p.Scope("remote").Success("The pod is ready")
	g.until(t, "The pod is ready")
	if want := " INFO   (local) Nonce retrieved\n INFO   (remote) The pod is ready\n"; g.screen() != want {
		t.Errorf("in the end it shows\n%s\nnot\n%s", g.screen(), want)
	}
	if green := "\x1b[32mINFO"; !strings.Contains(g.printed, green) {
		t.Errorf("no line with colours in %q", g.printed)
	}
}

// Whatever of the two is no terminal may be read by a script.
func TestPlainLines(t *testing.T) {
	terminal, _ := newTerminal(t)
	var piped bytes.Buffer
	for name, p := range map[string]*Printer{"progress is piped": NewPrinter(terminal, terminal, &piped), "results are piped": NewPrinter(terminal, &bytes.Buffer{}, terminal)} {
		if p.terminal {
			t.Errorf("%s, and it spins", name)
		}
	}
	NewPrinter(terminal, terminal, &piped).Success("done")
	if got, want := piped.String(), " INFO  done\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
