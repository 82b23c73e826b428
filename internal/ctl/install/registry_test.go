// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	chart "helm.sh/helm/v4/pkg/chart/v2"
)

func TestReferences(t *testing.T) {
	for reference, valid := range map[string]bool{
		"oci://registry.example.com/liqo/charts/liqo": true, "oci://127.0.0.1:5000/liqo:0.2.0": true, "oci://registry.example.com/liqo@sha256:" + "ab": false,
		"registry.example.com/liqo": false, "https://registry.example.com/liqo": false, "oci://liqo": false, "oci://registry.example.com/Liqo": false,
	} {
		if err := CheckChart(reference); (err == nil) != valid {
			t.Errorf("chart %s: %v", reference, err)
		}
	}
	for name, valid := range map[string]bool{
		"mirror.example.com": true, "mirror.example.com/liqo": true, "mirror.example.com/liqo/": true, "127.0.0.1:5000/a/b": true,
		"": false, "a b": false, "mirror.example.com/liqo:v1": false, "https://mirror.example.com": false,
	} {
		if err := CheckRegistry(name); (err == nil) != valid {
			t.Errorf("registry %s: %v", name, err)
		}
	}
}

func TestChartTag(t *testing.T) {
	for version, want := range map[string]string{"v0.2.0": "0.2.0", "0.2.0": "0.2.0", "v1.0.0-rc.1": "1.0.0-rc.1", "v1.0.0+build.1": "1.0.0_build.1"} {
		if got := chartTag(version); got != want {
			t.Errorf("%s: got %s, want %s", version, got, want)
		}
	}
}

func TestImageTag(t *testing.T) {
	named := map[string]any{"image": map[string]any{"digest": "sha256:aa"}}
	for name, tc := range map[string]struct {
		version, appVersion string
		values              map[string]any
		want                string
	}{
		"a release":            {"v1", "v1", named, ""},
		"a release as another": {"v2", "v1", named, "v2"},
		"no digest":            {"v1", "v1", map[string]any{"image": map[string]any{"digest": ""}}, "v1"},
	} {
		i := &Installer{Options: Options{Version: tc.version}, chart: &chart.Chart{Metadata: &chart.Metadata{AppVersion: tc.appVersion}, Values: tc.values}}
		if got := i.imageTag(); got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}

func TestCollectImages(t *testing.T) {
	images := map[string]bool{}
	collectImages(map[string]any{
		"spec":           map[string]any{"containers": []any{map[string]any{"image": "a:v1"}, map[string]any{"image": "b:v1"}, map[string]any{"image": "a:v1"}}},
		"containerImage": "c:v1", "image": map[string]any{"image": ""}, "name": "d:v1",
	}, images)
	if diff := cmp.Diff([]string{"a:v1", "b:v1", "c:v1"}, slices.Sorted(maps.Keys(images))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
