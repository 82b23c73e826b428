// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"

	"helm.sh/helm/v4/pkg/chart/loader/archive"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"liqo.io/liqo/internal/ctl/ui"
)

func (i *Installer) loadChart(ctx context.Context) (*chart.Chart, error) {
	if i.ChartRef != "" {
		return i.pullChart(ctx)
	}
	if i.ChartPath != "" {
		c, err := loader.LoadDir(i.ChartPath)
		if err != nil {
			return nil, ui.Fail("--local-chart-path: loading the chart in %s: %w", i.ChartPath, err)
		}
		return c, nil
	}
	c, err := loadChart(i.Chart)
	if err != nil {
		return nil, fmt.Errorf("loading the embedded chart: %w", err)
	}
	return c, nil
}

// loadChart loads a chart from the folder of its Chart.yaml.
func loadChart(folder fs.FS) (*chart.Chart, error) {
	var files []*archive.BufferedFile
	err := fs.WalkDir(folder, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == ".helmignore" {
			return err
		}
		data, err := fs.ReadFile(folder, path)
		files = append(files, &archive.BufferedFile{Name: path, Data: data})
		return err
	})
	if err != nil {
		return nil, err
	}
	return loader.LoadFiles(files)
}

// profileValues returns the values of a profile, a file of the chart.
func profileValues(c *chart.Chart, profile string) (map[string]any, error) {
	name := "values-" + profile + ".yaml"
	for _, file := range c.Files {
		if file.Name != name {
			continue
		}
		values, err := loader.LoadValues(bytes.NewReader(file.Data))
		if err != nil {
			return nil, fmt.Errorf("reading %s of the chart: %w", name, err)
		}
		return values, nil
	}
	return nil, ui.Fail("--profile: the chart has no %s", name)
}

// CRDs returns the CRDs of the chart in a folder.
func CRDs(folder fs.FS) ([]*unstructured.Unstructured, error) {
	c, err := loadChart(folder)
	if err != nil {
		return nil, fmt.Errorf("loading the embedded chart: %w", err)
	}
	return crdsOf(c)
}

// crdsOf returns the CRDs of a chart. The installer applies them itself, because Helm installs CRDs but never upgrades them.
func crdsOf(c *chart.Chart) ([]*unstructured.Unstructured, error) {
	var crds []*unstructured.Unstructured
	for _, file := range c.CRDObjects() {
		crd := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(file.File.Data, &crd.Object); err != nil {
			return nil, fmt.Errorf("reading %s: %w", file.Filename, err)
		}
		if crd.GetKind() != crdKind.Kind {
			return nil, fmt.Errorf("reading %s: %w", file.Filename, errors.New("one CRD is expected in a file"))
		}
		crds = append(crds, crd)
	}
	return crds, nil
}
