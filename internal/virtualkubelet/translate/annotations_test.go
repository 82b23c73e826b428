// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/liqo/internal/names"
)

func TestAnnotationsThatMeanNothingAreNamed(t *testing.T) {
	preset := func(v string) map[string]string { return map[string]string{names.AntiAffinityPreset: v} }
	support := func(v string) map[string]string { return map[string]string{names.APIServerSupport: v} }
	const wrongPreset = `the annotation liqo.io/anti-affinity-preset is "Hard", which means nothing: it can be propagate, soft, hard`
	const wrongSupport = `the annotation liqo.io/api-server-support is "x", which means nothing: it can be remote, disabled`
	for name, tc := range map[string]struct {
		annotations map[string]string
		want        string
	}{
		"none":             {},
		"propagate":        {annotations: preset("propagate")},
		"soft":             {annotations: preset("soft")},
		"hard":             {annotations: preset("hard")},
		"remote":           {annotations: support("remote")},
		"disabled":         {annotations: support("disabled")},
		"an empty one":     {annotations: support("")},
		"another spelling": {annotations: preset("Hard"), want: wrongPreset},
		"anything else":    {annotations: support("x"), want: wrongSupport},
		"local":            {annotations: map[string]string{names.DownwardAPINamespace: "local"}},
		"another place": {
			annotations: map[string]string{names.DownwardAPINamespace: "home"},
			want:        `the annotation liqo.io/downward-api-namespace is "home", which means nothing: it can be remote, local`,
		},
		"what others read": {annotations: map[string]string{"example.com/anti-affinity-preset": "Hard"}},
		"a label of it":    {annotations: map[string]string{names.AntiAffinityLabels: "zone, app"}},
		"no label of it": {
			annotations: map[string]string{names.AntiAffinityLabels: "App"},
			want:        `the annotation liqo.io/anti-affinity-labels is "App", which means nothing: it can be labels of the pod, with commas between them`,
		},
		"two wrong at once": {annotations: map[string]string{names.AntiAffinityPreset: "Hard", names.APIServerSupport: "x"}, want: wrongPreset + "; " + wrongSupport},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: tc.annotations, Labels: map[string]string{"app": "web"}}}
			if got := strings.Join(Meaningless(pod), "; "); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}
