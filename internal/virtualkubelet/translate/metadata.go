// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/internal/names"
)

// notReflected are the keys that only mean something in this cluster.
var notReflected = []string{
	names.ShadowPod, names.RemoteUnavailable, names.AppliedHash, names.DroppedMetadata, names.ImposedAffinity, names.APIServerRoute, names.RoleTolerations,
	names.ServiceAccountName, names.TokenPodName, names.TokenPodUID, names.TokenExpiration, names.TokenRenewal,
	corev1.LastAppliedConfigAnnotation,
}

// Labels returns the labels of the remote object: the local ones without the filtered, and the marks of this peering.
func (t Target) Labels(local map[string]string) map[string]string {
	var filter []string
	if t.Patch != nil {
		filter = t.Patch.LabelsNotReflected
	}
	out := withoutKeys(local, filter)
	maps.Copy(out, t.Marks())
	return out
}

// Annotations returns the annotations of the remote object: the local ones without the filtered.
func (t Target) Annotations(local map[string]string) map[string]string {
	var filter []string
	if t.Patch != nil {
		filter = t.Patch.AnnotationsNotReflected
	}
	return withoutKeys(local, filter)
}

// Marks returns the labels of all objects that this cluster reflects into the provider.
func (t Target) Marks() map[string]string {
	return map[string]string{
		names.OffloadingOrigin:      string(t.Origin),
		names.OffloadingDestination: string(t.Destination),
	}
}

// Owns reports whether a remote object was reflected by this cluster. Foreign objects are never touched.
func (t Target) Owns(remote metav1.Object) bool {
	labels := remote.GetLabels()
	return labels[names.OffloadingOrigin] == string(t.Origin) && labels[names.OffloadingDestination] == string(t.Destination)
}

// OwnsPod is Owns for pods and ShadowPods, which belong to one virtual node of several to the same provider.
func (t Target) OwnsPod(remote metav1.Object) bool {
	return t.Owns(remote) && remote.GetLabels()[names.OffloadingNodeName] == t.Node
}

func withoutKeys(in map[string]string, filter []string) map[string]string {
	out := make(map[string]string, len(in)+3)
	for k, v := range in {
		if !slices.Contains(notReflected, k) && !slices.Contains(filter, k) {
			out[k] = v
		}
	}
	return out
}

// Meaningless returns, for each annotation of a pod with an invalid value, the valid values. The pod
// is reflected as if the annotation were absent.
func Meaningless(pod *corev1.Pod) []string {
	var out []string
	for _, a := range []struct {
		key    string
		values []string
	}{
		{names.AntiAffinityPreset, []string{presetPropagate, presetSoft, presetHard}},
		{names.APIServerSupport, []string{names.APIServerSupportRemote, names.APIServerSupportDisabled}},
		{names.DownwardAPINamespace, []string{names.DownwardAPINamespaceRemote, names.DownwardAPINamespaceLocal}},
	} {
		if value := pod.Annotations[a.key]; value != "" && !slices.Contains(a.values, value) {
			out = append(out, fmt.Sprintf("the annotation %s is %q, which means nothing: it can be %s", a.key, value, strings.Join(a.values, ", ")))
		}
	}
	if value := pod.Annotations[names.AntiAffinityLabels]; value != "" && len(listedLabels(pod, pod.Labels)) == 0 {
		out = append(out, fmt.Sprintf("the annotation %s is %q, which means nothing: it can be labels of the pod, with commas between them",
			names.AntiAffinityLabels, value))
	}
	return out
}
