// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"testing"
)

func TestImageVersion(t *testing.T) {
	for reference, want := range map[string]string{
		"liqo.io/liqo:v1.0.0":                     "v1.0.0",
		"registry:5000/liqo:v1.0.0":               "v1.0.0",
		"registry:5000/liqo":                      "latest",
		"liqo.io/liqo:v1.0.0@sha256:0123456789ab": "v1.0.0",
		"liqo.io/liqo@sha256:0123456789ab":        "sha256:0123456789ab",
	} {
		if got := ImageVersion(reference); got != want {
			t.Errorf("%s: %q, want %q", reference, got, want)
		}
	}
}
