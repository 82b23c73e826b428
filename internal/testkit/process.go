// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/rest"
)

// Process is a program that a test runs beside itself, so that it can be killed as the kernel kills: without a last word.
type Process struct{ process *process }

// Run starts a program that finds the cluster by KUBECONFIG, as the user of cfg. It ends with the test binary. Runs of the
// same name share a log.
func (c *ControlPlane) Run(t testing.TB, cfg *rest.Config, name string, env []string, path string, args ...string) *Process {
	t.Helper()
	name = c.name + "-" + name
	file := filepath.Join(c.lab.dir, name+".kubeconfig")
	if err := os.WriteFile(file, Kubeconfig(t, cfg), 0o600); err != nil {
		t.Fatalf("writing the kubeconfig of %s: %v", name, err)
	}
	p, err := c.lab.run(name, append([]string{"KUBECONFIG=" + file}, env...), path, args...)
	if err != nil {
		t.Fatal(err)
	}
	return &Process{p}
}

// Kill ends it at once.
func (p *Process) Kill() { p.process.kill() }

// PID is its number in /proc.
func (p *Process) PID() int { return p.process.cmd.Process.Pid }

// Alive returns why the process ended, nil while it runs.
func (p *Process) Alive() error { return p.process.alive() }

// Log is the end of what it and its predecessors of the same name said.
func (p *Process) Log() string {
	return fmt.Sprintf("--- %s\n%s", p.process.name, tail(p.process.log))
}
