// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// References returns the names of the ConfigMaps and Secrets that a pod requires, or uses if they exist,
// sorted, without duplicates.
func References(spec *corev1.PodSpec) (configMaps, secrets []string) {
	var r podReferences
	for _, ref := range spec.ImagePullSecrets {
		r.addSecret(ref.Name)
	}
	for i := range spec.Volumes {
		r.addVolume(&spec.Volumes[i].VolumeSource)
	}
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			r.addEnvironment(containers[i].EnvFrom, containers[i].Env)
		}
	}
	for i := range spec.EphemeralContainers {
		r.addEnvironment(spec.EphemeralContainers[i].EnvFrom, spec.EphemeralContainers[i].Env)
	}
	return uniqueNames(r.configMaps), uniqueNames(r.secrets)
}

func uniqueNames(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}

type podReferences struct{ configMaps, secrets []string }

func (r *podReferences) configMap(name string) {
	if name != "" {
		r.configMaps = append(r.configMaps, name)
	}
}

func (r *podReferences) addSecret(name string) {
	if name != "" {
		r.secrets = append(r.secrets, name)
	}
}

func (r *podReferences) addLocal(ref *corev1.LocalObjectReference) {
	if ref != nil {
		r.addSecret(ref.Name)
	}
}

func (r *podReferences) addEnvironment(from []corev1.EnvFromSource, vars []corev1.EnvVar) {
	for _, source := range from {
		if source.ConfigMapRef != nil {
			r.configMap(source.ConfigMapRef.Name)
		}
		if source.SecretRef != nil {
			r.addSecret(source.SecretRef.Name)
		}
	}
	for _, v := range vars {
		switch {
		case v.ValueFrom == nil:
		case v.ValueFrom.ConfigMapKeyRef != nil:
			r.configMap(v.ValueFrom.ConfigMapKeyRef.Name)
		case v.ValueFrom.SecretKeyRef != nil:
			r.addSecret(v.ValueFrom.SecretKeyRef.Name)
		}
	}
}

// addVolume adds each source that can name a ConfigMap or a Secret of the pod's namespace.
func (r *podReferences) addVolume(v *corev1.VolumeSource) {
	switch {
	case v.ConfigMap != nil:
		r.configMap(v.ConfigMap.Name)
	case v.Secret != nil:
		r.addSecret(v.Secret.SecretName)
	case v.Projected != nil:
		for _, source := range v.Projected.Sources {
			if source.ConfigMap != nil {
				r.configMap(source.ConfigMap.Name)
			}
			if source.Secret != nil {
				r.addSecret(source.Secret.Name)
			}
		}
	case v.CSI != nil:
		r.addLocal(v.CSI.NodePublishSecretRef)
	case v.AzureFile != nil:
		r.addSecret(v.AzureFile.SecretName)
	case v.CephFS != nil:
		r.addLocal(v.CephFS.SecretRef)
	case v.Cinder != nil:
		r.addLocal(v.Cinder.SecretRef)
	case v.FlexVolume != nil:
		r.addLocal(v.FlexVolume.SecretRef)
	case v.ISCSI != nil:
		r.addLocal(v.ISCSI.SecretRef)
	case v.RBD != nil:
		r.addLocal(v.RBD.SecretRef)
	case v.ScaleIO != nil:
		r.addLocal(v.ScaleIO.SecretRef)
	case v.StorageOS != nil:
		r.addLocal(v.StorageOS.SecretRef)
	}
}
