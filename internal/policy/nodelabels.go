// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	offv1beta1 "liqo.io/liqo/api/offloading/v1beta1"
	"liqo.io/liqo/internal/names"
)

// defaultNodeLabels is the default list of labels that a consumer copies from a provider: labels for location and kind of
// the provider, and all labels without a prefix. Labels with a prefix belong to the programs that act on them (clouds,
// autoscalers, network plugins), and a provider must not control the consumer's programs.
var defaultNodeLabels = []string{
	"*",
	"liqo.io/provider",
	corev1.LabelTopologyRegion,
	corev1.LabelTopologyZone,
	corev1.LabelInstanceTypeStable,
	corev1.LabelArchStable,
	corev1.LabelOSStable,
}

// fixedNodeLabels are set by Liqo and define the kind of a node: no list can offer them.
var fixedNodeLabels = []string{
	names.NodeType, names.RemoteClusterID, names.StorageAvailable, corev1.LabelHostname, "type", "kubernetes.io/role", names.KubernetesMinor,
}

// meaningfulDomains are the domains of labels that control controllers, schedulers and load balancers.
var meaningfulDomains = []string{"kubernetes.io", "k8s.io", "liqo.io"}

// OfferedNodeLabels returns the labels of a provider that its virtual node may have. An entry of allow is a key, or a prefix of
// keys with a final *. A bare * means every key without a prefix, and */* every key with a prefix outside the domains of
// Kubernetes and Liqo. A nil allow means defaultNodeLabels. The version of Kubernetes is always offered.
func OfferedNodeLabels(labels map[string]string, allow []string) map[string]string {
	if allow == nil {
		allow = defaultNodeLabels
	}
	out := map[string]string{}
	for key, value := range labels {
		if allowedNodeLabel(key, allow) && validLabel(key, value) {
			out[key] = value
		}
	}
	if minor := MinorOf(labels); minor != 0 {
		out[names.KubernetesMinor] = strconv.Itoa(minor)
	}
	return out
}

func allowedNodeLabel(key string, allow []string) bool {
	if slices.Contains(fixedNodeLabels, key) {
		return false
	}
	return slices.ContainsFunc(allow, func(pattern string) bool {
		switch domain, _, prefixed := strings.Cut(key, "/"); pattern {
		case "*":
			return !prefixed
		case "*/*":
			return prefixed && !meaningful(domain)
		}
		return matches(pattern, key)
	})
}

func meaningful(domain string) bool {
	return slices.ContainsFunc(meaningfulDomains, func(d string) bool { return domain == d || strings.HasSuffix(domain, "."+d) })
}

func validLabel(key, value string) bool {
	return len(validation.IsQualifiedName(key)) == 0 && len(validation.IsValidLabelValue(value)) == 0
}

// StorageAvailable returns the value of the label names.StorageAvailable of a virtual node.
func StorageAvailable(vn *offv1beta1.VirtualNode) string {
	return strconv.FormatBool(len(vn.Spec.StorageClasses) > 0)
}

const (
	maxDeclaredFeatures    = 64 // as in the CRDs
	maxDeclaredFeatureName = 128
)

// featureName is the form that the API server demands of declared features.
var featureName = regexp.MustCompile(`^[A-Z][a-zA-Z0-9]*(/[a-zA-Z][a-zA-Z0-9]*)*$`)

// kubeletFeatures describe how the API server reaches a kubelet. Those of the provider's kubelets say nothing about the virtual
// kubelet.
var kubeletFeatures = []string{"ExtendWebSocketsToKubelet"}

// DeclaredFeatures returns the features that a virtual node may declare, sorted as the API server demands. For one invalid name, the
// API server would reject the whole status of the Node.
func DeclaredFeatures(features []string) []string {
	var out []string
	for _, name := range slices.Compact(slices.Sorted(slices.Values(features))) {
		if len(name) <= maxDeclaredFeatureName && featureName.MatchString(name) && !slices.Contains(kubeletFeatures, name) && len(out) < maxDeclaredFeatures {
			out = append(out, name)
		}
	}
	return out
}
