// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// artifact is what a registry stores like an image: a manifest with a config of any media type and one layer.
type artifact struct{ v1.Image }

// artifactCore holds the bytes of an artifact; partial makes the rest.
type artifactCore struct {
	manifest, config []byte
	layer            v1.Layer
}

func newArtifact(configType types.MediaType, config []byte, layerType types.MediaType, content []byte, annotations, layerAnnotations map[string]string) (artifact, error) {
	core := &artifactCore{config: config, layer: static.NewLayer(content, layerType)}
	configHash, configSize, err := v1.SHA256(bytes.NewReader(config))
	if err != nil {
		return artifact{}, err
	}
	layer, err := partial.Descriptor(core.layer)
	if err != nil {
		return artifact{}, err
	}
	layer.Annotations = layerAnnotations
	if core.manifest, err = json.Marshal(v1.Manifest{
		SchemaVersion: 2, MediaType: types.OCIManifestSchema1,
		Config:      v1.Descriptor{MediaType: configType, Size: configSize, Digest: configHash},
		Layers:      []v1.Descriptor{*layer},
		Annotations: annotations,
	}); err != nil {
		return artifact{}, fmt.Errorf("encoding a manifest: %w", err)
	}
	image, err := partial.CompressedToImage(core)
	return artifact{image}, err
}

func (a *artifactCore) RawManifest() ([]byte, error)        { return a.manifest, nil }
func (a *artifactCore) RawConfigFile() ([]byte, error)      { return a.config, nil }
func (a *artifactCore) MediaType() (types.MediaType, error) { return types.OCIManifestSchema1, nil }
func (a *artifactCore) LayerByDigest(h v1.Hash) (partial.CompressedLayer, error) {
	if digest, err := a.layer.Digest(); err != nil || digest == h {
		return a.layer, err
	}
	return static.NewLayer(a.config, types.OCIConfigJSON), nil
}
