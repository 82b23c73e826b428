// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package v1beta1 describes the pods and namespaces of a consumer in a provider.
//
// +kubebuilder:object:generate=true
// +groupName=offloading.liqo.io
package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of this package.
const GroupName = "offloading.liqo.io"

var (
	// GroupVersion identifies the types of this package.
	GroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1beta1"}
	// SchemeBuilder collects what AddToScheme registers.
	SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)
	// AddToScheme registers the types of this package in a scheme.
	AddToScheme = SchemeBuilder.AddToScheme
)

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&NamespaceMap{}, &NamespaceMapList{},
		&NamespaceOffloading{}, &NamespaceOffloadingList{},
		&Quota{}, &QuotaList{},
		&ShadowEndpointSlice{}, &ShadowEndpointSliceList{},
		&ShadowPod{}, &ShadowPodList{},
		&VirtualNode{}, &VirtualNodeList{},
		&VkOptionsTemplate{}, &VkOptionsTemplateList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
