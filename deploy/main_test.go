// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"io"
	"log"
	"testing"

	"liqo.io/liqo/internal/testkit"
)

func TestMain(m *testing.M) {
	log.SetOutput(io.Discard) // Helm warns of every map that replaces a string, rendering after rendering
	testkit.Main(m)
}
