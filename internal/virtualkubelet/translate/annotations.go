// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"liqo.io/liqo/internal/names"
)

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
