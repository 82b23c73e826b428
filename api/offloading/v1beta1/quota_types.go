// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// QuotaResource is the plural of Quota.
const QuotaResource = "quotas"

// LimitsEnforcement says how strictly the resources of pods are checked.
//
// +kubebuilder:validation:Enum=Hard;Soft;None
type LimitsEnforcement string

// Degrees of enforcement.
const (
	// HardLimitsEnforcement wants limits equal to requests.
	HardLimitsEnforcement LimitsEnforcement = "Hard"
	// SoftLimitsEnforcement wants requests.
	SoftLimitsEnforcement LimitsEnforcement = "Soft"
	// NoLimitsEnforcement does not look at single containers.
	NoLimitsEnforcement LimitsEnforcement = "None"
)

// QuotaSpec limits the pods of a user.
type QuotaSpec struct {
	// User is the common name of the slice's certificate.
	//
	// +kubebuilder:validation:MinLength=1
	User              string            `json:"user"`
	LimitsEnforcement LimitsEnforcement `json:"limitsEnforcement,omitempty"`
	// Resources limit the sum of all pods of the user.
	Resources corev1.ResourceList `json:"resources"`
	// Cordoned refuses new pods.
	Cordoned *bool `json:"cordoned,omitempty"`
}

// Quota limits the pods of a slice in the provider.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:categories=liqo,shortName=qt
// +kubebuilder:printcolumn:name="Enforcement",type=string,JSONPath=`.spec.limitsEnforcement`
// +kubebuilder:printcolumn:name="Cordoned",type=boolean,JSONPath=`.spec.cordoned`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="User",type=string,priority=1,JSONPath=`.spec.user`
type Quota struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec QuotaSpec `json:"spec"`
}

// QuotaList is a list of objects of kind Quota.
//
// +kubebuilder:object:root=true
type QuotaList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Quota `json:"items"`
}
