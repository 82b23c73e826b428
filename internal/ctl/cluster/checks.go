// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"slices"

	"liqo.io/liqo/internal/ctl/ui"
)

// PermissionsFor returns the permissions for actions, in a namespace unless it is that of the peer or of Liqo.
func (s *Cluster) PermissionsFor(in string, actions ...string) []Permission {
	return PermissionsFor(Namespaces{Tenant: s.Namespace, Liqo: s.LiqoNamespace, Object: in}, actions...)
}

// RequirePermissions is the permission check of the preflight: it fails, before the first change, with all permissions that the user
// lacks. For a new object in the missing tenant namespace, the user has to be allowed to create that, too.
func (s *Cluster) RequirePermissions(ctx context.Context, wanted ...Permission) error {
	isNew := func(p Permission) bool { return p.Verb == "create" && p.Namespace == s.Namespace }
	if s.WholeCluster().Missing && slices.ContainsFunc(wanted, isNew) {
		wanted = append(s.PermissionsFor("", "create tenant namespace"), wanted...)
	}
	missing, err := MissingPermissions(ctx, s.Kube, wanted)
	if err == nil && len(missing) > 0 {
		err = ui.Fail("you are not allowed to %s", Describe(missing)).Hint(askForRights).
			See("docs/troubleshooting.md#is-forbidden-or-you-are-not-allowed-to")
	}
	return s.WrapWithCluster(err)
}
