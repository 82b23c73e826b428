// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

var created = time.Unix(1700000000, 0).UTC()

func fakeOptions(output string) *imageOptions {
	return &imageOptions{name: "liqo.io/liqo", version: "v1", output: output, created: created}
}

func fakeImages(t *testing.T, architectures ...string) []v1.Image {
	t.Helper()
	binaries := t.TempDir()
	for _, name := range programs {
		if err := os.WriteFile(filepath.Join(binaries, name), []byte("#!"+name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var images []v1.Image
	for _, arch := range architectures {
		image, err := newImage(binaries, v1.Platform{OS: "linux", Architecture: arch}, "v1", created)
		if err != nil {
			t.Fatal(err)
		}
		images = append(images, image)
	}
	return images
}

func TestImageContent(t *testing.T) {
	image := fakeImages(t, "amd64")[0]
	var files []string
	content := tar.NewReader(mutate.Extract(image))
	for {
		h, err := content.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, fmt.Sprintf("%s %o %s", h.Name, h.Mode, h.Linkname))
		if !h.ModTime.Equal(created) {
			t.Errorf("%s is of %v", h.Name, h.ModTime)
		}
	}
	want := []string{
		"tmp 1777 ", "usr 755 ", "usr/bin 755 ", "usr/bin/liqo 755 ", "usr/bin/virtual-kubelet 755 ",
		"usr/bin/crd-replicator 777 liqo", "usr/bin/fabric 777 liqo", "usr/bin/liqo-controller-manager 777 liqo",
		"usr/bin/proxy 777 liqo", "usr/bin/uninstaller 777 liqo",
	}
	if diff := cmp.Diff(want, files); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if !config.Created.Equal(created) || config.Config.User != "1000:1000" || config.Architecture != "amd64" || config.Config.Entrypoint[0] != "/usr/bin/liqo" {
		t.Errorf("config is %+v", config)
	}
}

func TestReproducibleArchive(t *testing.T) {
	var archives [][]byte
	for range 2 {
		dir := t.TempDir()
		output := filepath.Join(dir, "out", "liqo.tar")
		if err := writeArchive(fakeOptions(output), filepath.Join(dir, "layout"), fakeImages(t, "amd64", "arm64")); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(output)
		if err != nil {
			t.Fatal(err)
		}
		archives = append(archives, data)
	}
	if !bytes.Equal(archives[0], archives[1]) {
		t.Error("two builds differ")
	}
}

func TestArchiveImageName(t *testing.T) {
	for what, architectures := range map[string][]string{"one platform": {"amd64"}, "two platforms": {"amd64", "arm64"}} {
		t.Run(what, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "layout")
			if err := writeArchive(fakeOptions(filepath.Join(t.TempDir(), "liqo.tar")), dir, fakeImages(t, architectures...)); err != nil {
				t.Fatal(err)
			}
			index, err := layout.ImageIndexFromPath(dir)
			if err != nil {
				t.Fatal(err)
			}
			if err := validate.Index(index); err != nil {
				t.Error(err)
			}
			manifest, err := index.RawManifest()
			if err != nil {
				t.Fatal(err)
			}
			var top v1.IndexManifest
			if err := json.Unmarshal(manifest, &top); err != nil {
				t.Fatal(err)
			}
			if len(top.Manifests) != 1 || top.Manifests[0].Annotations["io.containerd.image.name"] != "liqo.io/liqo:v1" {
				t.Errorf("index is %s", manifest)
			}
		})
	}
}

func TestImageOfChart(t *testing.T) {
	name, err := chartImage()
	if err != nil || name != "liqo.io/liqo" {
		t.Errorf("got %q: %v", name, err)
	}
}
