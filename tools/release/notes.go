// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
)

// unreleased is the section of the change log from which a version is tried before it is tagged.
const unreleased = "Unreleased"

// releaseNotes returns the section of a version in the change log. A tagged version has one of its own.
func releaseNotes(changelog, version string, tagged bool) (string, error) {
	section := changelogSection(changelog, version)
	if section == "" && !tagged {
		section = cmp.Or(changelogSection(changelog, unreleased), "Nothing has changed since the last release.") // a try right after a tag
	}
	if section == "" {
		return "", fmt.Errorf("CHANGELOG.md has no section %q: give %q that name before the tag", "## "+version, "## "+unreleased)
	}
	return "# Liqo " + version + "\n\n" + section + "\n", nil
}

// changelogSection returns the text below a heading of the second level, which may have a date behind its name.
func changelogSection(changelog, name string) string {
	heading := regexp.MustCompile(`(?m)^## \[?` + regexp.QuoteMeta(name) + `\]?( .*)?$`).FindStringIndex(changelog)
	if heading == nil {
		return ""
	}
	section := changelog[heading[1]:]
	if end := strings.Index(section, "\n## "); end >= 0 {
		section = section[:end]
	}
	return strings.TrimSpace(section)
}
