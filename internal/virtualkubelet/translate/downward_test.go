// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"liqo.io/liqo/internal/names"
)

// showing adds a file of the downward API with a field to a pod.
func showing(pod *corev1.Pod, fields ...string) *corev1.Pod {
	for _, field := range fields {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: field, VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{
			Items: []corev1.DownwardAPIVolumeFile{{Path: "f", FieldRef: &corev1.ObjectFieldSelector{FieldPath: field}}},
		}}})
	}
	return pod
}

func TestFilesOfManyAnnotations(t *testing.T) {
	long := func(kib int) string { return strings.Repeat("x", kib<<10) }
	for name, test := range map[string]struct {
		annotations map[string]string
		omitted     []string
		want        string // the end of the file
	}{
		"none":                  {nil, nil, ""},
		"few":                   {map[string]string{"a": "1", "b": "2"}, nil, "a=\"1\"\nb=\"2\""},
		"over_64_KiB":           {map[string]string{"a": "1", "b": long(70)}, nil, long(70) + `"`},
		"one_that_has_no_place": {map[string]string{"a": "1", "b": long(150), "c": long(2)}, []string{"b"}, long(2) + "\"\noffloading.liqo.io/omitted=\"1\""},
		"none_has_a_place":      {map[string]string{"b": long(150)}, []string{"b"}, `offloading.liqo.io/omitted="1"`},
		"hardly_any_room":       {map[string]string{"a": long(120), "b": long(119)}, []string{"a", "b"}, `offloading.liqo.io/omitted="2"`},
	} {
		t.Run(name, func(t *testing.T) {
			in := Input{Target: target, Pod: showing(ordinary(), "metadata.annotations")}
			in.Pod.Annotations = test.annotations
			got := ShadowPod(in).Annotations[names.OffloadingAnnotations]
			if !strings.HasSuffix(got, test.want) || (got == "") != (test.want == "") {
				t.Errorf("the file has %d bytes and ends with %q", len(got), got[max(0, len(got)-100):])
			}
			if diff := cmp.Diff(test.omitted, in.OmittedInFiles()); diff != "" {
				t.Errorf("omitted (-want +got):\n%s", diff)
			}
		})
	}
}

// A pod that Kubernetes takes here is no pod that it refuses there, and no file that a pod shows is empty unless there is nothing to show.
func TestFilesOfAnyAnnotations(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := Input{Target: target, Pod: showing(ordinary(), "metadata.annotations", "metadata.labels"), Route: byTunnel}
		in.Pod.Annotations = map[string]string{}
		for i, size := range rapid.SliceOfN(rapid.IntRange(0, 60<<10), 0, 4).Draw(t, "sizes") {
			in.Pod.Annotations[fmt.Sprint("a", i)] = strings.Repeat(rapid.SampledFrom([]string{"x", `"`, "\n"}).Draw(t, "letter"), size)
		}
		created := ShadowPod(in)
		size := 0
		for key, value := range created.Annotations {
			size += len(key) + len(value)
		}
		if size > maxAnnotations {
			t.Fatalf("the annotations have %d bytes", size)
		}
		if got := created.Annotations[names.OffloadingAnnotations]; (got == "") != (len(in.Pod.Annotations) == 0) {
			t.Fatalf("the file has %d bytes of %d annotations", len(got), len(in.Pod.Annotations))
		}
		if got := created.Annotations[names.OffloadingLabels]; !strings.Contains(got, "app=") {
			t.Fatalf("labels are lost: %q", got)
		}
	})
}
