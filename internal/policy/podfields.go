// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
)

// PodField is a field of pods introduced, or enabled by default, in a minor version of Kubernetes. Earlier versions drop the field.
type PodField struct {
	// Path begins with spec; [*] stands for the elements of a list.
	Path  string
	Minor int
	// credential is set for fields of projections that pods keep only with the provider's ServiceAccount.
	credential bool
}

// OldestTestedMinor is the minor version of Kubernetes whose fields all supported providers are taken to know.
const OldestTestedMinor = 35

// oldestMinor is the oldest minor version accepted by the chart. Older versions count as oldestMinor.
const oldestMinor = 30

// newestMinor is the latest minor version of newPodFields.
var newestMinor = slices.MaxFunc(newPodFields, func(a, b PodField) int { return cmp.Compare(a.Minor, b.Minor) }).Minor

var newPodFields = listNewPodFields()

// NewPodFields returns the fields after OldestTestedMinor that are copied to the provider; translate.ShadowPod leaves out the
// others. A test of the suite skew compares the table with the API servers.
func NewPodFields() []PodField { return slices.Clone(newPodFields) }

func listNewPodFields() []PodField {
	var out []PodField
	for _, containers := range []string{"initContainers", "containers", "ephemeralContainers"} {
		for _, field := range []string{
			"lifecycle.postStart.httpGet.protocol", "lifecycle.preStop.httpGet.protocol",
			"livenessProbe.grpc.mode", "livenessProbe.httpGet.protocol", "readinessProbe.grpc.mode", "readinessProbe.httpGet.protocol",
			"startupProbe.grpc.mode", "startupProbe.httpGet.protocol", "volumeMounts[*].bindMountOptions",
		} {
			out = append(out, PodField{Path: "spec." + containers + "[*]." + field, Minor: 37})
		}
	}
	for _, field := range []string{
		"emptyDir.mode",
		"configMap.defaultUser", "configMap.items[*].user", "downwardAPI.defaultUser", "downwardAPI.items[*].user",
		"secret.defaultUser", "secret.items[*].user", "projected.defaultUser", "projected.sources[*].configMap.items[*].user",
		"projected.sources[*].downwardAPI.items[*].user", "projected.sources[*].secret.items[*].user",
		"projected.sources[*].clusterTrustBundle", "projected.sources[*].clusterTrustBundle.user",
	} {
		out = append(out, PodField{Path: "spec.volumes[*]." + field, Minor: 37})
	}
	for _, field := range []string{"podCertificate", "podCertificate.user", "serviceAccountToken.user"} {
		out = append(out, PodField{Path: "spec.volumes[*].projected.sources[*]." + field, Minor: 37, credential: true})
	}
	return out
}

// RequiredMinor returns the minor version of Kubernetes with all fields of the pod, and a field that needs this version. minor is 0 for a pod
// without any of NewPodFields.
func RequiredMinor(pod *corev1.Pod) (minor int, field string) {
	spec, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&pod.Spec)
	if err != nil {
		return 0, "" // a typed pod always converts
	}
	object := map[string]any{"spec": spec}
	ownAccount := pod.Annotations[names.APIServerSupport] == names.APIServerSupportRemote
	for _, f := range newPodFields {
		if f.Minor > minor && (ownAccount || !f.credential) && hasPath(object, strings.Split(f.Path, ".")) {
			minor, field = f.Minor, f.Path
		}
	}
	return minor, field
}

func hasPath(value any, path []string) bool {
	if len(path) == 0 {
		return value != nil
	}
	object, ok := value.(map[string]any)
	if !ok {
		return false
	}
	name, isList := strings.CutSuffix(path[0], "[*]")
	child, ok := object[name]
	if !ok {
		return false
	}
	if !isList {
		return hasPath(child, path[1:])
	}
	elements, ok := child.([]any)
	return ok && slices.ContainsFunc(elements, func(element any) bool { return hasPath(element, path[1:]) })
}

// MinorOf returns the minor version in a Node's label names.KubernetesMinor, 0 if unknown.
func MinorOf(labels map[string]string) int {
	minor, err := strconv.Atoi(labels[names.KubernetesMinor])
	if err != nil || minor < 1 || minor > 999 {
		return 0
	}
	return max(minor, oldestMinor)
}

// RequireMinor keeps a new pod of an offloaded namespace off the virtual nodes of providers whose Kubernetes drops a field of the pod. The
// result is a warning for the user, or "". Nodes of an unknown version, and real nodes, are not affected. RequireMinor is idempotent.
func RequireMinor(pod *corev1.Pod, nso *offv1beta1.NamespaceOffloading) (warning string) {
	minor, field := RequiredMinor(pod)
	if minor == 0 || nso.Spec.PodOffloadingStrategy == offv1beta1.LocalPodOffloadingStrategyType || pod.Spec.NodeName != "" || ofDaemonSet(pod) {
		return ""
	}
	var older []string
	for i := oldestMinor; i < minor; i++ {
		older = append(older, strconv.Itoa(i))
	}
	require(&pod.Spec, []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
		{Key: names.KubernetesMinor, Operator: corev1.NodeSelectorOpNotIn, Values: older},
	}}})
	return fmt.Sprintf("%s needs Kubernetes 1.%d: the pod is kept off virtual nodes of clusters with an older version", field, minor)
}

// CheckMinor returns why the provider of a node with these labels cannot run the pod as it is, or "".
func CheckMinor(pod *corev1.Pod, labels map[string]string) string {
	provided := MinorOf(labels)
	if provided == 0 || provided >= newestMinor {
		return "" // without a look at the pod: the virtual kubelet asks at each of its changes
	}
	if minor, field := RequiredMinor(pod); provided < minor {
		return fmt.Sprintf("%s needs Kubernetes 1.%d, and the provider has 1.%d", field, minor, provided)
	}
	return ""
}
