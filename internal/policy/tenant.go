// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"errors"
	"fmt"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	"liqo.io/liqo/internal/names"
)

// DefaultTenant sets the cluster label of the Tenant, and reports whether the Tenant changed.
func DefaultTenant(tenant *authv1beta1.Tenant) (changed bool) {
	if _, labelled := tenant.Labels[names.RemoteClusterID]; labelled || tenant.Spec.ClusterID == "" {
		return false
	}
	if tenant.Labels == nil {
		tenant.Labels = map[string]string{}
	}
	tenant.Labels[names.RemoteClusterID] = string(tenant.Spec.ClusterID)
	return true
}

// ExchangesKeys reports whether the consumer has to prove the possession of the Tenant's key.
func ExchangesKeys(tenant *authv1beta1.Tenant) bool {
	return tenant.Spec.AuthzPolicy == nil || *tenant.Spec.AuthzPolicy != authv1beta1.TolerateNoHandshake
}

// CheckTenant returns why the Tenant does not belong in a namespace with these labels, nil if it does.
func CheckTenant(tenant *authv1beta1.Tenant, namespace map[string]string) error {
	id := string(tenant.Spec.ClusterID)
	switch {
	case id == "":
		return errors.New("spec.clusterID is required")
	case namespace[names.TenantNamespace] != "true":
		return fmt.Errorf("a Tenant must be in a tenant namespace, one with the label %s=true", names.TenantNamespace)
	case tenant.Labels[names.RemoteClusterID] != id:
		return fmt.Errorf("the label %s is %q, but spec.clusterID is %q", names.RemoteClusterID, tenant.Labels[names.RemoteClusterID], id)
	case namespace[names.RemoteClusterID] != id:
		return fmt.Errorf("the namespace is for cluster %q, but spec.clusterID is %q", namespace[names.RemoteClusterID], id)
	}
	return nil
}

// CheckTenantUnique returns an error with the conflicting Tenant. A namespace has at most one Tenant. A name has at most one
// in the cluster, because commands find a Tenant by name alone.
func CheckTenantUnique(tenant *authv1beta1.Tenant, others []authv1beta1.Tenant) error {
	for i := range others {
		other := &others[i]
		switch {
		case other.Namespace == tenant.Namespace && other.Name == tenant.Name:
		case other.Namespace == tenant.Namespace:
			return fmt.Errorf("the namespace %q has the Tenant %q already", other.Namespace, other.Name)
		case other.Name == tenant.Name:
			return fmt.Errorf("a Tenant %q exists already, in namespace %q: its name is taken once in a cluster, choose another", other.Name, other.Namespace)
		}
	}
	return nil
}
