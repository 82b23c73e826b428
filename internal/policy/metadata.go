// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"slices"
	"strings"

	"liqo.io/liqo/internal/names"
)

// partOf is the label by which installations find their own pods.
const partOf = "app.kubernetes.io/part-of"

// Programs of the provider read the metadata written by consumers on their objects. This is the only rule about consumer metadata:
// for pods and EndpointSlices created by the provider on request, and for objects written by consumers themselves.

// KeepsLabel reports whether an object of a consumer may have a label. Labels of Liqo define the role of an object, and
// monitors and gateways are found by these labels: a consumer may have only the labels of its own objects. dropped are further
// patterns of keys.
func KeepsLabel(key, value string, dropped []string) bool {
	switch {
	case key == partOf && value == names.ManagedByLiqo, key == names.OffloadingComponent:
		return false
	case key == names.CreatorUser:
		return true
	case isOfLiqo(key):
		domain, _, _ := strings.Cut(key, "/")
		return domain == offloadingDomain || domain == testNetworkDomain
	}
	return !matchesAny(dropped, key)
}

// KeepsAnnotation reports whether an object of a consumer may have an annotation. Annotations of Liqo are permitted: no program
// in the provider acts on those of pods.
func KeepsAnnotation(key string, dropped []string) bool {
	return isOfLiqo(key) || !matchesAny(dropped, key)
}

const (
	liqoDomain       = "liqo.io"
	offloadingDomain = "offloading.liqo.io"
	// testNetworkDomain is the domain of the labels by which the Services of `liqoctl test network` find their pods.
	testNetworkDomain = "test-network.liqo.io"
)

func isOfLiqo(key string) bool {
	domain, _, ok := strings.Cut(key, "/")
	return ok && (domain == liqoDomain || strings.HasSuffix(domain, "."+liqoDomain))
}

func matchesAny(patterns []string, s string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool { return matches(pattern, s) })
}
