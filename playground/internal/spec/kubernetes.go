// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package spec

import (
	"fmt"
	"slices"
	"strings"
)

// Versions of what runs in a cluster.
const (
	Kubernetes = "v1.37.2" // the default
	CoreDNS    = "v1.12.4"
	Containerd = "v2.4.2"
	Runc       = "v1.5.3"
	Kwok       = "v0.8.0"

	MetricsServer        = "v0.9.0"
	LocalPathProvisioner = "v0.0.30"
)

// Releases are the releases of Kubernetes that a cluster can run, the default first.
var Releases = []string{Kubernetes, "v1.36.3", "v1.35.4"}

// Release returns the release for a version as users write it: v1.36.3, 1.36.3, 1.36.x or 1.36; "" is the default.
func Release(version string) (string, error) {
	if version == "" {
		return Kubernetes, nil
	}
	wanted := "v" + strings.TrimSuffix(strings.TrimPrefix(version, "v"), ".x")
	i := slices.IndexFunc(Releases, func(r string) bool { return r == wanted || "v"+Minor(r) == wanted })
	if i < 0 {
		return "", fmt.Errorf("invalid --kubernetes %q: must be one of %s", version, strings.Join(Releases, ", "))
	}
	return Releases[i], nil
}

// Minor returns the minor version of a release, for example 1.36.
func Minor(release string) string {
	return strings.Join(strings.SplitN(strings.TrimPrefix(release, "v"), ".", 3)[:2], ".")
}
