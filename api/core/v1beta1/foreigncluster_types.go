// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ForeignClusterResource is the plural of ForeignCluster.
const ForeignClusterResource = "foreignclusters"

// ClusterID identifies a cluster among its peers. The ID is also a label value, a user name and part of names.
//
// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
// +kubebuilder:validation:MaxLength=63
type ClusterID string

// RoleType is the role of a peer towards this cluster.
//
// +kubebuilder:validation:Enum=Consumer;Provider;ConsumerAndProvider;Unknown
type RoleType string

// Roles of a peer.
const (
	ConsumerRole            RoleType = "Consumer"
	ProviderRole            RoleType = "Provider"
	ConsumerAndProviderRole RoleType = "ConsumerAndProvider"
	UnknownRole             RoleType = "Unknown"
)

// ConditionType is the subject of a condition of a ForeignCluster.
//
// +kubebuilder:validation:Enum=APIServerStatus;NetworkConnectionStatus;NetworkGatewayServerStatus;NetworkGatewayClientStatus;NetworkGatewayPresence;NetworkConfigurationStatus;AuthIdentityControlPlaneStatus;AuthTenantStatus;AuthVersionStatus;OffloadingVirtualNodeStatus;OffloadingNodeStatus;PeerMisbehaves
type ConditionType string

// Types of conditions.
const (
	APIServerStatus                ConditionType = "APIServerStatus"
	NetworkConnectionStatus        ConditionType = "NetworkConnectionStatus"
	NetworkGatewayServerStatus     ConditionType = "NetworkGatewayServerStatus"
	NetworkGatewayClientStatus     ConditionType = "NetworkGatewayClientStatus"
	NetworkGatewayPresence         ConditionType = "NetworkGatewayPresence"
	NetworkConfigurationStatus     ConditionType = "NetworkConfigurationStatus"
	AuthIdentityControlPlaneStatus ConditionType = "AuthIdentityControlPlaneStatus"
	AuthTenantStatus               ConditionType = "AuthTenantStatus"
	AuthVersionStatus              ConditionType = "AuthVersionStatus"
	OffloadingVirtualNodeStatus    ConditionType = "OffloadingVirtualNodeStatus"
	OffloadingNodeStatus           ConditionType = "OffloadingNodeStatus"
	// PeerMisbehaves is present while the peer exceeds a limit on its reads, writes or objects.
	PeerMisbehaves ConditionType = "PeerMisbehaves"
)

// ConditionStatus is the value of a condition.
//
// +kubebuilder:validation:Enum=None;Pending;Established;Error;Ready;NotReady;SomeNotReady
type ConditionStatus string

// Values of a condition.
const (
	ConditionNone         ConditionStatus = "None"
	ConditionPending      ConditionStatus = "Pending"
	ConditionEstablished  ConditionStatus = "Established"
	ConditionError        ConditionStatus = "Error"
	ConditionReady        ConditionStatus = "Ready"
	ConditionNotReady     ConditionStatus = "NotReady"
	ConditionSomeNotReady ConditionStatus = "SomeNotReady"
)

// Condition is an observation about a peer.
type Condition struct {
	Type ConditionType `json:"type"`
	// +kubebuilder:default=None
	// +required
	Status ConditionStatus `json:"status,omitempty"`
	// +optional
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitzero"`
	Reason             string      `json:"reason,omitempty"`
	Message            string      `json:"message,omitempty"`
}

// Module reports whether a part of Liqo is in use with a peer, and its state.
type Module struct {
	// Enabled is true if the peer has objects of the module.
	Enabled bool `json:"enabled"`
	// Conditions summarize the objects of the module.
	//
	// +listType=map
	// +listMapKey=type
	Conditions []Condition `json:"conditions,omitempty"`
}

// Modules are the parts of Liqo.
type Modules struct {
	Networking     Module `json:"networking"`
	Authentication Module `json:"authentication"`
	Offloading     Module `json:"offloading"`
}

// TenantNamespaceType names the two namespaces of a peering.
type TenantNamespaceType struct {
	// Local is the tenant namespace in this cluster.
	Local string `json:"local,omitempty"`
	// Remote is the tenant namespace in the peer, if known.
	Remote string `json:"remote,omitempty"`
}

// ForeignClusterSpec identifies the peer.
type ForeignClusterSpec struct {
	// ClusterID is the peer's.
	//
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="ClusterID field is immutable"
	ClusterID ClusterID `json:"clusterID"`
}

// ForeignClusterStatus sums up everything this cluster knows about the peer.
type ForeignClusterStatus struct {
	// ObservedGeneration is 0 until the object was looked at once.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// +kubebuilder:default=Unknown
	// +required
	Role RoleType `json:"role,omitempty"`
	// Version of Liqo at the peer, as NamespaceMaps report: known from the first virtual node between the two clusters on.
	Version string `json:"version,omitempty"`
	// Capabilities of Liqo at the peer, reported with the version. Some may be unknown to this cluster.
	// +listType=atomic
	Capabilities []string `json:"capabilities,omitempty"`
	// +optional
	Modules Modules `json:"modules,omitzero"`
	// APIServerURL is where the API server of a provider is.
	APIServerURL string `json:"apiServerUrl,omitempty"`
	// ForeignProxyURL is the address of the proxy of the peer's API server.
	ForeignProxyURL string `json:"foreignProxyUrl,omitempty"`
	// +optional
	TenantNamespace TenantNamespaceType `json:"tenantNamespace,omitzero"`
	// Conditions: APIServerStatus reports whether the API server of a provider answers, PeerMisbehaves is present while the peer exceeds a
	// limit.
	//
	// +listType=map
	// +listMapKey=type
	Conditions []Condition `json:"conditions,omitempty"`
}

// ForeignCluster summarizes a peer; its name is the peer's cluster ID.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:categories=liqo,shortName=fc,scope=Cluster
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Role",type=string,JSONPath=`.status.role`
// +kubebuilder:printcolumn:name="ClusterID",type=string,priority=1,JSONPath=`.spec.clusterID`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ForeignCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec ForeignClusterSpec `json:"spec,omitzero"`
	// +optional
	Status ForeignClusterStatus `json:"status,omitzero"`
}

// ForeignClusterList is a list of ForeignClusters.
//
// +kubebuilder:object:root=true
type ForeignClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ForeignCluster `json:"items"`
}
