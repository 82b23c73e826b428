// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// References are the names of the ConfigMaps and Secrets that a pod cannot do without or would use if they were there,
// sorted, each once.
func References(spec *corev1.PodSpec) (configMaps, secrets []string) {
	var r references
	for _, ref := range spec.ImagePullSecrets {
		r.secret(ref.Name)
	}
	for i := range spec.Volumes {
		r.volume(&spec.Volumes[i].VolumeSource)
	}
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			r.environment(containers[i].EnvFrom, containers[i].Env)
		}
	}
	for i := range spec.EphemeralContainers {
		r.environment(spec.EphemeralContainers[i].EnvFrom, spec.EphemeralContainers[i].Env)
	}
	return once(r.configMaps), once(r.secrets)
}

func once(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}

type references struct{ configMaps, secrets []string }

func (r *references) configMap(name string) {
	if name != "" {
		r.configMaps = append(r.configMaps, name)
	}
}

func (r *references) secret(name string) {
	if name != "" {
		r.secrets = append(r.secrets, name)
	}
}

func (r *references) local(ref *corev1.LocalObjectReference) {
	if ref != nil {
		r.secret(ref.Name)
	}
}

func (r *references) environment(from []corev1.EnvFromSource, vars []corev1.EnvVar) {
	for _, source := range from {
		if source.ConfigMapRef != nil {
			r.configMap(source.ConfigMapRef.Name)
		}
		if source.SecretRef != nil {
			r.secret(source.SecretRef.Name)
		}
	}
	for _, v := range vars {
		switch {
		case v.ValueFrom == nil:
		case v.ValueFrom.ConfigMapKeyRef != nil:
			r.configMap(v.ValueFrom.ConfigMapKeyRef.Name)
		case v.ValueFrom.SecretKeyRef != nil:
			r.secret(v.ValueFrom.SecretKeyRef.Name)
		}
	}
}

// volume looks at each source that can name a ConfigMap or a Secret of the pod's namespace.
func (r *references) volume(v *corev1.VolumeSource) {
	switch {
	case v.ConfigMap != nil:
		r.configMap(v.ConfigMap.Name)
	case v.Secret != nil:
		r.secret(v.Secret.SecretName)
	case v.Projected != nil:
		for _, source := range v.Projected.Sources {
			if source.ConfigMap != nil {
				r.configMap(source.ConfigMap.Name)
			}
			if source.Secret != nil {
				r.secret(source.Secret.Name)
			}
		}
	case v.CSI != nil:
		r.local(v.CSI.NodePublishSecretRef)
	case v.AzureFile != nil:
		r.secret(v.AzureFile.SecretName)
	case v.CephFS != nil:
		r.local(v.CephFS.SecretRef)
	case v.Cinder != nil:
		r.local(v.Cinder.SecretRef)
	case v.FlexVolume != nil:
		r.local(v.FlexVolume.SecretRef)
	case v.ISCSI != nil:
		r.local(v.ISCSI.SecretRef)
	case v.RBD != nil:
		r.local(v.RBD.SecretRef)
	case v.ScaleIO != nil:
		r.local(v.ScaleIO.SecretRef)
	case v.StorageOS != nil:
		r.local(v.StorageOS.SecretRef)
	}
}
