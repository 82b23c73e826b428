// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/liqo/internal/names"
)

// A pod has two identities. The namespace in the downward API, from which applications build DNS names, is the remote namespace,
// unless the pod asks for the local one. The namespace file beside a token is the namespace in the token's API server.

// showsLocalNamespace reports whether the downward API gives a pod its local namespace.
func showsLocalNamespace(pod *corev1.Pod) bool {
	return pod.Annotations[names.DownwardAPINamespace] == names.DownwardAPINamespaceLocal
}

// showNamespace sets the local namespace in the variables and files of a pod if requested by the pod.
func showNamespace(spec *corev1.PodSpec, in Input) {
	if !showsLocalNamespace(in.Pod) {
		return
	}
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			showNamespaceInEnv(list[i].Env, in.Pod.Namespace)
		}
	}
	for _, v := range spec.Volumes {
		switch {
		case v.DownwardAPI != nil:
			localizeFiles(v.DownwardAPI.Items, onlyNamespace)
		case v.Projected != nil && !slices.ContainsFunc(v.Projected.Sources, isToken):
			for _, source := range v.Projected.Sources {
				if source.DownwardAPI != nil {
					localizeFiles(source.DownwardAPI.Items, onlyNamespace)
				}
			}
		}
	}
}

func showNamespaceInEnv(env []corev1.EnvVar, namespace string) {
	for i, e := range env {
		if e.ValueFrom != nil && e.ValueFrom.FieldRef != nil && e.ValueFrom.FieldRef.FieldPath == fieldNamespace {
			env[i] = corev1.EnvVar{Name: e.Name, Value: namespace}
		}
	}
}

const fieldNamespace = "metadata.namespace"

// For files of the downward API the provider's kubelet would read the fields of the remote pod. Therefore the local
// values are sent as annotations, and the file projects the annotation. It is updated like the file of a local pod.
var (
	ofPod = map[string]string{
		"metadata.uid":         names.OffloadingUID,
		"metadata.labels":      names.OffloadingLabels,
		"metadata.annotations": names.OffloadingAnnotations,
	}
	onlyNamespace = map[string]string{fieldNamespace: names.OffloadingNamespace}
	besideToken   = unionOf(ofPod, onlyNamespace)
)

func unionOf(a, b map[string]string) map[string]string {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}

func localizeFiles(items []corev1.DownwardAPIVolumeFile, fields map[string]string) {
	for _, item := range items {
		if item.FieldRef == nil {
			continue
		}
		if annotation, ok := fields[item.FieldRef.FieldPath]; ok {
			item.FieldRef.FieldPath = "metadata.annotations['" + annotation + "']"
		}
	}
}

const (
	// maxAnnotations limits the total size of an object's annotations, and room is the part reserved for the provider.
	maxAnnotations      = 256 << 10
	reservedAnnotations = 16 << 10
	// omittedLine is the key of the line with the number of omitted keys.
	omittedLine = "offloading.liqo.io/omitted"
)

// checkListings adds to annotations the labels and annotations for the pod's files: all of the local pod that may be
// reflected, without our additions. omitted are the keys left out for their size; the file has their number.
func (in Input) checkListings(annotations map[string]string) (omitted []string) {
	shown := listingsOf(in.Pod)
	free := maxAnnotations - reservedAnnotations
	for key, value := range annotations {
		free -= len(key) + len(value)
	}
	add := func(name string, values map[string]string) {
		list, remaining := formatListing(values, free-len(name))
		annotations[name] = list
		free -= len(name) + len(list)
		omitted = append(omitted, remaining...)
	}
	if shown["metadata.labels"] {
		labels := in.Labels(in.Pod.Labels)
		maps.DeleteFunc(labels, func(key, _ string) bool { return in.Marks()[key] != "" })
		add(names.OffloadingLabels, labels)
	}
	if shown["metadata.annotations"] {
		add(names.OffloadingAnnotations, in.Annotations(in.Pod.Annotations))
	}
	return omitted
}

// OmittedInFiles returns the keys of labels and annotations that the pod's files omit in the provider, because they do not fit
// beside the copied annotations.
func (in Input) OmittedInFiles() []string {
	if AccessOf(in.Pod, in.Route) == AccessRemote {
		return nil
	}
	annotations := in.Annotations(in.Pod.Annotations)
	annotations[names.OffloadingNamespace] = in.Pod.Namespace
	return in.checkListings(annotations)
}

// formatListing formats labels and annotations as a kubelet writes them to a file. If the text would be too long, the longest lines are
// omitted, and a last line counts them: a file is never empty, nor is a line truncated.
func formatListing(values map[string]string, limit int) (text string, omitted []string) {
	lines := make(map[string]string, len(values))
	size := 0
	for key, value := range values {
		lines[key] = fmt.Sprintf("%s=%q", key, value)
		size += len(lines[key]) + 1
	}
	longestFirst := slices.SortedFunc(maps.Keys(lines), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(lines[b]), len(lines[a])), cmp.Compare(a, b))
	})
	last := ""
	for _, key := range longestFirst {
		if size-1+len(last) <= limit {
			break
		}
		size -= len(lines[key]) + 1
		delete(lines, key)
		omitted = append(omitted, key)
		last = fmt.Sprintf("%s=%q", omittedLine, strconv.Itoa(len(omitted)))
	}
	sorted := make([]string, 0, len(lines)+1)
	for _, key := range slices.Sorted(maps.Keys(lines)) {
		sorted = append(sorted, lines[key])
	}
	if last != "" {
		sorted = append(sorted, last)
	}
	slices.Sort(omitted)
	return strings.Join(sorted, "\n"), omitted
}

// listingsOf returns the fields projected by the pod's volumes.
func listingsOf(pod *corev1.Pod) map[string]bool {
	out := map[string]bool{}
	add := func(items []corev1.DownwardAPIVolumeFile) {
		for _, item := range items {
			if item.FieldRef != nil {
				out[item.FieldRef.FieldPath] = true
			}
		}
	}
	for _, v := range pod.Spec.Volumes {
		if v.DownwardAPI != nil {
			add(v.DownwardAPI.Items)
		}
		if v.Projected == nil {
			continue
		}
		for _, source := range v.Projected.Sources {
			if source.DownwardAPI != nil {
				add(source.DownwardAPI.Items)
			}
		}
	}
	return out
}
