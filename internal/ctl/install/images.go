// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"maps"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/engine"

	"liqo.io/liqo/internal/ctl/ui"
)

// ListImages returns the images of an installation, sorted, including the images of gateways and virtual kubelets. It needs no cluster.
func (i *Installer) ListImages(ctx context.Context) ([]string, error) {
	if err := i.checkFlags(ctx); err != nil {
		return nil, err
	}
	values := mergeValues(i.profile, map[string]any{"tag": i.imageTag()}, i.given)
	options := common.ReleaseOptions{Name: Release, Namespace: i.Namespace, Revision: 1, IsInstall: true}
	objects, err := renderObjects(ctx, i.chart, values, options, common.DefaultCapabilities, engine.Engine{})
	if err != nil {
		return nil, err
	}
	images := map[string]bool{}
	for _, obj := range objects {
		collectImages(obj.Object, images)
	}
	return slices.Sorted(maps.Keys(images)), nil
}

// collectImages finds the images of pods, and of the templates from which controllers make pods.
func collectImages(value any, images map[string]bool) {
	switch v := value.(type) {
	case map[string]any:
		for key, item := range v {
			if image, ok := item.(string); ok && image != "" && (key == "image" || key == "containerImage") {
				images[image] = true
			}
			collectImages(item, images)
		}
	case []any:
		for _, item := range v {
			collectImages(item, images)
		}
	}
}

// CopyImages copies images, and a chart from a registry, with their signatures to another registry. It returns the references of the copies.
func (i *Installer) CopyImages(ctx context.Context, images []string, to string) ([]string, error) {
	to = strings.TrimSuffix(to, "/")
	var copies []string
	copyTo := func(reference, folder string) error {
		name, _, _ := strings.Cut(reference, "@")
		name, _, _ = strings.Cut(name[strings.LastIndex(name, "/")+1:], ":")
		step := i.Printer.Spin("Copying " + reference)
		defer step.Stop()
		copied, err := copyArtifact(ctx, reference, to+folder+"/"+name)
		if err != nil {
			return ui.Fail("copying %s to %s: %w", reference, to, err)
		}
		step.Done("%s copied", reference)
		copies = append(copies, copied)
		return nil
	}
	for _, image := range images {
		if err := copyTo(image, ""); err != nil {
			return nil, err
		}
	}
	if i.ChartRef != "" {
		if err := copyTo(strings.TrimPrefix(i.ChartRef, ociScheme), "/charts"); err != nil {
			return nil, err
		}
	}
	return copies, nil
}
