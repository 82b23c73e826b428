// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package ctl

import (
	"encoding/base64"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	helmregistry "helm.sh/helm/v4/pkg/registry"

	"liqo.io/liqo/deploy"
	"liqo.io/liqo/internal/testkit"
)

// pushChart pushes the chart as a release has it, v9.9.9 with the digest of an image, in the way of `helm push`. It returns the reference without
// tag, and the digest.
func pushChart(t *testing.T, imageDigest string) (reference, digest string) {
	t.Helper()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	folder := filepath.Join(t.TempDir(), "liqo")
	if err := os.CopyFS(folder, deploy.Chart()); err != nil {
		t.Fatal(err)
	}
	for file, lines := range map[string]*strings.Replacer{
		"Chart.yaml":  strings.NewReplacer("version: 0.1.0", "version: 9.9.9", "appVersion: v0.1.0", "appVersion: v9.9.9"),
		"values.yaml": strings.NewReplacer("  name: liqo.io/liqo\n", "  name: registry.example.com/liqo\n", `digest: ""`, "digest: "+imageDigest),
	} {
		data, err := os.ReadFile(filepath.Join(folder, file))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, file), []byte(lines.Replace(string(data))), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := loader.LoadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	path, err := chartutil.Save(c, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	archive, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	client, err := helmregistry.NewClient(helmregistry.ClientOptPlainHTTP(), helmregistry.ClientOptWriter(io.Discard))
	if err != nil {
		t.Fatal(err)
	}
	reference = strings.TrimPrefix(server.URL, "http://") + "/charts/liqo"
	pushed, err := client.Push(archive, reference+":9.9.9")
	if err != nil {
		t.Fatal(err)
	}
	return "oci://" + reference, pushed.Manifest.Digest
}

func TestInstallFromRegistry(t *testing.T) {
	c := testkit.Cluster(t)
	awaitVacant(t, c)
	imageDigest := "sha256:" + strings.Repeat("a", 64)
	chart, chartDigest := pushChart(t, imageDigest)
	const image = "registry.example.com/liqo"
	for name, tc := range map[string]struct {
		flags []string
		want  string
	}{
		"by digest":            {[]string{"--chart", chart + "@" + chartDigest}, image + ":v9.9.9@" + imageDigest},
		"by tag":               {[]string{"--chart", chart + ":9.9.9"}, image + ":v9.9.9@" + imageDigest},
		"by version":           {[]string{"--chart", chart, "--version", "v9.9.9"}, image + ":v9.9.9@" + imageDigest},
		"a mirror":             {[]string{"--chart", chart + ":9.9.9", "--set", "image.name=mirror.example.com/liqo"}, "mirror.example.com/liqo:v9.9.9@" + imageDigest},
		"another image":        {[]string{"--chart", chart + ":9.9.9", "--version", "v9.9.10"}, image + ":v9.9.10"},
		"another tag":          {[]string{"--chart", chart + ":9.9.9", "--set", "tag=v1"}, image + ":v1"},
		"the profile of it":    {[]string{"--chart", chart + ":9.9.9", "--profile", "hardened"}, image + ":v9.9.9@" + imageDigest},
		"the chart in liqoctl": {[]string{"--version", "v9.9.9"}, "liqo.io/liqo:v9.9.9"},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			r := liqoctl(t, c.Config, append(installArgs("--dry-run", "-o", "yaml"), tc.flags...)...)
			r.succeeds(t)
			found := 0
			for line := range strings.Lines(r.stdout) {
				key, value, _ := strings.Cut(strings.TrimLeft(line, " -"), ": ")
				if (key == "image" || key == "containerImage") && strings.TrimSpace(value) != tc.want {
					t.Errorf("%s, want %s", strings.TrimSpace(line), tc.want)
				} else if key == "image" {
					found++
				}
			}
			if found < 5 {
				t.Errorf("%d images", found)
			}
			listed := liqoctl(t, nil, append([]string{"images"}, tc.flags...)...)
			if listed.succeeds(t); listed.stdout != tc.want+"\n" {
				t.Errorf("images prints %q, want %q", listed.stdout, tc.want)
			}
		})
	}
	for name, tc := range map[string]struct {
		flags []string
		want  string
	}{
		"no such tag":    {[]string{"--chart", chart, "--version", "v9.9.8"}, "--chart: pulling " + chart + ":9.9.8: "},
		"another digest": {[]string{"--chart", chart + "@sha256:" + strings.Repeat("b", 64)}, "--chart: pulling " + chart + "@sha256:bbb"},
		"two charts":     {[]string{"--chart", chart, "--local-chart-path", "."}, "--chart and --local-chart-path exclude each other"},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			liqoctl(t, c.Config, append(installArgs("--dry-run"), tc.flags...)...).refuses(t, tc.want)
		})
	}
}

func TestRegistryCredentials(t *testing.T) {
	imageDigest := "sha256:" + strings.Repeat("a", 64)
	chart, _ := pushChart(t, imageDigest)
	host, path, _ := strings.Cut(strings.TrimPrefix(chart, "oci://"), "/")
	open := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: host})
	closed := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "rome" || password != "secret" {
			w.Header().Set("WWW-Authenticate", `Basic realm="charts"`)
			http.Error(w, "unauthorized", http.StatusUnauthorized)
			return
		}
		open.ServeHTTP(w, r)
	}))
	t.Cleanup(closed.Close)
	registryHost := strings.TrimPrefix(closed.URL, "http://")
	config := t.TempDir()
	t.Setenv("DOCKER_CONFIG", config)
	line := []string{"images", "--chart", "oci://" + registryHost + "/" + path + ":9.9.9"}
	liqoctl(t, nil, line...).refuses(t, "basic credential not found", "docker login "+registryHost+" stores them")
	auths := `{"auths":{"` + registryHost + `":{"auth":"` + base64.StdEncoding.EncodeToString([]byte("rome:secret")) + `"}}}`
	if err := os.WriteFile(filepath.Join(config, "config.json"), []byte(auths), 0o600); err != nil {
		t.Fatal(err)
	}
	liqoctl(t, nil, line...).succeeds(t, "registry.example.com/liqo:v9.9.9@"+imageDigest+"\n")
}
