// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"testing"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"liqo.io/liqo/internal/testkit"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard()) // as the program does
	testkit.Main(m)
}
