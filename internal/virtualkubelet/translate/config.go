// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
)

// ReflectionType selects the objects of a namespace that are copied.
type ReflectionType string

const (
	// DenyList copies all objects except those annotated with names.SkipReflection. It is the default.
	DenyList ReflectionType = "DenyList"
	// AllowList copies only those annotated with names.AllowReflection.
	AllowList ReflectionType = "AllowList"
	// UsedByPods copies only objects used by a pod in the provider, and objects annotated with names.AllowReflection.
	UsedByPods ReflectionType = "UsedByPods"
	// Never copies none.
	Never ReflectionType = "Never"
	// CustomLiqo leaves the choice to Liqo: it is DenyList.
	CustomLiqo ReflectionType = "CustomLiqo"
)

// Allows reports whether an object is to be copied; used is set if a pod in the provider refers to it.
func (r ReflectionType) Allows(obj metav1.Object, used bool) bool {
	switch r {
	case Never:
		return false
	case AllowList:
		return isSet(obj, names.AllowReflection)
	case UsedByPods:
		return (used || isSet(obj, names.AllowReflection)) && !isSet(obj, names.SkipReflection)
	}
	return !isSet(obj, names.SkipReflection)
}

// isSet reports whether an annotation exists and is not "false".
func isSet(obj metav1.Object, key string) bool {
	value, ok := obj.GetAnnotations()[key]
	return ok && !strings.EqualFold(value, "false")
}

// IsRootCA reports whether a ConfigMap is the root CA that Kubernetes puts into every namespace.
func IsRootCA(cm *corev1.ConfigMap) bool { return cm.Name == rootCAConfigMap }

// IsRootCAName reports whether a name is the name of the root CA that Kubernetes puts into every namespace.
func IsRootCAName(name string) bool { return name == rootCAConfigMap }

// IsCopyOfConfigMap reports whether a copy has all keys of the original, and no key that manager applied and the original now
// lacks. Other writers may add keys.
func IsCopyOfConfigMap(copied, original *corev1.ConfigMap, manager string) bool {
	return includesAll(copied.Data, original.Data, func(a, b string) bool { return a == b }) && includesAll(copied.BinaryData, original.BinaryData, bytes.Equal) &&
		appliedOnly(copied, manager, "f:data", original.Data) && appliedOnly(copied, manager, "f:binaryData", original.BinaryData)
}

// IsCopyOfSecret is IsCopyOfConfigMap for Secrets.
func IsCopyOfSecret(copied, original *corev1.Secret, manager string) bool {
	return includesAll(copied.Data, original.Data, bytes.Equal) && appliedOnly(copied, manager, "f:data", original.Data)
}

// appliedOnly reports whether the original has each key that manager applied to a field of the copy.
func appliedOnly[V any](copied metav1.Object, manager, field string, original map[string]V) bool {
	for _, entry := range copied.GetManagedFields() {
		if entry.Manager != manager || entry.Operation != metav1.ManagedFieldsOperationApply || entry.FieldsV1 == nil {
			continue
		}
		var fields map[string]json.RawMessage
		var keys map[string]json.RawMessage
		if json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) != nil || json.Unmarshal(fields[field], &keys) != nil {
			continue // manager applied nothing of this field
		}
		for path := range keys {
			if key, ok := strings.CutPrefix(path, "f:"); ok {
				if _, ok := original[key]; !ok {
					return false
				}
			}
		}
	}
	return true
}

func includesAll[V any](all, part map[string]V, equal func(a, b V) bool) bool {
	for key, value := range part {
		if current, ok := all[key]; !ok || !equal(current, value) {
			return false
		}
	}
	return true
}

// UsesRootCA reports whether a pod mounts this cluster's root CA, and in the provider, too.
func UsesRootCA(pod *corev1.Pod) bool {
	configMaps, _ := References(&pod.Spec)
	return AccessOf(pod, &APIServerRoute{}) != AccessRemote && slices.Contains(configMaps, rootCAConfigMap)
}

// AllowsRootCA is Allows for the root CA. Pods need the root CA regardless of the policy for other ConfigMaps: only an explicit
// annotation counts.
func AllowsRootCA(cm *corev1.ConfigMap) bool {
	value, ok := cm.Annotations[names.AllowReflection]
	return !isSet(cm, names.SkipReflection) && !(ok && strings.EqualFold(value, "false"))
}

// ConfigMap returns the remote copy of a ConfigMap.
func (t Target) ConfigMap(local *corev1.ConfigMap) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: t.objectMeta(t.ConfigMapName(local.Name), local),
		Data:       maps.Clone(local.Data),
		BinaryData: maps.Clone(local.BinaryData),
		Immutable:  local.Immutable,
	}
}

// Secret returns the remote copy of a Secret. Tokens have none: see IsToken.
func (t Target) Secret(local *corev1.Secret) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: t.objectMeta(local.Name, local),
		Data:       maps.Clone(local.Data),
		Type:       local.Type,
		Immutable:  local.Immutable,
	}
}

// IsToken reports whether a Secret holds a service account token, which never leaves this cluster.
func IsToken(s *corev1.Secret) bool { return s.Type == corev1.SecretTypeServiceAccountToken }

func (t Target) objectMeta(name string, local metav1.Object) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: name, Namespace: t.Namespace,
		Labels: t.Labels(local.GetLabels()), Annotations: t.Annotations(local.GetAnnotations()),
	}
}

// PatchOf returns the offloading patch of a virtual node, never nil.
func PatchOf(vn *offv1beta1.VirtualNode) *offv1beta1.OffloadingPatch {
	if vn.Spec.OffloadingPatch == nil {
		return &offv1beta1.OffloadingPatch{}
	}
	return vn.Spec.OffloadingPatch
}
