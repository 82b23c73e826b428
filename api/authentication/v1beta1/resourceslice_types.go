// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
)

// ResourceSliceResource is the plural of ResourceSlice.
const ResourceSliceResource = "resourceslices"

// ResourceSliceClass selects the controller of the provider for a slice.
type ResourceSliceClass string

// Classes that the provider's controller-manager grants itself.
const (
	ResourceSliceClassUnknown ResourceSliceClass = ""
	ResourceSliceClassDefault ResourceSliceClass = "default"
)

// ResourceSliceConditionType is the subject of a condition of a slice.
//
// +kubebuilder:validation:Enum=Authentication;Resources
type ResourceSliceConditionType string

// Types of conditions of a slice.
const (
	ResourceSliceConditionTypeAuthentication ResourceSliceConditionType = "Authentication"
	ResourceSliceConditionTypeResources      ResourceSliceConditionType = "Resources"
)

// ResourceSliceConditionStatus is the value of a condition of a slice.
//
// +kubebuilder:validation:Enum=Accepted;Denied
type ResourceSliceConditionStatus string

// Values of a condition of a slice.
const (
	ResourceSliceConditionAccepted ResourceSliceConditionStatus = "Accepted"
	ResourceSliceConditionDenied   ResourceSliceConditionStatus = "Denied"
)

// ResourceSliceCondition is a decision of the provider about a slice.
type ResourceSliceCondition struct {
	Type   ResourceSliceConditionType   `json:"type"`
	Status ResourceSliceConditionStatus `json:"status"`
	// +optional
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitzero"`
	Reason             string      `json:"reason,omitempty"`
	Message            string      `json:"message,omitempty"`
}

// ResourceSliceSpec is the request of a consumer.
type ResourceSliceSpec struct {
	// ConsumerClusterID is filled in by the consumer's controller-manager.
	ConsumerClusterID *liqov1beta1.ClusterID `json:"consumerClusterID,omitempty"`
	// ProviderClusterID is the provider's.
	ProviderClusterID *liqov1beta1.ClusterID `json:"providerClusterID,omitempty"`
	// Resources are the requested amounts; the provider chooses the others.
	Resources corev1.ResourceList `json:"resources,omitempty"`
	// Class selects the controller of the slice: default, or a class of the provider.
	Class ResourceSliceClass `json:"class,omitempty"`
	// CSR asks for the slice's certificate, PEM.
	// +kubebuilder:validation:MaxLength=16384
	CSR []byte `json:"csr,omitempty"`
}

// ResourceSliceStatus is the grant of the provider.
type ResourceSliceStatus struct {
	// Conditions are the decisions of the provider.
	//
	// +listType=map
	// +listMapKey=type
	Conditions []ResourceSliceCondition `json:"conditions,omitempty"`
	// Resources are the amounts granted.
	Resources           corev1.ResourceList            `json:"resources,omitempty"`
	AuthParams          *AuthParams                    `json:"authParams,omitempty"`
	StorageClasses      []liqov1beta1.StorageType      `json:"storageClasses,omitempty"`
	IngressClasses      []liqov1beta1.IngressType      `json:"ingressClasses,omitempty"`
	LoadBalancerClasses []liqov1beta1.LoadBalancerType `json:"loadBalancerClasses,omitempty"`
	// NodeLabels are labels of the provider for the virtual node, as far as the consumer accepts them.
	NodeLabels map[string]string `json:"nodeLabels,omitempty"`
	// NodeSelector is of the nodes of the provider where pods of the slice run.
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// DeclaredFeatures are the features of Kubernetes that all nodes for pods of the slice declare.
	//
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	DeclaredFeatures []string `json:"declaredFeatures,omitempty"`
}

// ResourceSlice asks a provider for resources and for the right to use them.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:categories=liqo,shortName=rslice
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Authentication",type=string,JSONPath=`.status.conditions[?(@.type=="Authentication")].status`
// +kubebuilder:printcolumn:name="Resources",type=string,JSONPath=`.status.conditions[?(@.type=="Resources")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ResourceSlice struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec ResourceSliceSpec `json:"spec,omitzero"`
	// +optional
	Status ResourceSliceStatus `json:"status,omitzero"`
}

// ResourceSliceList is a list of ResourceSlices.
//
// +kubebuilder:object:root=true
type ResourceSliceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ResourceSlice `json:"items"`
}
