// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// VkOptionsTemplateResource is the plural of VkOptionsTemplate.
const VkOptionsTemplateResource = "vkoptionstemplates"

// ReflectionType says which objects are reflected.
type ReflectionType string

// Kinds of choice.
const (
	// DenyListReflectionType reflects all but what is annotated to be skipped.
	DenyListReflectionType ReflectionType = "DenyList"
	// AllowListReflectionType reflects only what is annotated to be allowed.
	AllowListReflectionType ReflectionType = "AllowList"
	// CustomLiqoReflectionType leaves the choice to the reflector.
	CustomLiqoReflectionType ReflectionType = "CustomLiqo"
)

// ReflectorConfig tunes the reflection of one kind.
type ReflectorConfig struct {
	// NumWorkers is 0 to switch the reflection off.
	//
	// +kubebuilder:validation:Minimum=0
	NumWorkers int            `json:"workers"`
	Type       ReflectionType `json:"type,omitempty"`
}

// VkOptionsTemplateSpec describes virtual kubelets.
type VkOptionsTemplateSpec struct {
	CreateNode              bool     `json:"createNode"`
	DisableNetworkCheck     bool     `json:"disableNetworkCheck"`
	ContainerImage          string   `json:"containerImage"`
	MetricsEnabled          bool     `json:"metricsEnabled"`
	MetricsAddress          string   `json:"metricsAddress,omitempty"`
	LabelsNotReflected      []string `json:"labelsNotReflected,omitempty"`
	AnnotationsNotReflected []string `json:"annotationsNotReflected,omitempty"`
	// ReflectorsConfig is keyed by pod, service, endpointslice, ingress, configmap, secret, serviceaccount,
	// persistentvolumeclaim and event.
	ReflectorsConfig map[string]ReflectorConfig `json:"reflectorsConfig,omitempty"`
	// +optional
	Resources            corev1.ResourceRequirements   `json:"resources,omitzero"`
	ExtraArgs            []string                      `json:"extraArgs,omitempty"`
	ExtraAnnotations     map[string]string             `json:"extraAnnotations,omitempty"`
	ExtraLabels          map[string]string             `json:"extraLabels,omitempty"`
	NodeExtraAnnotations map[string]string             `json:"nodeExtraAnnotations,omitempty"`
	NodeExtraLabels      map[string]string             `json:"nodeExtraLabels,omitempty"`
	Replicas             *int32                        `json:"replicas,omitempty"`
	ImagePullSecrets     []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`
	PullPolicy           corev1.PullPolicy             `json:"pullPolicy,omitempty"`
	Tolerations          []corev1.Toleration           `json:"tolerations,omitempty"`
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
