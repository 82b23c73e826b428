// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Package v1beta1 describes the identity of a peer and its grants.
//
// +kubebuilder:object:generate=true
// +groupName=authentication.liqo.io
package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of this package.
const GroupName = "authentication.liqo.io"

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
		&Identity{}, &IdentityList{},
		&Renew{}, &RenewList{},
		&ResourceSlice{}, &ResourceSliceList{},
		&Tenant{}, &TenantList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
