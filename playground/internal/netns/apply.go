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

// Config is the desired network configuration of a namespace, as text that tests compare.
type Config struct {
	Sysctl   []string // "net/ipv4/ip_forward=1", see Sysctl; set first, so that new links have the defaults
	Commands []string // of ip(8) and bridge(8); links that exist are no error
	Nftables string   // a script, applied in one transaction
}

// Apply creates the namespace and applies the configuration. It is idempotent.
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
	return applyNftables(name, c.Nftables)
}

// Run runs a command of ip(8) or bridge(8) in the namespace, or in the namespace of the machine if the name is empty. A link that exists is
// no error; the other commands replace.
func Run(name, line string) error {
	_, err := Output(name, line)
	if err != nil && strings.HasPrefix(line, "ip link add ") && strings.Contains(err.Error(), "File exists") {
		return nil
	}
	return err
}

// Output runs a command like Run and returns its output.
func Output(name, line string) (string, error) {
	argv := strings.Fields(line)
	if name != "" {
		argv = slices.Insert(argv, 1, "-n", name)
	}
	return runCommand(argv...)
}

// Unlink removes a link, and the other end of a veth pair. A link that does not exist is no error.
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

func applyNftables(name, script string) error {
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
