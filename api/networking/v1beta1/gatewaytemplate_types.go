// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Plurals of the template kinds.
const (
	WgGatewayClientTemplateResource = "wggatewayclienttemplates"
	WgGatewayServerTemplateResource = "wggatewayservertemplates"
)

// GatewayTemplateSpec is an object to render.
type GatewayTemplateSpec struct {
	// ObjectKind is the kind to render.
	//
	// +optional
	ObjectKind metav1.TypeMeta `json:"objectKind,omitzero"`
	// Template has metadata and spec; every string in it is a Go template.
	//
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	Template runtime.RawExtension `json:"template,omitzero"`
}

// WgGatewayClientTemplate renders GatewayClients.
//
// +kubebuilder:object:root=true
// +kubebuilder:metadata:labels="networking.liqo.io/gatewaytemplate=true"
// +kubebuilder:resource:categories=liqo,shortName=wggct;wgct
type WgGatewayClientTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec GatewayTemplateSpec `json:"spec,omitzero"`
}

// WgGatewayClientTemplateList is a list of objects of kind WgGatewayClientTemplate.
//
// +kubebuilder:object:root=true
type WgGatewayClientTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []WgGatewayClientTemplate `json:"items"`
}

// WgGatewayServerTemplate renders GatewayServers.
//
// +kubebuilder:object:root=true
// +kubebuilder:metadata:labels="networking.liqo.io/gatewaytemplate=true"
// +kubebuilder:resource:categories=liqo,shortName=wggst;wgst
type WgGatewayServerTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec GatewayTemplateSpec `json:"spec,omitzero"`
}

// WgGatewayServerTemplateList is a list of objects of kind WgGatewayServerTemplate.
//
// +kubebuilder:object:root=true
type WgGatewayServerTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []WgGatewayServerTemplate `json:"items"`
}
