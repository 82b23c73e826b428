// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestAmounts(t *testing.T) {
	for _, test := range []struct {
		name          corev1.ResourceName
		text, refused string
	}{
		{corev1.ResourceCPU, "500m", ""},
		{corev1.ResourceMemory, "1.5Gi", ""},
		{corev1.ResourceMemory, "3Ei", ""},
		{corev1.ResourceEphemeralStorage, "20Pi", ""},
		{corev1.ResourcePods, "0", ""},
		{corev1.ResourcePods, "1.5", "must be a whole number"},
		{corev1.ResourceMemory, "1500m", "must be a whole number"},
		{corev1.ResourceMemory, "0.1Ki", "must be a whole number"},
		{corev1.ResourceMemory, "-1", "negative"},
		{corev1.ResourceMemory, "much", "must be a quantity"},
	} {
		got, err := readAmount(test.name, test.text)
		if (err != nil) != (test.refused != "") || err != nil && !strings.Contains(err.Error(), test.refused) || err == nil && got.String() != test.text && test.text != "1.5Gi" {
			t.Errorf("%s=%s: %s, %v", test.name, test.text, got.String(), err)
		}
	}
}
