// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// This file derives objects from a ResourceSlice: in the provider a grant and a Quota, in the consumer an Identity
// and a VirtualNode.

package policy

import (
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	authv1beta1 "liqo.io/liqo/api/authentication/v1beta1"
	liqov1beta1 "liqo.io/liqo/api/core/v1beta1"
	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
)

// SliceDefaults are the resources that the provider grants with the default class.
type SliceDefaults struct {
	// Resources are granted when the ResourceSlice does not request them.
	Resources           corev1.ResourceList
	StorageClasses      []liqov1beta1.StorageType
	IngressClasses      []liqov1beta1.IngressType
	LoadBalancerClasses []liqov1beta1.LoadBalancerType
	NodeLabels          map[string]string
	DeclaredFeatures    []string
}

// GrantResources writes the grant of the default class to status: all requested resources, and the defaults for the rest. A
// resource no longer requested is revoked.
func GrantResources(spec *authv1beta1.ResourceSliceSpec, d SliceDefaults, status *authv1beta1.ResourceSliceStatus) {
	status.Resources = d.Resources.DeepCopy()
	if status.Resources == nil {
		status.Resources = corev1.ResourceList{}
	}
	maps.Copy(status.Resources, spec.Resources)
	status.StorageClasses = d.StorageClasses
	status.IngressClasses = d.IngressClasses
	status.LoadBalancerClasses = d.LoadBalancerClasses
	status.NodeLabels = maps.Clone(d.NodeLabels)
	status.DeclaredFeatures = d.DeclaredFeatures
}

// RevokeResources removes from status all fields that Grant sets.
func RevokeResources(status *authv1beta1.ResourceSliceStatus) {
	status.Resources, status.NodeLabels, status.DeclaredFeatures = nil, nil, nil
	status.StorageClasses, status.IngressClasses, status.LoadBalancerClasses = nil, nil, nil
}

// IsDefaultClass reports whether the provider's own controller decides about ResourceSlices of the class.
func IsDefaultClass(class authv1beta1.ResourceSliceClass) bool {
	return class == authv1beta1.ResourceSliceClassUnknown || class == authv1beta1.ResourceSliceClassDefault
}

// NewQuota returns the limit on pods of the holder of the certificate in the provider. The user is its common
// name.
func NewQuota(slice *authv1beta1.ResourceSlice, user string, enforcement offv1beta1.LimitsEnforcement, cordoned bool) *offv1beta1.Quota {
	quota := &offv1beta1.Quota{
		ObjectMeta: metav1.ObjectMeta{Namespace: slice.Namespace, Name: user},
		Spec: offv1beta1.QuotaSpec{
			User:              user,
			LimitsEnforcement: enforcement,
			Resources:         slice.Status.Resources.DeepCopy(),
		},
	}
	if quota.Spec.Resources == nil {
		quota.Spec.Resources = corev1.ResourceList{}
	}
	for name, amount := range quota.Spec.Resources {
		if amount.Sign() < 0 { // by a controller of another class, before the CRD rejected it: without the limit, pods would be unlimited
			quota.Spec.Resources[name] = resource.Quantity{Format: amount.Format}
		}
	}
	if cordoned {
		quota.Spec.Cordoned = new(true)
	}
	return quota
}

// IsCordoned tells whether an administrator of the provider cordoned the slice.
func IsCordoned(slice *authv1beta1.ResourceSlice) bool {
	value, ok := slice.Annotations[names.Cordon]
	return ok && value != "0" && !strings.EqualFold(value, "false")
}

// NewIdentity is the credential of a slice, in the consumer.
func NewIdentity(slice *authv1beta1.ResourceSlice, provider liqov1beta1.ClusterID) *authv1beta1.Identity {
	return &authv1beta1.Identity{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: slice.Namespace,
			Name:      names.SliceIdentity(slice.Name),
			Labels:    sliceLabels(slice, provider),
		},
		Spec: authv1beta1.IdentitySpec{
			ClusterID:  provider,
			Type:       authv1beta1.ResourceSliceIdentityType,
			AuthParams: *slice.Status.AuthParams.DeepCopy(),
		},
	}
}

// AsksForVirtualNode tells whether the consumer's administrator wants a VirtualNode made.
func AsksForVirtualNode(slice *authv1beta1.ResourceSlice) bool {
	value := slice.Annotations[names.CreateVirtualNode]
	return value != "" && !strings.EqualFold(value, "false")
}

// NewVirtualNode returns the node for the ResourceSlice in the consumer. The labels are the accepted labels of the
// provider; they never override the labels that identify the provider.
func NewVirtualNode(slice *authv1beta1.ResourceSlice, provider liqov1beta1.ClusterID, secret string, nodeLabels map[string]string) *offv1beta1.VirtualNode {
	status := &slice.Status
	vn := &offv1beta1.VirtualNode{
		ObjectMeta: metav1.ObjectMeta{Namespace: slice.Namespace, Name: slice.Name, Labels: sliceLabels(slice, provider)},
		Spec: offv1beta1.VirtualNodeSpec{
			ClusterID:           provider,
			KubeconfigSecretRef: &corev1.LocalObjectReference{Name: secret},
			ResourceQuota:       corev1.ResourceQuotaSpec{Hard: nonZeroAmounts(status.Resources)},
			Labels:              maps.Clone(nodeLabels),
			StorageClasses:      status.StorageClasses,
			IngressClasses:      status.IngressClasses,
			LoadBalancerClasses: status.LoadBalancerClasses,
			DeclaredFeatures:    status.DeclaredFeatures,
		},
	}
	if vn.Spec.Labels == nil {
		vn.Spec.Labels = map[string]string{}
	}
	vn.Spec.Labels[names.RemoteClusterID] = string(provider)
	if len(status.NodeSelector) > 0 {
		vn.Spec.OffloadingPatch = &offv1beta1.OffloadingPatch{NodeSelector: maps.Clone(status.NodeSelector)}
	}
	return vn
}

func sliceLabels(slice *authv1beta1.ResourceSlice, provider liqov1beta1.ClusterID) map[string]string {
	return map[string]string{names.RemoteClusterID: string(provider), names.ResourceSliceName: slice.Name}
}

// nonZeroAmounts leaves out amounts impossible in a node: an invalid grant must not block the node.
func nonZeroAmounts(granted corev1.ResourceList) corev1.ResourceList {
	out := corev1.ResourceList{}
	for name, quantity := range granted {
		if quantity.Sign() >= 0 {
			out[name] = quantity.DeepCopy()
		}
	}
	return out
}
