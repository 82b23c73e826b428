// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
)

// TenantResource is the plural of Tenant.
const TenantResource = "tenants"

// AuthzPolicy is the way in which a consumer proves its identity.
//
// +kubebuilder:validation:Enum=KeysExchange;TolerateNoHandshake
type AuthzPolicy string

// Policies of a Tenant.
const (
	KeysExchange        AuthzPolicy = "KeysExchange"
	TolerateNoHandshake AuthzPolicy = "TolerateNoHandshake"
	// DefaultAuthzPolicy is filled in by the API server.
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

// Reasons of the condition CertificateIssued while a certificate is being signed: for a minute, and later, when an administrator should
// look for the signer. A signed certificate ends both; other reasons describe an error.
const (
	ReasonCertificatePending = "CertificatePending"
	ReasonCertificateLate    = "CertificateLate"
)

// TenantSpec is the identity of the consumer and its permission.
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
	// ProxyURL is the proxy in the credentials of the consumer.
	// +kubebuilder:validation:MaxLength=2048
	ProxyURL *string `json:"proxyURL,omitempty"`
	// +kubebuilder:default=Active
	TenantCondition TenantCondition `json:"tenantCondition,omitempty"`
}

// TenantStatus is the grant to the consumer.
type TenantStatus struct {
	// TenantNamespace is the namespace of the Tenant.
	TenantNamespace string      `json:"tenantNamespace,omitempty"`
	AuthParams      *AuthParams `json:"authParams,omitempty"`
	// AcceptanceTime is the time of the first grant to the consumer. Older bindings for its user or group were made for another user.
	AcceptanceTime *metav1.Time `json:"acceptanceTime,omitempty"`
	// Conditions: Ready reports whether the Tenant is accepted, CertificateIssued the state of the certificate of its control plane.
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
