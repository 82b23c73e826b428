// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package auth decides who is who: it keeps the key pairs of this cluster, says of each consumer's Tenant whether
// anything may be granted to it, turns Identities into kubeconfigs, and approves the serving certificates of virtual
// kubelets.
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
