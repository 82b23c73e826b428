// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"bytes"
	"flag"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/loader/archive"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// values are a tree of chart values.
type values = map[string]any

func loadChart(t testing.TB) *chart.Chart {
	t.Helper()
	var buffered []*archive.BufferedFile
	err := fs.WalkDir(Chart(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(Chart(), name)
		buffered = append(buffered, &archive.BufferedFile{Name: name, Data: data})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	c, err := loader.LoadFiles(buffered)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// release is what Helm makes of the chart and some values.
type release struct {
	objects []*unstructured.Unstructured
	text    string // of all objects
	notes   string
}

// render renders as `helm install liqo -n liqo-system` does. client answers look-ups; nil finds nothing.
func render(t testing.TB, c *chart.Chart, v values, client engine.ClientProvider) (*release, error) {
	t.Helper()
	return renderIn(t, "liqo-system", c, v, client)
}

// renderIn is render in another namespace.
func renderIn(t testing.TB, namespace string, c *chart.Chart, v values, client engine.ClientProvider) (*release, error) {
	t.Helper()
	return renderFor(t, common.DefaultCapabilities, namespace, c, v, client)
}

// renderFor is renderIn for a cluster with other kinds.
func renderFor(t testing.TB, cluster *common.Capabilities, namespace string, c *chart.Chart, v values, client engine.ClientProvider) (*release, error) {
	t.Helper()
	full, err := util.ToRenderValues(c, v, common.ReleaseOptions{Name: "liqo", Namespace: namespace, IsInstall: true}, cluster)
	if err != nil {
		return nil, err
	}
	var files map[string]string
	if client == nil {
		files, err = engine.Render(c, full)
	} else {
		files, err = engine.RenderWithClientProvider(c, full, client)
	}
	if err != nil {
		return nil, err
	}
	out := &release{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		switch path.Ext(name) {
		case ".txt":
			out.notes = files[name]
		case ".yaml":
			out.text += files[name]
			for doc := range strings.SplitSeq(files[name], "\n---\n") {
				obj := &unstructured.Unstructured{}
				if err := yaml.UnmarshalStrict([]byte(doc), &obj.Object); err != nil {
					t.Fatalf("%s: %v\n%s", name, err, doc)
				}
				if len(obj.Object) > 0 {
					out.objects = append(out.objects, obj)
				}
			}
		}
	}
	return out, nil
}

func mustRender(t testing.TB, v values) *release {
	t.Helper()
	r, err := render(t, loadChart(t), v, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// tree makes values of one path and its value.
func tree(path string, value any) values {
	head, rest, more := strings.Cut(path, ".")
	if !more {
		return values{head: value}
	}
	return values{head: tree(rest, value)}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s differs (-update rewrites it):\n%s", file, diff)
	}
}

func isRBAC(obj *unstructured.Unstructured) bool {
	return strings.HasPrefix(obj.GetAPIVersion(), "rbac.authorization.k8s.io/")
}

func TestDefaultInstallation(t *testing.T) {
	var text bytes.Buffer
	for _, obj := range mustRender(t, tree("discovery.config.clusterID", "rome")).objects {
		if isRBAC(obj) { // roles have a table of their own
			continue
		}
		data, err := yaml.Marshal(obj.Object)
		if err != nil {
			t.Fatal(err)
		}
		text.WriteString("---\n")
		text.Write(data)
	}
	golden(t, "default.yaml", text.Bytes())
}

func TestChartLabels(t *testing.T) {
	for _, obj := range mustRender(t, everything(t)).objects {
		labels := obj.GetLabels()
		for _, key := range []string{"name", "instance", "component", "part-of", "version", "managed-by"} {
			if labels["app.kubernetes.io/"+key] == "" {
				t.Errorf("%s %s has no label app.kubernetes.io/%s", obj.GetKind(), obj.GetName(), key)
			}
		}
		if part := labels["app.kubernetes.io/part-of"]; part != "liqo" { // whatever its name begins with: liqoctl uninstall looks for it
			t.Errorf("%s %s is said to be part of %q", obj.GetKind(), obj.GetName(), part)
		}
		if labels["helm.sh/chart"] == "" {
			t.Errorf("%s %s has no label helm.sh/chart", obj.GetKind(), obj.GetName())
		}
	}
}

func TestForeignImage(t *testing.T) {
	for _, key := range []string{
		"controllerManager.image.name", "webhook.image.name", "crdReplicator.image.name", "metricAgent.image.name",
		"metricAgent.initContainer.image.name", "telemetry.image.name", "uninstaller.image.name", "proxy.image.name",
		"ipam.internal.image.name", "networking.fabric.image.name", "virtualKubelet.image.name",
		"networking.gatewayTemplates.container.wireguard.image.name", "liqo-crds.crdUpgrade.image.name", "image.name",
	} {
		t.Run(key, func(t *testing.T) {
			_, err := render(t, loadChart(t), tree(key, "ghcr.io/liqotech/whatever"), nil)
			if err == nil || !strings.Contains(err.Error(), `the image "ghcr.io/liqotech/whatever" belongs to another distribution of Liqo`) {
				t.Errorf("error = %v", err)
			}
		})
	}
}

func TestForeignImageMirrors(t *testing.T) {
	c := loadChart(t)
	for image, owned := range map[string]bool{
		"harbor.example/liqo/liqo":                    true,
		"harbor.example/liqo/liqo/v1":                 true,
		"harbor.example:5000/liqo":                    true,
		"liqo/liqo":                                   true,
		"harbor.example/liqo/our-proxy":               true,
		"harbor.example/liqo.io/proxy":                true,
		"harbor.example/cloud/proxy":                  true,
		"harbor.example/liqo/ipam":                    false,
		"harbor.example/liqo/fabric":                  false,
		"harbor.example/liqo/proxy":                   false,
		"harbor.example/liqo/gateway":                 false,
		"harbor.example/liqo/gateway/wireguard":       false,
		"harbor.example/liqo/webhook@sha256":          false,
		"harbor.example/liqo/liqo-controller-manager": false,
		"liqo/virtual-kubelet":                        false,
		"liqo/crd-replicator:v1":                      false,
		"harbor.example/ghcr/liqotech/uninstaller":    false,
		"docker.io/liqotech":                          false,
	} {
		_, err := render(t, c, tree("image.name", image), nil)
		if refused := err != nil && strings.Contains(err.Error(), "belongs to another distribution"); refused == owned || owned && err != nil {
			t.Errorf("%s: %v", image, err)
		}
	}
}

// Peers compare the label: it is of what runs.
func TestChartVersion(t *testing.T) {
	for want, v := range map[string]values{
		"v0.1.0":                            {},
		"v2":                                {"tag": "v2"},
		"v3":                                {"tag": "v2", "image": values{"version": "v3"}},
		"sha256_" + strings.Repeat("a", 56): {"image": values{"version": "sha256:" + strings.Repeat("a", 64)}},
		"nightly_1":                         {"tag": "_nightly+1-"},
	} {
		for _, obj := range mustRender(t, v).objects {
			if got, ok := obj.GetLabels()["app.kubernetes.io/version"]; ok && got != want {
				t.Fatalf("%s %s: the version is %q, want %q", obj.GetKind(), obj.GetName(), got, want)
			}
		}
	}
}

func TestImage(t *testing.T) {
	digest := "sha256:" + strings.Repeat("a", 64)
	for name, tc := range map[string]struct {
		values values
		want   string
	}{
		"the appVersion of the chart": {values: values{}, want: "liqo.io/liqo:v0.1.0"},
		"the tag":                     {values: tree("tag", "v2"), want: "liqo.io/liqo:v2"},
		"one image of one's own":      {values: values{"tag": "v2", "image": values{"name": "mirror.local/liqo", "version": "v3"}}, want: "mirror.local/liqo:v3"},
		"one component's image":       {values: tree("controllerManager.image", values{"name": "a/b", "version": "c"}), want: "a/b:c"},
		"a digest":                    {values: tree("image.version", "sha256:abc"), want: "liqo.io/liqo@sha256:abc"},
		"a release":                   {values: tree("image.digest", digest), want: "liqo.io/liqo:v0.1.0@" + digest},
		"a mirror of a release":       {values: values{"image": values{"name": "mirror.local/liqo", "digest": digest}}, want: "mirror.local/liqo:v0.1.0@" + digest},
		"the tag over the digest":     {values: values{"tag": "v2", "image": values{"digest": digest}}, want: "liqo.io/liqo:v2"},
		"one component without it":    {values: values{"image": values{"digest": digest}, "controllerManager": values{"image": values{"name": "a/b"}}}, want: "a/b:v0.1.0"},
		"a mirror that mirrors paths": {values: tree("image.name", "mirror.local/liqo.io/liqo"), want: "mirror.local/liqo.io/liqo:v0.1.0"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, obj := range mustRender(t, tc.values).objects {
				if obj.GetKind() != "Deployment" || obj.GetName() != "liqo-controller-manager" {
					continue
				}
				containers, _, err := unstructured.NestedSlice(obj.Object, "spec", "template", "spec", "containers")
				if err != nil {
					t.Fatal(err)
				}
				if got := containers[0].(values)["image"]; got != tc.want {
					t.Errorf("image = %v, want %s", got, tc.want)
				}
			}
		})
	}
}
