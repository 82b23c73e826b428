// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// The clusters by their names in the playground.
const consumerName, providerName = "a", "b"

// playground is where the clusters live: their audit logs and processes are the only things that a kubeconfig does not give.
type playground struct{ home string }

func (p playground) path(elem ...string) string {
	return filepath.Join(append([]string{p.home}, elem...)...)
}

// process is one of the playground's.
type process struct {
	PID  int
	Role string  // cluster and program
	CPU  float64 // seconds, with those of children that ended
}

// tick is how /proc counts CPU time.
const tick = 0.01

// processes are all that run on the nodes and control planes of the playground. Who else works on this machine is not
// counted, so that figures of a shared machine mean something.
func (p playground) processes() ([]process, error) {
	roots, err := p.roots()
	if err != nil {
		return nil, err
	}
	stats, err := readStats("/proc")
	if err != nil {
		return nil, err
	}
	var out []process
	for pid, s := range stats {
		if cluster := ancestor(stats, roots, pid); cluster != "" {
			out = append(out, process{PID: pid, Role: cluster + " " + role(pid), CPU: s.cpu})
		}
	}
	return out, nil
}

// roots are the first processes of nodes and control planes, with their cluster.
func (p playground) roots() (map[int]string, error) {
	roots := map[int]string{}
	for _, cluster := range []string{consumerName, providerName} {
		for _, glob := range []string{p.path("clusters", cluster, "control-plane.pid"), p.path("nodes", cluster+"*", "node.pid")} {
			files, err := filepath.Glob(glob)
			if err != nil {
				return nil, err
			}
			for _, f := range files {
				data, err := os.ReadFile(f)
				if err != nil {
					return nil, fmt.Errorf("reading a pid file: %w", err)
				}
				first, _, _ := strings.Cut(string(data), " ")
				if pid, err := strconv.Atoi(first); err == nil {
					roots[pid] = cluster
				}
			}
		}
	}
	return roots, nil
}

// ancestor is the cluster of the root that a process descends from, "" for none.
func ancestor(stats map[int]stat, roots map[int]string, pid int) string {
	for pid > 1 {
		if cluster := roots[pid]; cluster != "" {
			return cluster
		}
		pid = stats[pid].parent
	}
	return ""
}

// role is the name of the program, with the sub-command of those that have several.
func role(pid int) string {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return "?"
	}
	return roleOf(strings.Split(string(bytes.TrimRight(data, "\x00")), "\x00"))
}

func roleOf(argv []string) string {
	name := filepath.Base(argv[0])
	switch {
	case name == "liqo" && len(argv) > 1:
		return argv[1]
	case name == "exe" && len(argv) > 2:
		return "playground " + argv[2]
	}
	return name
}

// stat is what /proc/<pid>/stat tells.
type stat struct {
	parent int
	cpu    float64
}

func readStats(proc string) (map[int]stat, error) {
	files, err := filepath.Glob(filepath.Join(proc, "[0-9]*", "stat"))
	if err != nil {
		return nil, err
	}
	out := map[int]stat{}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			continue // it ended
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(f)))
		if err != nil {
			return nil, err
		}
		s, err := parseStat(string(data))
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", f, err)
		}
		out[pid] = s
	}
	return out, nil
}

// parseStat reads the parent and the CPU time, own and of children. The name before may hold anything, parentheses too.
func parseStat(text string) (stat, error) {
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) < 15 {
		return stat{}, fmt.Errorf("%d fields", len(fields))
	}
	var s stat
	var err error
	if s.parent, err = strconv.Atoi(fields[1]); err != nil {
		return s, err
	}
	for _, f := range fields[11:15] {
		ticks, err := strconv.ParseFloat(f, 64)
		if err != nil {
			return s, err
		}
		s.cpu += ticks * tick
	}
	return s, nil
}

// cpu adds up CPU time by role.
func cpu(processes []process) map[string]float64 {
	out := map[string]float64{}
	for _, p := range processes {
		out[p.Role] += p.CPU
	}
	return out
}

// memory is the resident memory of a process in bytes, all of it and without what it shares with its file.
func memory(pid int) (resident, anonymous float64, err error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0, fmt.Errorf("reading the memory of process %d: %w", pid, err)
	}
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		kib, _ := strconv.ParseFloat(fields[1], 64)
		switch fields[0] {
		case "VmRSS:":
			resident = kib * 1024
		case "RssAnon:":
			anonymous = kib * 1024
		}
	}
	return resident, anonymous, nil
}
