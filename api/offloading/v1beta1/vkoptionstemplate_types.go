// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// VkOptionsTemplateResource is the plural of VkOptionsTemplate.
const VkOptionsTemplateResource = "vkoptionstemplates"

// ReflectionType selects the objects to reflect.
type ReflectionType string

// Kinds of choice.
const (
	// DenyListReflectionType reflects all objects without the annotation liqo.io/skip-reflection.
	DenyListReflectionType ReflectionType = "DenyList"
	// AllowListReflectionType reflects objects with the annotation liqo.io/allow-reflection.
	AllowListReflectionType ReflectionType = "AllowList"
	// CustomLiqoReflectionType leaves the choice to the reflector.
	CustomLiqoReflectionType ReflectionType = "CustomLiqo"
)

// ReflectorConfig tunes the reflection of a kind.
type ReflectorConfig struct {
	// NumWorkers is 0 to switch the reflection off.
	//
	// +kubebuilder:validation:Minimum=0
	NumWorkers int            `json:"workers"`
	Type       ReflectionType `json:"type,omitempty"`
}

// VkOptionsTemplateSpec describes virtual kubelets.
type VkOptionsTemplateSpec struct {
	// CreateNode is false for a virtual kubelet without a Node.
	CreateNode bool `json:"createNode"`
	// DisableNetworkCheck has nodes be ready although the network to the provider is down.
	DisableNetworkCheck bool `json:"disableNetworkCheck"`
	// ContainerImage of the virtual kubelet.
	ContainerImage string `json:"containerImage"`
	// MetricsEnabled has the virtual kubelet serve metrics.
	MetricsEnabled bool `json:"metricsEnabled"`
	// MetricsAddress is where they are served.
	MetricsAddress string `json:"metricsAddress,omitempty"`
	// LabelsNotReflected are keys of labels to keep local.
	LabelsNotReflected []string `json:"labelsNotReflected,omitempty"`
	// AnnotationsNotReflected are keys of annotations to keep local.
	AnnotationsNotReflected []string `json:"annotationsNotReflected,omitempty"`
	// ReflectorsConfig is keyed by pod, service, endpointslice, ingress, configmap, secret, serviceaccount,
	// persistentvolumeclaim and event.
	ReflectorsConfig map[string]ReflectorConfig `json:"reflectorsConfig,omitempty"`
	// Resources of the virtual kubelet.
	//
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`
	// ExtraArgs are added to the arguments of the virtual kubelet.
	ExtraArgs []string `json:"extraArgs,omitempty"`
	// ExtraAnnotations are for the Deployment and its pods.
	ExtraAnnotations map[string]string `json:"extraAnnotations,omitempty"`
	// ExtraLabels are for the Deployment and its pods.
	ExtraLabels map[string]string `json:"extraLabels,omitempty"`
	// NodeExtraAnnotations are for the node.
	NodeExtraAnnotations map[string]string `json:"nodeExtraAnnotations,omitempty"`
	// NodeExtraLabels are for the node.
	NodeExtraLabels map[string]string `json:"nodeExtraLabels,omitempty"`
	// Replicas of the virtual kubelet; one is the leader.
	Replicas *int32 `json:"replicas,omitempty"`
	// ImagePullSecrets of the pods of the virtual kubelet.
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`
	// PullPolicy of the image.
	PullPolicy corev1.PullPolicy `json:"pullPolicy,omitempty"`
	// Tolerations of the pods of the virtual kubelet.
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
}

// VkOptionsTemplate describes the virtual kubelets of an installation.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:categories=liqo,shortName=vkot;vkopt
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type VkOptionsTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec VkOptionsTemplateSpec `json:"spec,omitzero"`
}

// VkOptionsTemplateList is a list of objects of kind VkOptionsTemplate.
//
// +kubebuilder:object:root=true
type VkOptionsTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []VkOptionsTemplate `json:"items"`
}
