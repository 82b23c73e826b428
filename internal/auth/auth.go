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
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/liqo/internal/names"
)

// directClient reads from the API server what no cache of the manager holds: Secrets.
func directClient(mgr ctrl.Manager) (client.Client, error) {
	c, err := client.New(mgr.GetConfig(), client.Options{HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return nil, fmt.Errorf("making a client without cache: %w", err)
	}
	return c, nil
}

// tenantNamespaces selects the namespaces of peerings.
func tenantNamespaces() labels.Selector {
	return labels.SelectorFromSet(labels.Set{names.TenantNamespace: "true"}).Add(present(names.RemoteClusterID))
}

func present(label string) labels.Requirement {
	// The arguments are constants: this cannot fail.
	r, err := labels.NewRequirement(label, selection.Exists, nil)
	if err != nil {
		panic(fmt.Errorf("selecting by label %s: %w", label, err))
	}
	return *r
}
