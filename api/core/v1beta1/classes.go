// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

// StorageType is a storage class that a provider offers.
type StorageType struct {
	// StorageClassName is the name of the class in the provider.
	StorageClassName string `json:"storageClassName"`
	// Default is set on the one to be used where none is named.
	Default bool `json:"default,omitempty"`
}

// IngressType is an ingress class that a provider offers.
type IngressType struct {
	// IngressClassName is the name of the class in the provider.
	IngressClassName string `json:"ingressClassName"`
	// Default is set on the one to be used where none is named.
	Default bool `json:"default,omitempty"`
}

// LoadBalancerType is a load balancer class that a provider offers.
type LoadBalancerType struct {
	// LoadBalancerClassName is the name of the class in the provider.
	LoadBalancerClassName string `json:"loadBalancerClassName"`
	// Default is set on the one to be used where none is named.
	Default bool `json:"default,omitempty"`
}
