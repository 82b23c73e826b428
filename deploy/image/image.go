// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// bin is the directory of the programs.
const bin = "usr/bin/"

// programs lists the binaries; links lists the names of the original's binaries accepted by the first binary as argv[0].
var (
	programs = []string{"liqo", "virtual-kubelet"}
	links    = []string{"crd-replicator", "fabric", "liqo-controller-manager", "proxy", "uninstaller"}
)

// user is an unprivileged user. Processes that need kernel privileges request them in their pods.
const user = "1000:1000"

func newImage(binaries string, p v1.Platform, version string, created time.Time) (v1.Image, error) {
	content, err := layerContent(binaries, created)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(
		func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil },
		tarball.WithMediaType(types.OCILayer), tarball.WithCompressionLevel(gzip.BestSpeed),
	)
	if err != nil {
		return nil, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.AppendLayers(base, layer)
	if err != nil {
		return nil, err
	}
	return mutate.ConfigFile(image, &v1.ConfigFile{
		OS: p.OS, Architecture: p.Architecture, Variant: p.Variant,
		Created: v1.Time{Time: created},
		RootFS:  v1.RootFS{Type: "layers", DiffIDs: diffIDs(layer)},
		History: []v1.History{{Created: v1.Time{Time: created}, CreatedBy: "liqo.io/liqo/deploy/image"}},
		Config: v1.Config{
			Entrypoint: []string{"/" + bin + programs[0]},
			Env:        []string{"PATH=/usr/bin"},
			User:       user,
			WorkingDir: "/",
			Labels: map[string]string{
				"org.opencontainers.image.title":    "liqo",
				"org.opencontainers.image.version":  version,
				"org.opencontainers.image.licenses": "Apache-2.0",
			},
		},
	})
}

func diffIDs(layer v1.Layer) []v1.Hash {
	id, err := layer.DiffID()
	if err != nil {
		return nil // no error: the layer is in memory
	}
	return []v1.Hash{id}
}

// layerContent returns the file system as a tar: the programs of a folder, the links to the first program, and /tmp. All files have one modification
// time: equal content gives an equal digest.
func layerContent(binaries string, modified time.Time) ([]byte, error) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	headers := []*tar.Header{
		{Typeflag: tar.TypeDir, Name: "tmp/", Mode: 0o1777},
		{Typeflag: tar.TypeDir, Name: "usr/", Mode: 0o755},
		{Typeflag: tar.TypeDir, Name: bin, Mode: 0o755},
	}
	content := map[string][]byte{}
	for _, name := range programs {
		data, err := os.ReadFile(filepath.Join(binaries, name))
		if err != nil {
			return nil, err
		}
		content[bin+name] = data
		headers = append(headers, &tar.Header{Typeflag: tar.TypeReg, Name: bin + name, Mode: 0o755, Size: int64(len(data))})
	}
	for _, name := range links {
		headers = append(headers, &tar.Header{Typeflag: tar.TypeSymlink, Name: bin + name, Linkname: programs[0], Mode: 0o777})
	}
	for _, h := range headers {
		h.ModTime = modified
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(content[h.Name]); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// writeArchive writes an OCI layout as a tar. An annotation sets the name of the image on import.
func writeArchive(o *imageOptions, folder string, images []v1.Image) error {
	path, err := layout.Write(folder, empty.Index)
	if err != nil {
		return err
	}
	reference := o.name + ":" + o.version
	named := layout.WithAnnotations(map[string]string{
		"io.containerd.image.name":          reference,
		"org.opencontainers.image.ref.name": reference,
	})
	if len(images) == 1 && !o.index {
		err = path.AppendImage(images[0], named)
	} else {
		err = path.AppendIndex(indexOf(images), named)
	}
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(o.output), 0o755); err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(o.output), ".image-")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	defer file.Close()
	if err := tarFolder(file, folder, o.created); err != nil {
		return err
	}
	if err := file.Chmod(0o644); err != nil {
		return err
	}
	// Rename is atomic: a process that reads the old archive keeps a complete file.
	return os.Rename(file.Name(), o.output)
}

func indexOf(images []v1.Image) v1.ImageIndex {
	var manifests []mutate.IndexAddendum
	for _, image := range images {
		add := mutate.IndexAddendum{Add: image}
		if config, err := image.ConfigFile(); err == nil {
			add.Platform = config.Platform()
		}
		manifests = append(manifests, add)
	}
	return mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), manifests...)
}

// tarFolder writes the files of a folder, sorted by name.
func tarFolder(to io.Writer, folder string, modified time.Time) error {
	w := tar.NewWriter(to)
	root := os.DirFS(folder)
	err := fs.WalkDir(root, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == "." {
			return err
		}
		header := &tar.Header{Typeflag: tar.TypeDir, Name: path + "/", Mode: 0o755, ModTime: modified}
		var content []byte
		if !d.IsDir() {
			if content, err = fs.ReadFile(root, path); err != nil {
				return err
			}
			header = &tar.Header{Typeflag: tar.TypeReg, Name: path, Mode: 0o644, Size: int64(len(content)), ModTime: modified}
		}
		if err := w.WriteHeader(header); err != nil {
			return err
		}
		_, err = w.Write(content)
		return err
	})
	if err != nil {
		return err
	}
	return w.Close()
}
