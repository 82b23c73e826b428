// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package netns

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"syscall"
)

// Config is everything that a namespace's network shall be, as text that tests can compare.
type Config struct {
	Sysctl   []string // "net/ipv4/ip_forward=1", see Sysctl; set first, so that links are born with the defaults
	Commands []string // of ip(8) and bridge(8), run inside the namespace; links that exist already are no error
	Nftables string   // a whole script, applied in one transaction
}

// Apply makes the namespace and brings it to the configuration; applying twice changes nothing.
func Apply(name string, c Config) error {
	if err := Ensure(name); err != nil {
		return err
	}
	if err := Sysctl(name, c.Sysctl); err != nil {
		return err
	}
	for _, line := range c.Commands {
		if err := Run(name, line); err != nil {
			return err
		}
	}
	return nft(name, c.Nftables)
}

// Run runs one line of ip(8) or bridge(8) in the namespace, or on the machine itself when the name is empty.
// Only links are added; every other line replaces, so only a link may exist already.
func Run(name, line string) error {
	_, err := Output(name, line)
	if err != nil && strings.HasPrefix(line, "ip link add ") && strings.Contains(err.Error(), "File exists") {
		return nil
	}
	return err
}

// Output is Run for a line that shows something.
func Output(name, line string) (string, error) {
	argv := strings.Fields(line)
	if name != "" {
		argv = slices.Insert(argv, 1, "-n", name)
	}
	return run(argv...)
}

// Unlink removes a link, and with it the other end of a cable; gone already is fine.
func Unlink(name, link string) error {
	if name != "" && !Exists(name) {
		return nil
	}
	err := Run(name, "ip link del "+link)
	if err != nil && strings.Contains(err.Error(), "Cannot find device") {
		return nil
	}
	return err
}

func nft(name, script string) error {
	if script == "" {
		return nil
	}
	return Do(name, func() error {
		cmd := exec.Command("nft", "-f", "-")
		cmd.Stdin = strings.NewReader(script)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("loading nftables rules in %s: %w: %s", name, err, strings.TrimSpace(string(out)))
		}
		return nil
	})
}
