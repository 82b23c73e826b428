// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"context"
	"slices"

	"liqo.io/liqo/internal/ctl/cluster"
	"liqo.io/liqo/internal/ctl/out"
)

// permissionsFor returns the permissions for actions, in a namespace unless it is that of the peer or of Liqo.
func (s *Cluster) permissionsFor(in string, actions ...string) []cluster.Permission {
	return cluster.PermissionsFor(cluster.Namespaces{Tenant: s.namespace, Liqo: s.liqoNamespace, Object: in}, actions...)
}

// requirePermissions is the permission check of the preflight: it fails, before the first change, with all permissions that the user
// lacks. For a new object in the missing tenant namespace, the user has to be allowed to create that, too.
func (s *Cluster) requirePermissions(ctx context.Context, wanted ...cluster.Permission) error {
	isNew := func(p cluster.Permission) bool { return p.Verb == "create" && p.Namespace == s.namespace }
	if s.wholeCluster().missing && slices.ContainsFunc(wanted, isNew) {
		wanted = append(s.permissionsFor("", "create tenant namespace"), wanted...)
	}
	missing, err := cluster.MissingPermissions(ctx, s.kube, wanted)
	if err == nil && len(missing) > 0 {
		err = out.Fail("you are not allowed to %s", cluster.Describe(missing)).Hint(askForRights).
			See("docs/troubleshooting.md#is-forbidden-or-you-are-not-allowed-to")
	}
	return s.wrapWithCluster(err)
}
