// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

// StorageType is a storage class that a provider offers.
type StorageType struct {
	StorageClassName string `json:"storageClassName"`
	Default          bool   `json:"default,omitempty"`
}

// IngressType is an ingress class that a provider offers.
type IngressType struct {
	IngressClassName string `json:"ingressClassName"`
	Default          bool   `json:"default,omitempty"`
}

// LoadBalancerType is a load balancer class that a provider offers.
type LoadBalancerType struct {
	LoadBalancerClassName string `json:"loadBalancerClassName"`
	Default               bool   `json:"default,omitempty"`
}
