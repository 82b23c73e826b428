// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// releaseImage is the image of all processes, an index of one image for each platform.
type releaseImage struct {
	name   string // without tag
	index  v1.ImageIndex
	digest v1.Hash
	// platforms are the images in the index.
	platforms []v1.Image
}

// buildImage has deploy/image write the archive, and opens what is in it.
func buildImage(ctx context.Context, o *options, src *source, work string) (*releaseImage, error) {
	image := &releaseImage{name: o.registry + "/liqo"}
	archive, err := filepath.Abs(filepath.Join(o.output, "liqo-"+o.version+"-image.tar"))
	if err != nil {
		return nil, err
	}
	if _, err := output(ctx, o.root, []string{"SOURCE_DATE_EPOCH=" + strconv.FormatInt(src.date.Unix(), 10)}, "go", "run", "./deploy/image",
		"--index", "--name", image.name, "--version", o.version, "--platform", strings.Join(o.imagePlatforms, ","), "--output", archive); err != nil {
		return nil, fmt.Errorf("building the image: %w", err)
	}
	folder := filepath.Join(work, "image")
	if err := extractTar(archive, folder); err != nil {
		return nil, fmt.Errorf("reading the image: %w", err)
	}
	return image, image.open(folder)
}

// open reads the only index of a layout.
func (i *releaseImage) open(folder string) error {
	top, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		return err
	}
	manifest, err := top.IndexManifest()
	if err != nil {
		return err
	}
	if len(manifest.Manifests) != 1 {
		return fmt.Errorf("the archive has %d images", len(manifest.Manifests))
	}
	i.digest = manifest.Manifests[0].Digest
	if i.index, err = top.ImageIndex(i.digest); err != nil {
		return err
	}
	platforms, err := i.index.IndexManifest()
	if err != nil {
		return err
	}
	for _, platform := range platforms.Manifests {
		image, err := i.index.Image(platform.Digest)
		if err != nil {
			return err
		}
		i.platforms = append(i.platforms, image)
	}
	return nil
}

// imagePrograms returns the Go programs in the image, of each platform.
func imagePrograms(image *releaseImage) ([]program, error) {
	var all []program
	for _, platform := range image.platforms {
		config, err := platform.ConfigFile()
		if err != nil {
			return nil, err
		}
		files := mutate.Extract(platform)
		defer files.Close()
		for reader := tar.NewReader(files); ; {
			header, err := reader.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, err
			}
			if header.Typeflag != tar.TypeReg {
				continue
			}
			data, err := io.ReadAll(reader)
			if err != nil {
				return nil, err
			}
			p, err := readProgram(path.Base(header.Name), config.OS+"/"+config.Architecture, bytes.NewReader(data))
			if err != nil {
				return nil, err
			}
			all = append(all, p)
		}
	}
	return all, nil
}

// extractTar writes the files of an archive into a new folder.
func extractTar(archive, folder string) error {
	file, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := os.Mkdir(folder, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(folder) // no name leads out of it
	if err != nil {
		return err
	}
	defer root.Close()
	for reader := tar.NewReader(file); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if header.Typeflag == tar.TypeDir {
			if err := root.MkdirAll(strings.TrimSuffix(header.Name, "/"), 0o755); err != nil {
				return err
			}
			continue
		}
		to, err := root.Create(header.Name)
		if err != nil {
			return err
		}
		_, err = io.Copy(to, reader)
		if err := errors.Join(err, to.Close()); err != nil {
			return err
		}
	}
}
