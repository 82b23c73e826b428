// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestPermissionRules checks that each action of a command has rules, and that each rule is used.
func TestPermissionRules(t *testing.T) {
	calls := regexp.MustCompile(`(?:ermissionsFor|noncePermissions|actions = append)\((?:[^()]|\([^()]*\))*\)|actions := [^\n]*`)
	literal := regexp.MustCompile(`"([^"]*)"`)
	var used []string
	for _, pattern := range []string{"../*.go", "../*/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if strings.HasPrefix(file, "../cluster/permissions") {
				continue // the rules themselves
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, call := range calls.FindAllString(string(text), -1) {
				for _, action := range literal.FindAllStringSubmatch(call, -1) {
					if action[1] != "" {
						used = append(used, action[1])
					}
				}
			}
		}
	}
	for _, action := range used {
		if !slices.ContainsFunc(rules, func(r struct{ action, namespace, resources, verbs string }) bool { return r.action == action }) {
			t.Errorf("a command needs permissions for %q, which has no rules", action)
		}
	}
	for _, rule := range rules {
		if !slices.Contains(used, rule.action) {
			t.Errorf("no command needs permissions for %q", rule.action)
		}
	}
}
