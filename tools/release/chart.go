// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"sigs.k8s.io/yaml"
)

// Media types of a Helm chart in a registry.
const (
	chartConfigType types.MediaType = "application/vnd.cncf.helm.config.v1+json"
	chartLayerType  types.MediaType = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
)

// releaseChart is the chart, which names the release's image by digest.
type releaseChart struct {
	name    string // in the registry, without tag
	version string // without the v, as Helm wants tags of charts
	// files are those of the chart, by their paths in it.
	files   []archiveFile
	archive []byte
	artifact
	digest v1.Hash
}

func (c *releaseChart) archiveName() string { return "liqo-" + c.version + ".tgz" }

func packChart(o *options, src *source, imageDigest string) (*releaseChart, error) {
	c := &releaseChart{name: o.registry + "/charts/liqo", version: strings.TrimPrefix(o.version, "v")}
	folder := os.DirFS(filepath.Join(o.root, "deploy", "chart"))
	metadata, err := fs.ReadFile(folder, "Chart.yaml")
	if err != nil {
		return nil, err
	}
	values, err := fs.ReadFile(folder, "values.yaml")
	if err != nil {
		return nil, err
	}
	changed := map[string][]byte{} // files that differ from those of the source tree, by their path in the chart
	if changed["Chart.yaml"], err = setFields(metadata, field{"^version: .*$", "version: " + c.version}, field{"^appVersion: .*$", "appVersion: " + o.version}); err != nil {
		return nil, fmt.Errorf("setting the version of the chart: %w", err)
	}
	if changed["values.yaml"], err = setFields(values, field{`^image:\n  name: .*$`, "image:\n  name: " + o.registry + "/liqo"},
		field{`^  digest: ""$`, "  digest: " + imageDigest}); err != nil {
		return nil, fmt.Errorf("setting the image in the values of the chart: %w", err)
	}
	if c.files, err = readFolder(folder, changed); err != nil {
		return nil, fmt.Errorf("reading the chart: %w", err)
	}
	var packed []archiveFile
	for _, f := range c.files {
		packed = append(packed, archiveFile{name: "liqo/" + f.name, content: f.content, mode: f.mode})
	}
	if c.archive, err = tarGzip(packed, src.date); err != nil {
		return nil, fmt.Errorf("packing the chart: %w", err)
	}
	if c.artifact, err = chartArtifact(changed["Chart.yaml"], c.archive, src); err != nil {
		return nil, err
	}
	c.digest, err = c.artifact.Digest()
	return c, err
}

// field is a line of a file, and what takes its place.
type field struct{ pattern, line string }

// setFields replaces lines, each of which occurs once.
func setFields(text []byte, fields ...field) ([]byte, error) {
	for _, f := range fields {
		pattern := regexp.MustCompile("(?m)" + f.pattern)
		if n := len(pattern.FindAllIndex(text, -1)); n != 1 {
			return nil, fmt.Errorf("%d lines match %q, and one should", n, f.pattern)
		}
		text = pattern.ReplaceAllLiteral(text, []byte(f.line))
	}
	return text, nil
}

// readFolder returns the files of a folder, some of which have other content.
func readFolder(folder fs.FS, changed map[string][]byte) (files []archiveFile, err error) {
	err = fs.WalkDir(folder, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == ".helmignore" {
			return err
		}
		content, ok := changed[path]
		if !ok {
			if content, err = fs.ReadFile(folder, path); err != nil {
				return err
			}
		}
		files = append(files, archiveFile{name: path, content: content, mode: 0o644})
		return nil
	})
	return files, err
}

// archiveFile is a file of an archive.
type archiveFile struct {
	name    string
	content []byte
	mode    int64
}

func tarGzip(files []archiveFile, date time.Time) ([]byte, error) {
	var archive bytes.Buffer
	compressed, err := gzip.NewWriterLevel(&archive, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	w := tar.NewWriter(compressed)
	for _, f := range files {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: f.mode, Size: int64(len(f.content)), ModTime: date}); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	if err := compressed.Close(); err != nil {
		return nil, err
	}
	return archive.Bytes(), nil
}

// chartArtifact returns the chart as `helm push` would store it.
func chartArtifact(metadata, archive []byte, src *source) (artifact, error) {
	config, err := yaml.YAMLToJSON(metadata)
	if err != nil {
		return artifact{}, fmt.Errorf("reading Chart.yaml: %w", err)
	}
	var chart struct{ Name, Version, Description string }
	if err := json.Unmarshal(config, &chart); err != nil {
		return artifact{}, fmt.Errorf("reading Chart.yaml: %w", err)
	}
	return newArtifact(chartConfigType, config, chartLayerType, archive, map[string]string{
		"org.opencontainers.image.title":       chart.Name,
		"org.opencontainers.image.version":     chart.Version,
		"org.opencontainers.image.description": chart.Description,
		"org.opencontainers.image.created":     src.date.Format(time.RFC3339),
		"org.opencontainers.image.revision":    src.commit,
	}, nil)
}
