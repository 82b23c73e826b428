// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NamespaceOffloadingResource is the plural of NamespaceOffloading.
const NamespaceOffloadingResource = "namespaceoffloadings"

// NamespaceMappingStrategyType chooses the name of the twin namespaces.
//
// +kubebuilder:validation:Enum=EnforceSameName;DefaultName;SelectedName
type NamespaceMappingStrategyType string

// Strategies for the names of twin namespaces.
const (
	// EnforceSameNameMappingStrategyType gives the twin the name of the local namespace.
	EnforceSameNameMappingStrategyType NamespaceMappingStrategyType = "EnforceSameName"
	// DefaultNameMappingStrategyType appends the local cluster ID.
	DefaultNameMappingStrategyType NamespaceMappingStrategyType = "DefaultName"
	// SelectedNameMappingStrategyType uses spec.remoteNamespaceName.
	SelectedNameMappingStrategyType NamespaceMappingStrategyType = "SelectedName"
)

// PodOffloadingStrategyType says where the pods of a namespace may run.
//
// +kubebuilder:validation:Enum=Local;Remote;LocalAndRemote
type PodOffloadingStrategyType string

// Strategies for pods.
const (
	LocalPodOffloadingStrategyType          PodOffloadingStrategyType = "Local"
	RemotePodOffloadingStrategyType         PodOffloadingStrategyType = "Remote"
	LocalAndRemotePodOffloadingStrategyType PodOffloadingStrategyType = "LocalAndRemote"
)

// OffloadingPhaseType sums up all providers.
type OffloadingPhaseType string

// Phases of a NamespaceOffloading.
const (
	ReadyOffloadingPhaseType             OffloadingPhaseType = "Ready"
	NoClusterSelectedOffloadingPhaseType OffloadingPhaseType = "NoClusterSelected"
	InProgressOffloadingPhaseType        OffloadingPhaseType = "InProgress"
	SomeFailedOffloadingPhaseType        OffloadingPhaseType = "SomeFailed"
	AllFailedOffloadingPhaseType         OffloadingPhaseType = "AllFailed"
	TerminatingOffloadingPhaseType       OffloadingPhaseType = "Terminating"
)

// RemoteNamespaceConditionType is the subject of a condition of a provider.
type RemoteNamespaceConditionType string

// Types of conditions of a provider.
const (
	NamespaceOffloadingRequired RemoteNamespaceConditionType = "OffloadingRequired"
	NamespaceReady              RemoteNamespaceConditionType = "Ready"
	// NamespaceNetworkPoliciesEnforced is False where NetworkPolicies of the namespace are not enforced for its pods in the remote
	// cluster, and is left out otherwise.
	NamespaceNetworkPoliciesEnforced RemoteNamespaceConditionType = "NetworkPoliciesEnforced"
	// NamespacePodSecuritySatisfied is False where the Pod Security level of the remote namespace refuses pods of the namespace, and is
	// left out otherwise.
	NamespacePodSecuritySatisfied RemoteNamespaceConditionType = "PodSecuritySatisfied"
)

// RemoteNamespaceCondition is an observation about the remote namespace in a provider.
type RemoteNamespaceCondition struct {
	Type   RemoteNamespaceConditionType `json:"type"`
	Status corev1.ConditionStatus       `json:"status"`
	// +optional
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitzero"`
	Reason             string      `json:"reason,omitempty"`
	Message            string      `json:"message,omitempty"`
}

// RemoteNamespaceConditions are the observations about the remote namespace in a provider.
type RemoteNamespaceConditions []RemoteNamespaceCondition

// NamespaceOffloadingSpec selects the providers, the names of the remote namespaces and the pods.
//
// +kubebuilder:validation:XValidation:rule="self.namespaceMappingStrategy != 'SelectedName' || (has(self.remoteNamespaceName) && size(self.remoteNamespaceName) > 0)",message="remoteNamespaceName is required with the SelectedName strategy"
// +kubebuilder:validation:XValidation:rule="self.namespaceMappingStrategy == oldSelf.namespaceMappingStrategy",message="namespaceMappingStrategy is immutable"
// +kubebuilder:validation:XValidation:rule="(has(self.remoteNamespaceName) ? self.remoteNamespaceName : \"\") == (has(oldSelf.remoteNamespaceName) ? oldSelf.remoteNamespaceName : \"\")",message="remoteNamespaceName is immutable"
type NamespaceOffloadingSpec struct {
	// +kubebuilder:default=DefaultName
	NamespaceMappingStrategy NamespaceMappingStrategyType `json:"namespaceMappingStrategy,omitempty"`
	// RemoteNamespaceName is the name of the remote namespaces with the strategy SelectedName.
	RemoteNamespaceName string `json:"remoteNamespaceName,omitempty"`
	// +kubebuilder:default=LocalAndRemote
	PodOffloadingStrategy PodOffloadingStrategyType `json:"podOffloadingStrategy,omitempty"`
	// ClusterSelector selects virtual nodes by label; absent or without terms, all of them.
	ClusterSelector *corev1.NodeSelector `json:"clusterSelector,omitempty"`
}

// NamespaceOffloadingStatus is the observed state of an offloading.
type NamespaceOffloadingStatus struct {
	// RemoteNamespaceName is the name of the remote namespaces.
	RemoteNamespaceName string `json:"remoteNamespaceName,omitempty"`
	// OffloadingPhase sums up all providers: Ready, NoClusterSelected, InProgress, SomeFailed, AllFailed or Terminating.
	OffloadingPhase OffloadingPhaseType `json:"offloadingPhase,omitempty"`
	// RemoteNamespacesConditions are keyed by the provider's cluster ID, the name of the NamespaceMap.
	RemoteNamespacesConditions map[string]RemoteNamespaceConditions `json:"remoteNamespacesConditions,omitempty"`
	// ObservedGeneration is the generation of the spec to which the status belongs.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// MisplacedPods counts the pods older than the offloading, or than its present strategy, that only the user can move.
	// Each has an event with the reason.
	MisplacedPods int32 `json:"misplacedPods,omitempty"`
}

// NamespaceOffloading extends its namespace to other clusters. Its name is offloading.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:categories=liqo,shortName=nso;nsof;nsoff;nsoffloading
// +kubebuilder:subresource:status
// +kubebuilder:validation:XValidation:rule="self.metadata.name == 'offloading'",message="the name of a NamespaceOffloading must be offloading"
// +kubebuilder:printcolumn:name="NamespaceMappingStrategy",type=string,JSONPath=`.spec.namespaceMappingStrategy`
// +kubebuilder:printcolumn:name="PodOffloadingStrategy",type=string,JSONPath=`.spec.podOffloadingStrategy`
// +kubebuilder:printcolumn:name="OffloadingPhase",type=string,JSONPath=`.status.offloadingPhase`
// +kubebuilder:printcolumn:name="RemoteNamespaceName",type=string,priority=10,JSONPath=`.status.remoteNamespaceName`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type NamespaceOffloading struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec NamespaceOffloadingSpec `json:"spec"`
	// +optional
	Status NamespaceOffloadingStatus `json:"status,omitzero"`
}

// NamespaceOffloadingList is a list of objects of kind NamespaceOffloading.
//
// +kubebuilder:object:root=true
type NamespaceOffloadingList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NamespaceOffloading `json:"items"`
}
