// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// NamespaceMapResource is the plural of NamespaceMap.
const NamespaceMapResource = "namespacemaps"

// MappingPhase is how far the provider got with a twin namespace.
//
// +kubebuilder:validation:Enum=Accepted;CreationLoopBackOff;Terminating
type MappingPhase string

// Phases of a mapping.
const (
	MappingAccepted            MappingPhase = "Accepted"
	MappingCreationLoopBackOff MappingPhase = "CreationLoopBackOff"
	MappingTerminating         MappingPhase = "Terminating"
)

// Reasons why a mapping is not accepted. All but MappingRetried and MappingTenantPending are refusals: they stay until the cause is
// removed.
const (
	// MappingNameReserved: no consumer gets a namespace of this name.
	MappingNameReserved = "NameReserved"
	// MappingNameBound: a binding gives rights to ServiceAccounts of a namespace of this name.
	MappingNameBound = "NameBound"
	// MappingNamespaceExists: the namespace exists and was not made for this offloading.
	MappingNamespaceExists = "NamespaceExists"
	// MappingLimitReached: the consumer has as many namespaces as the provider grants it.
	MappingLimitReached = "LimitReached"
	// MappingNotTheOldest: another NamespaceMap of the consumer is older, and only the oldest counts.
	MappingNotTheOldest = "NotTheOldestNamespaceMap"
	// MappingNoTenant: the provider has no Tenant of the consumer.
	MappingNoTenant = "NoTenant"
	// MappingTenantNotReady: the provider has rejected the Tenant of the consumer.
	MappingTenantNotReady = "TenantNotReady"
	// MappingTenantDrained: the provider has drained the Tenant of the consumer.
	MappingTenantDrained = "TenantDrained"
	// MappingForbidden: the API server of the provider, or one of its admission policies, does not allow the namespace.
	MappingForbidden = "Forbidden"
	// MappingTenantPending: the provider has not processed the Tenant of the consumer yet.
	MappingTenantPending = "TenantPending"
	// MappingRetried: an attempt failed, and is repeated by the provider.
	MappingRetried = "Retried"
)

// RemoteNamespaceStatus is the provider's answer about a namespace.
type RemoteNamespaceStatus struct {
	// RemoteNamespace is the name of the twin.
	RemoteNamespace string       `json:"remoteNamespace,omitempty"`
	Phase           MappingPhase `json:"phase,omitempty"`
	// Reason of a refusal, in a word.
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason,omitempty"`
	// Message of a refusal, or a problem of an accepted namespace.
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
	// PodSecurity is the enforced level of the Pod Security Standards, once the namespace is accepted.
	// +kubebuilder:validation:MaxLength=32
	PodSecurity string `json:"podSecurity,omitempty"`
}

// IsRefused reports whether the provider refused the namespace, as opposed to an attempt that the provider repeats by itself. A
// provider without reasons is of an older release, which did not tell the two apart.
func (s *RemoteNamespaceStatus) IsRefused() bool {
	return s.Phase == MappingCreationLoopBackOff && s.Reason != MappingRetried && s.Reason != MappingTenantPending
}

// NamespaceMapSpec is the request of the consumer.
type NamespaceMapSpec struct {
	// DesiredMapping has the remote name of each local namespace.
	// +kubebuilder:validation:MaxProperties=1000
	// +kubebuilder:validation:XValidation:rule="self.all(local, size(local) > 0 && size(local) <= 63 && size(self[local]) > 0 && size(self[local]) <= 320)",message="local names have 1 to 63 characters, remote ones 1 to 320"
	DesiredMapping map[string]string `json:"desiredMapping,omitempty"`
}

// NamespaceMapStatus is the answer of the provider.
type NamespaceMapStatus struct {
	// CurrentMapping has the state of each local namespace.
	// +kubebuilder:validation:MaxProperties=2000
	CurrentMapping map[string]RemoteNamespaceStatus `json:"currentMapping,omitempty"`
	// ProviderVersion is the version of Liqo at the provider.
	ProviderVersion string `json:"providerVersion,omitempty"`
	// ProviderCapabilities are the capabilities of Liqo at the provider.
	// +listType=atomic
	ProviderCapabilities []string `json:"providerCapabilities,omitempty"`
	// ConsumerNetworks are the networks of the consumer, with the prefixes that stand for them in the provider.
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	ConsumerNetworks []TranslatedNetwork `json:"consumerNetworks,omitempty"`
}

// TranslatedNetwork is a network and the prefix of the same length that stands for it in another cluster.
type TranslatedNetwork struct {
	// CIDR is the network.
	// +kubebuilder:validation:MaxLength=43
	CIDR string `json:"cidr"`
	// TranslatedCIDR is the prefix.
	// +kubebuilder:validation:MaxLength=43
	TranslatedCIDR string `json:"translatedCIDR"`
}

// NamespaceMap pairs the namespaces of a consumer with their remote namespaces in a provider.
//
// +kubebuilder:object:root=true
// +kubebuilder:validation:XValidation:rule="!has(self.status) || !has(self.status.currentMapping) || self.status.currentMapping.all(k, has(self.spec) && has(self.spec.desiredMapping) && k in self.spec.desiredMapping || has(oldSelf.status) && has(oldSelf.status.currentMapping) && k in oldSelf.status.currentMapping)",message="status.currentMapping may only name namespaces of spec.desiredMapping, and those that it names already"
// +kubebuilder:resource:categories=liqo,shortName=nm;nsmap
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Local",type=string,JSONPath=`.metadata.labels.liqo\.io/replication`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type NamespaceMap struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec NamespaceMapSpec `json:"spec,omitzero"`
	// +optional
	Status NamespaceMapStatus `json:"status,omitzero"`
}

// NamespaceMapList is a list of objects of kind NamespaceMap.
//
// +kubebuilder:object:root=true
type NamespaceMapList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NamespaceMap `json:"items"`
}
