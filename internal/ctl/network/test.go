// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"time"
)

// TestOptions hold the common options of the test commands.
type TestOptions struct {
	Timeout  time.Duration
	FailFast bool
}
