// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
)

// TenantResource is the plural of Tenant.
const TenantResource = "tenants"

// AuthzPolicy says how a consumer proves who it is.
//
// +kubebuilder:validation:Enum=KeysExchange;TolerateNoHandshake
type AuthzPolicy string

// Policies of a Tenant.
const (
	KeysExchange        AuthzPolicy = "KeysExchange"
	TolerateNoHandshake AuthzPolicy = "TolerateNoHandshake"
	// DefaultAuthzPolicy is what the API server fills in.
	DefaultAuthzPolicy = KeysExchange
)

// TenantCondition is the administrator's switch for a consumer.
//
// +kubebuilder:validation:Enum=Active;Cordoned;Drained
type TenantCondition string

// Positions of the switch.
const (
	TenantConditionActive   TenantCondition = "Active"
	TenantConditionCordoned TenantCondition = "Cordoned"
	TenantConditionDrained  TenantCondition = "Drained"
)

// Types of the conditions of a Tenant.
const (
	// TenantReady tells whether anything may be granted to the consumer.
	TenantReady = "Ready"
	// TenantCertificateIssued tells whether the control plane of the consumer has a certificate, if keys are exchanged.
	TenantCertificateIssued = "CertificateIssued"
)

// Reasons of the condition CertificateIssued while a certificate is under way: one that may come any moment, and one that somebody should
// see to, since no signer signed it for long. Either comes once a signer signs; others say what is wrong.
const (
	ReasonCertificatePending = "CertificatePending"
	ReasonCertificateLate    = "CertificateLate"
)

// TenantSpec says who the consumer is and what it may do.
//
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.clusterID) || has(self.clusterID)",message="ClusterID is immutable"
type TenantSpec struct {
	// ClusterID is the consumer's.
	//
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="ClusterID is immutable"
	ClusterID liqov1beta1.ClusterID `json:"clusterID,omitempty"`
	// +kubebuilder:default=KeysExchange
	AuthzPolicy *AuthzPolicy `json:"authzPolicy,omitempty"`
	// PublicKey is the consumer's, PEM or the 32 bytes of an Ed25519 key.
	// +kubebuilder:validation:MaxLength=16384
	PublicKey []byte `json:"publicKey,omitempty"`
	// CSR asks for the control-plane certificate, PEM.
	// +kubebuilder:validation:MaxLength=16384
	CSR []byte `json:"csr,omitempty"`
	// Signature is made over the nonce.
	// +kubebuilder:validation:MaxLength=16384
	Signature []byte `json:"signature,omitempty"`
	// ProxyURL is of a proxy by which the consumer reaches the API server: the credentials name it.
	// +kubebuilder:validation:MaxLength=2048
	ProxyURL *string `json:"proxyURL,omitempty"`
	// +kubebuilder:default=Active
	TenantCondition TenantCondition `json:"tenantCondition,omitempty"`
}

// TenantStatus is what the consumer was given.
type TenantStatus struct {
	// TenantNamespace is the namespace of the Tenant.
	TenantNamespace string      `json:"tenantNamespace,omitempty"`
	AuthParams      *AuthParams `json:"authParams,omitempty"`
	// AcceptanceTime is when anything was granted to the consumer first. Rights that were given to a user or group of its name before are somebody else's.
	AcceptanceTime *metav1.Time `json:"acceptanceTime,omitempty"`
	// Conditions: Ready tells whether anything is granted to the consumer, CertificateIssued what became of the certificate of its control plane.
	//
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Tenant registers a consumer in its provider.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:categories=liqo,shortName=tn
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Condition",type=string,JSONPath=`.spec.tenantCondition`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Tenant struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec TenantSpec `json:"spec,omitzero"`
	// +optional
	Status TenantStatus `json:"status,omitzero"`
}

// TenantList is a list of Tenants.
//
// +kubebuilder:object:root=true
type TenantList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Tenant `json:"items"`
}
