// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
)

// VirtualNodeResource is the plural of VirtualNode.
const VirtualNodeResource = "virtualnodes"

// DeploymentTemplate changes the virtual kubelet's Deployment.
type DeploymentTemplate struct {
	// ObjectMeta: labels and annotations of the Deployment.
	//
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`
	// Spec of the Deployment.
	//
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Spec appsv1.DeploymentSpec `json:"spec,omitzero"`
}

// Affinity is added to remote pods.
type Affinity struct {
	// NodeAffinity is about nodes of the provider.
	NodeAffinity *corev1.NodeAffinity `json:"nodeAffinity,omitempty"`
}

// OffloadingPatch changes the objects sent to the provider.
type OffloadingPatch struct {
	// AnnotationsNotReflected are keys of annotations to keep local.
	AnnotationsNotReflected []string `json:"annotationsNotReflected,omitempty"`
	// LabelsNotReflected are keys of labels to keep local.
	LabelsNotReflected []string `json:"labelsNotReflected,omitempty"`
	// NodeSelector is of the nodes of the provider where pods may run.
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// Tolerations are added to remote pods.
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
	Affinity    *Affinity           `json:"affinity,omitempty"`
	// RuntimeClassName is the provider's, for remote pods.
	RuntimeClassName *string `json:"runtimeClassName,omitempty"`
}

// VirtualNodeConditionType is the subject of a condition of a VirtualNode.
//
// +kubebuilder:validation:Enum=VirtualKubelet;Node
type VirtualNodeConditionType string

// Types of conditions of a VirtualNode.
const (
	VirtualKubeletConditionType VirtualNodeConditionType = "VirtualKubelet"
	NodeConditionType           VirtualNodeConditionType = "Node"
)

// VirtualNodeConditionStatusType is the value of a condition of a VirtualNode.
//
// +kubebuilder:validation:Enum=None;Running;Creating;Draining;Deleting
type VirtualNodeConditionStatusType string

// Values of a condition of a VirtualNode.
const (
	NoneConditionStatusType     VirtualNodeConditionStatusType = "None"
	RunningConditionStatusType  VirtualNodeConditionStatusType = "Running"
	CreatingConditionStatusType VirtualNodeConditionStatusType = "Creating"
	DrainingConditionStatusType VirtualNodeConditionStatusType = "Draining"
	DeletingConditionStatusType VirtualNodeConditionStatusType = "Deleting"
)

// VirtualNodeCondition is an observation about a VirtualNode.
type VirtualNodeCondition struct {
	Type VirtualNodeConditionType `json:"type"`
	// +required
	// +kubebuilder:default=None
	Status VirtualNodeConditionStatusType `json:"status,omitempty"`
	// +optional
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitzero"`
	Reason             string      `json:"reason,omitempty"`
	Message            string      `json:"message,omitempty"`
}

// VirtualNodeSpec is the node to show for a provider.
type VirtualNodeSpec struct {
	// ClusterID is the provider's.
	ClusterID liqov1beta1.ClusterID `json:"clusterID,omitempty"`
	// Template overrides parts of the VkOptionsTemplate.
	Template        *DeploymentTemplate `json:"template,omitempty"`
	OffloadingPatch *OffloadingPatch    `json:"offloadingPatch,omitempty"`
	// CreateNode is taken from the VkOptionsTemplate if absent.
	CreateNode *bool `json:"createNode,omitempty"`
	// DisableNetworkCheck is taken from the VkOptionsTemplate if absent.
	DisableNetworkCheck *bool `json:"disableNetworkCheck,omitempty"`
	// KubeconfigSecretRef names the Secret with the credentials in the provider.
	KubeconfigSecretRef *corev1.LocalObjectReference `json:"kubeconfigSecretRef,omitempty"`
	// Images are accepted, and shown in the status of the node.
	Images []corev1.ContainerImage `json:"images,omitempty"`
	// ResourceQuota.hard is the node's capacity.
	//
	// +optional
	ResourceQuota corev1.ResourceQuotaSpec `json:"resourceQuota,omitzero"`
	// Labels of the node.
	Labels map[string]string `json:"labels,omitempty"`
	// Annotations of the node.
	Annotations map[string]string `json:"annotations,omitempty"`
	// Taints of the node, added to the taint of all virtual nodes.
	Taints []corev1.Taint `json:"taints,omitempty"`
	// DeclaredFeatures are the features of Kubernetes that the node declares in its status.
	//
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	DeclaredFeatures []string `json:"declaredFeatures,omitempty"`
	// StorageClasses of the provider, for the claims of virtual volumes.
	StorageClasses []liqov1beta1.StorageType `json:"storageClasses,omitempty"`
	// IngressClasses of the provider, for the copies of Ingresses.
	IngressClasses []liqov1beta1.IngressType `json:"ingressClasses,omitempty"`
	// LoadBalancerClasses of the provider, for the copies of Services.
	LoadBalancerClasses []liqov1beta1.LoadBalancerType `json:"loadBalancerClasses,omitempty"`
	// VkOptionsTemplateRef is the installation's default if absent.
	VkOptionsTemplateRef *corev1.ObjectReference `json:"vkOptionsTemplateRef,omitempty"`
}

// VirtualNodeStatus is the observed state of the node and its virtual kubelet.
type VirtualNodeStatus struct {
	// Conditions of the virtual kubelet and of the node.
	//
	// +listType=map
	// +listMapKey=type
	Conditions []VirtualNodeCondition `json:"conditions,omitempty"`
}

// VirtualNode shows a provider as a node of the same name.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:categories=liqo,shortName=vn;vnode;virno;vno
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="ClusterID",type=string,JSONPath=`.spec.clusterID`
// +kubebuilder:printcolumn:name="Create Node",type=boolean,JSONPath=`.spec.createNode`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Node",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Node")].status`
// +kubebuilder:printcolumn:name="VirtualKubelet",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="VirtualKubelet")].status`
type VirtualNode struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec VirtualNodeSpec `json:"spec,omitzero"`
	// +optional
	Status VirtualNodeStatus `json:"status,omitzero"`
}

// VirtualNodeList is a list of objects of kind VirtualNode.
//
// +kubebuilder:object:root=true
type VirtualNodeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []VirtualNode `json:"items"`
}
