// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// refName is the annotation of a layout's index that names a manifest. Here it is the whole reference.
const refName = "org.opencontainers.image.ref.name"

// writeLayout writes image, chart and, with a key, their signatures, each under the name by which it is pushed.
func writeLayout(o *options, src *source, image *releaseImage, chart *releaseChart) error {
	path, err := layout.Write(filepath.Join(o.output, layoutFolder), empty.Index)
	if err != nil {
		return err
	}
	if err := path.AppendIndex(image.index, called(image.name+":"+o.version)); err != nil {
		return err
	}
	if err := path.AppendImage(chart.artifact, called(chart.name+":"+chart.version)); err != nil {
		return err
	}
	if o.signer == nil {
		return nil
	}
	for _, signed := range []struct {
		name   string
		digest v1.Hash
	}{{image.name, image.digest}, {chart.name, chart.digest}} {
		signature, err := o.signer.signManifest(signed.name, signed.digest, src.date)
		if err != nil {
			return fmt.Errorf("signing %s: %w", signed.name, err)
		}
		if err := path.AppendImage(signature, called(signed.name+":"+signatureTag(signed.digest))); err != nil {
			return err
		}
	}
	return nil
}

func called(reference string) layout.Option {
	return layout.WithAnnotations(map[string]string{refName: reference})
}

// pushRelease pushes what the layout of a release holds, with the credentials of docker. Loopback addresses are reached by HTTP.
func pushRelease(ctx context.Context, folder string, out io.Writer) error {
	index, err := layout.ImageIndexFromPath(filepath.Join(folder, layoutFolder))
	if err != nil {
		return fmt.Errorf("reading the release in %s: %w", folder, err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return err
	}
	options := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)}
	for _, m := range manifest.Manifests {
		reference, err := name.ParseReference(m.Annotations[refName])
		if err != nil {
			return err
		}
		if err := pushManifest(index, m, reference, options); err != nil {
			return fmt.Errorf("pushing %s: %w", reference, err)
		}
		fmt.Fprintf(out, "%s@%s\n", reference, m.Digest)
	}
	return nil
}

func pushManifest(index v1.ImageIndex, m v1.Descriptor, to name.Reference, options []remote.Option) error {
	if m.MediaType.IsIndex() {
		images, err := index.ImageIndex(m.Digest)
		if err != nil {
			return err
		}
		return remote.WriteIndex(to, images, options...)
	}
	image, err := index.Image(m.Digest)
	if err != nil {
		return err
	}
	return remote.Write(to, image, options...)
}
