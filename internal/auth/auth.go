// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package auth authenticates clusters: it creates the key pairs of this cluster, decides whether the Tenant of each
// consumer may receive permissions, converts Identities to kubeconfigs, and approves the serving certificates of
// virtual kubelets.
package auth

import (
	"fmt"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

func labelPresent(label string) labels.Requirement {
	// The arguments are constants: this cannot fail.
	r, err := labels.NewRequirement(label, selection.Exists, nil)
	if err != nil {
		panic(fmt.Errorf("selecting by label %s: %w", label, err))
	}
	return *r
}
