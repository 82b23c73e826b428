// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"fmt"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/cred"
	"liqo.io/liqo/internal/names"
)

// A cluster ID becomes a user and a group here. A consumer that chose the name of one that exists would inherit its
// rights, so such a Tenant is refused.

// binding is a RoleBinding or a ClusterRoleBinding.
type binding struct {
	kind     string
	object   client.Object
	subjects []rbacv1.Subject
}

// check tells why the binding stands in the way of the Tenant: it gives rights to a user or group of the name of the
// consumer, and was not made for that consumer. One that is newer than the Tenant was made by somebody who knew of it.
func (b binding) check(tenant *authv1beta1.Tenant) error {
	id := string(tenant.Spec.ClusterID)
	created := tenant.CreationTimestamp
	switch at := b.object.GetCreationTimestamp(); {
	case !namesCluster(b.subjects, id):
		return nil
	case b.object.GetLabels()[names.RemoteClusterID] == id, b.object.GetNamespace() == tenant.Namespace:
		return nil
	case created.Before(&at):
		return nil
	}
	name := strings.TrimPrefix(b.object.GetNamespace()+"/"+b.object.GetName(), "/")
	return fmt.Errorf("%s %s already gives rights to a user or group %q, which the consumer would get: label it %s=%s if that is wanted, or give the consumer another cluster ID",
		b.kind, name, id, names.RemoteClusterID, id)
}

func namesCluster(subjects []rbacv1.Subject, id string) bool {
	for _, s := range subjects {
		if (s.Kind == rbacv1.UserKind || s.Kind == rbacv1.GroupKind) && s.Name == id {
			return true
		}
	}
	return false
}

// checkSliceNames tells why the users of the consumer's slices could be those of another consumer: IDs are cut to a hash
// there.
func checkSliceNames(tenant, other *authv1beta1.Tenant) error {
	a, b := string(tenant.Spec.ClusterID), string(other.Spec.ClusterID)
	if a == b || cred.SliceSubject("", a).CommonName != cred.SliceSubject("", b).CommonName || !tenantBefore(other, tenant) {
		return nil
	}
	return fmt.Errorf("the users of slices of %q and of %q could have the same name: give the consumer another cluster ID", a, b)
}
