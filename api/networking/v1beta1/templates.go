// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// DeploymentTemplate is a Deployment to make.
type DeploymentTemplate struct {
	// Metadata of the Deployment.
	//
	// +optional
	Metadata metav1.ObjectMeta `json:"metadata,omitzero"`
	// Spec of the Deployment.
	//
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Spec appsv1.DeploymentSpec `json:"spec,omitzero"`
}

// ServiceTemplate is a Service to make.
type ServiceTemplate struct {
	// Metadata of the Service.
	//
	// +optional
	Metadata metav1.ObjectMeta `json:"metadata,omitzero"`
	// Spec of the Service.
	//
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	Spec corev1.ServiceSpec `json:"spec,omitzero"`
}

// ServiceMonitorTemplate is a ServiceMonitor of the Prometheus operator to make.
type ServiceMonitorTemplate struct {
	// Metadata of the ServiceMonitor.
	//
	// +optional
	Metadata metav1.ObjectMeta `json:"metadata,omitzero"`
	// Spec is passed on unchanged: the operator's types are no dependency of this module.
	//
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	Spec runtime.RawExtension `json:"spec,omitzero"`
}

// Metrics says how a gateway is scraped.
type Metrics struct {
	// Enabled has no effect: a PodMonitor of the chart scrapes all gateways.
	Enabled        bool                    `json:"enabled"`
	Service        *ServiceTemplate        `json:"service,omitempty"`
	ServiceMonitor *ServiceMonitorTemplate `json:"serviceMonitor,omitempty"`
}
