// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

// StorageType is a storage class of a provider.
type StorageType struct {
	// StorageClassName is the name of the class in the provider.
	StorageClassName string `json:"storageClassName"`
	// Default marks the class for objects without a class.
	Default bool `json:"default,omitempty"`
}

// IngressType is an ingress class of a provider.
type IngressType struct {
	// IngressClassName is the name of the class in the provider.
	IngressClassName string `json:"ingressClassName"`
	// Default marks the class for objects without a class.
	Default bool `json:"default,omitempty"`
}

// LoadBalancerType is a load balancer class of a provider.
type LoadBalancerType struct {
	// LoadBalancerClassName is the name of the class in the provider.
	LoadBalancerClassName string `json:"loadBalancerClassName"`
	// Default marks the class for objects without a class.
	Default bool `json:"default,omitempty"`
}
