// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"fmt"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/pki"
)

// A cluster ID becomes a user and a group, and the suffix of the users of ResourceSlices. A consumer that chose the name of an existing
// user would inherit its permissions, so such a Tenant is rejected.

// checkUsers returns why the users of the consumer (its control plane, its ResourceSlices) could belong to an older consumer: users of
// ResourceSlices end in a truncated hash of the ID.
func checkUsers(tenant, other *authv1beta1.Tenant) error {
	a, b := string(tenant.Spec.ClusterID), string(other.Spec.ClusterID)
	switch {
	case a == b || !tenantBefore(other, tenant):
		return nil
	case pki.SliceSubject("", a).CommonName == pki.SliceSubject("", b).CommonName:
		return fmt.Errorf("the users of slices of %q and of %q could have the same name: choose another cluster ID for the consumer", a, b)
	case pki.CouldBeOfSlice(a, b):
		return fmt.Errorf("%q could be the name of the user of a slice of %q: choose another cluster ID for the consumer", a, b)
	case pki.CouldBeOfSlice(b, a):
		return fmt.Errorf("the user of a slice of %q could have the name %q of another consumer: choose another cluster ID for the consumer", a, b)
	}
	return nil
}
