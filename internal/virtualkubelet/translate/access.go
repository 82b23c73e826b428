// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/liqo/internal/names"
)

// Access is the API server that an offloaded pod may use.
type Access int

const (
	// AccessNone: no API server at all. Without a network between the clusters the consumer's is unreachable, and its
	// tokens must never be sent to the provider's.
	AccessNone Access = iota
	// AccessConsumer: the consumer's, with tokens of the pod's own ServiceAccount.
	AccessConsumer
	// AccessRemote: the provider's, with a ServiceAccount of the provider.
	AccessRemote
)

const (
	rootCAConfigMap = "kube-root-ca.crt"
	defaultAccount  = "default"
)

// AccessOf returns the access of a pod in the provider; route is nil if no path leads to the consumer's API server.
func AccessOf(pod *corev1.Pod, route *APIServerRoute) Access {
	switch support := pod.Annotations[names.APIServerSupport]; {
	case support == names.APIServerSupportRemote:
		return AccessRemote
	case support == names.APIServerSupportDisabled || route == nil:
		return AccessNone
	}
	return AccessConsumer
}

// UsesToken reports whether a pod projects a service account token.
func UsesToken(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return v.Projected != nil && slices.ContainsFunc(v.Projected.Sources, isToken)
	})
}

func isToken(s corev1.VolumeProjection) bool { return s.ServiceAccountToken != nil }

// isCredential includes certificates: they too would be the provider's, for an account that the pod does not know.
func isCredential(s corev1.VolumeProjection) bool { return isToken(s) || s.PodCertificate != nil }

// addTokenAccess sets the ServiceAccount. Unless the ServiceAccount is the provider's, every source is removed that would let the pod send a
// token to the provider's API server.
func addTokenAccess(spec *corev1.PodSpec, in Input) {
	access := AccessOf(in.Pod, in.Route)
	showNamespace(spec, in)
	if access == AccessRemote {
		spec.ServiceAccountName = cmp.Or(in.Pod.Annotations[names.RemoteServiceAccountName], in.Pod.Spec.ServiceAccountName)
		spec.AutomountServiceAccountToken = new(true)
		return
	}
	spec.AutomountServiceAccountToken = new(false)
	if access == AccessConsumer {
		spec.HostAliases = append(in.Route.hostAliases(), spec.HostAliases...)
	}
	for i := range spec.Volumes {
		localizeVolume(&spec.Volumes[i], in)
	}
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			localizeEnv(&list[i], in)
		}
	}
}

// localizeVolume projects tokens from the Secret with the sent tokens, or removes them, and lets the other sources of a volume
// keep this cluster's values.
func localizeVolume(v *corev1.Volume, in Input) {
	if v.ConfigMap != nil {
		in.localizeConfigMap(&v.ConfigMap.LocalObjectReference)
	}
	if v.DownwardAPI != nil {
		localizeFiles(v.DownwardAPI.Items, ofPod)
	}
	if v.Projected == nil {
		return
	}
	fields := ofPod
	if slices.ContainsFunc(v.Projected.Sources, isToken) {
		fields = besideToken
	}
	if AccessOf(in.Pod, in.Route) == AccessConsumer {
		for i, source := range v.Projected.Sources {
			if isToken(source) && in.mayLeave(in.Pod, source.ServiceAccountToken.Audience) {
				v.Projected.Sources[i] = sentProjection(in.Pod, v.Name, source.ServiceAccountToken)
			}
		}
	}
	v.Projected.Sources = slices.DeleteFunc(v.Projected.Sources, isCredential)
	for _, source := range v.Projected.Sources {
		if source.ConfigMap != nil {
			in.localizeConfigMap(&source.ConfigMap.LocalObjectReference)
		}
		if source.DownwardAPI != nil {
			localizeFiles(source.DownwardAPI.Items, fields)
		}
	}
}

func (t Target) localizeConfigMap(ref *corev1.LocalObjectReference) {
	ref.Name = t.ConfigMapName(ref.Name)
}

// ConfigMapName returns the remote name of a ConfigMap. Every remote namespace has the provider's root CA under a fixed name, and
// our root CA needs another name.
func (t Target) ConfigMapName(local string) string {
	if local == rootCAConfigMap {
		return names.RootCA(string(t.Origin))
	}
	return local
}

// LocalConfigMapName is the reverse of ConfigMapName; "" if the name is never reflected.
func (t Target) LocalConfigMapName(remote string) string {
	switch remote {
	case rootCAConfigMap:
		return ""
	case names.RootCA(string(t.Origin)):
		return rootCAConfigMap
	}
	return remote
}

// localizeEnv prepends the address of this cluster's API server to the container's own variables, or none, and replaces downward API
// references by the local values. The address comes first, because $(NAME) in a value refers to an earlier variable, or else to the
// provider's. The container's own variables take precedence, as in this cluster; without ours the remote kubelet would add the
// address of its own API server.
func localizeEnv(c *corev1.Container, in Input) {
	for i := range c.Env {
		localizeVariable(&c.Env[i], in)
	}
	for i := range c.EnvFrom {
		if ref := c.EnvFrom[i].ConfigMapRef; ref != nil {
			in.localizeConfigMap(&ref.LocalObjectReference)
		}
	}
	var route *APIServerRoute
	if AccessOf(in.Pod, in.Route) == AccessConsumer {
		route = in.Route
	}
	c.Env = append(route.envVars(), c.Env...)
}

func localizeVariable(e *corev1.EnvVar, in Input) {
	if e.ValueFrom == nil {
		return
	}
	if ref := e.ValueFrom.ConfigMapKeyRef; ref != nil {
		in.localizeConfigMap(&ref.LocalObjectReference)
	}
	if e.ValueFrom.FieldRef == nil {
		return
	}
	switch e.ValueFrom.FieldRef.FieldPath {
	case "metadata.uid":
		*e = corev1.EnvVar{Name: e.Name, Value: string(in.Pod.UID)}
	case "spec.nodeName":
		*e = corev1.EnvVar{Name: e.Name, Value: in.Node}
	case "spec.serviceAccountName":
		*e = corev1.EnvVar{Name: e.Name, Value: cmp.Or(in.Pod.Spec.ServiceAccountName, defaultAccount)}
	}
}
