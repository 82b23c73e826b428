// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package thirdparty

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"runtime"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// WriteImage writes the image archive of a reference, whose only file is the built program, as /bin/NAME.
func (b Builder) WriteImage(path, reference string, p Program) error {
	tag, err := name.NewTag(reference)
	if err != nil {
		return err
	}
	program, err := os.ReadFile(b.Binary(p))
	if err != nil {
		return fmt.Errorf("reading the program of %s: %w", reference, err)
	}
	var content bytes.Buffer
	file := "bin/" + p.Name
	files := tar.NewWriter(&content)
	for _, header := range []*tar.Header{{Name: "bin/", Typeflag: tar.TypeDir, Mode: 0o755}, {Name: file, Mode: 0o755, Size: int64(len(program))}} {
		if err := files.WriteHeader(header); err != nil {
			return err
		}
	}
	if _, err := files.Write(program); err != nil {
		return err
	}
	if err := files.Close(); err != nil {
		return err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content.Bytes())), nil })
	if err != nil {
		return err
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", runtime.GOARCH
	config.Config = v1.Config{Entrypoint: []string{"/" + file}}
	if image, err = mutate.ConfigFile(image, config); err != nil {
		return err
	}
	if err := tarball.WriteToFile(path, tag, image); err != nil {
		return fmt.Errorf("writing the image of %s: %w", reference, err)
	}
	return nil
}
