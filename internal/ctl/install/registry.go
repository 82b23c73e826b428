// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"
	"oras.land/oras-go/v2/registry/remote/retry"

	"liqo.io/liqo/internal/ctl/ui"
)

const (
	ociScheme      = "oci://"
	chartLayerType = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
)

// openRepository returns the repository of a reference, and the tag or digest in the reference. The credentials are docker's. As in docker, a
// registry on a loopback address is reached by HTTP.
func openRepository(reference string) (*remote.Repository, string, error) {
	repository, err := remote.NewRepository(reference)
	if err != nil {
		return nil, "", err
	}
	store, err := credentials.NewStoreFromDocker(credentials.StoreOptions{})
	if err != nil {
		return nil, "", fmt.Errorf("reading the credentials of docker: %w", err)
	}
	repository.Client = &auth.Client{Client: retry.DefaultClient, Cache: auth.NewCache(), Credential: credentials.Credential(store)}
	host, _, _ := strings.Cut(repository.Reference.Registry, ":")
	address, err := netip.ParseAddr(host)
	repository.PlainHTTP = host == "localhost" || err == nil && address.IsLoopback()
	return repository, repository.Reference.Reference, nil
}

// CheckChart rejects all but the reference of a chart in a registry.
func CheckChart(reference string) error {
	name, isOCI := strings.CutPrefix(reference, ociScheme)
	if !isOCI {
		return fmt.Errorf("invalid reference %q: must begin with %s; --local-chart-path takes a folder", reference, ociScheme)
	}
	_, err := registry.ParseReference(name)
	return err
}

// CheckRegistry rejects all but the name of a registry or of a folder in a registry.
func CheckRegistry(name string) error {
	_, err := registry.ParseReference(strings.TrimSuffix(name, "/") + "/" + Release)
	return err
}

// pullChart pulls the chart of --chart. Without a tag or digest in the reference, --version names the version of the chart and of the image.
func (i *Installer) pullChart(ctx context.Context) (*chart.Chart, error) {
	repository, tag, err := openRepository(strings.TrimPrefix(i.ChartRef, ociScheme))
	if err != nil {
		return nil, ui.Fail("--chart: %w", err)
	}
	named := tag != ""
	if !named {
		tag = chartTag(i.Version)
		i.ChartRef += ":" + tag
	}
	archive, err := fetchChart(ctx, repository, tag)
	if errors.Is(err, auth.ErrBasicCredentialNotFound) {
		return nil, ui.Fail("--chart: pulling %s: %w", i.ChartRef, err).
			Hint("The registry needs credentials: docker login %s stores them where liqoctl finds them", repository.Reference.Registry)
	}
	if err != nil {
		return nil, ui.Fail("--chart: pulling %s: %w", i.ChartRef, err)
	}
	c, err := loader.LoadArchive(bytes.NewReader(archive))
	if err != nil {
		return nil, ui.Fail("--chart: loading %s: %w", i.ChartRef, err)
	}
	if c.Metadata.AppVersion != "" && (!named || !i.versionGiven) {
		i.Version = c.Metadata.AppVersion
	}
	return c, nil
}

// chartTag returns the tag of a chart: a semantic version without v.
func chartTag(version string) string {
	return strings.ReplaceAll(strings.TrimPrefix(version, "v"), "+", "_")
}

// fetchChart returns the archive of a chart by the tag or the digest of its manifest.
func fetchChart(ctx context.Context, repository *remote.Repository, reference string) ([]byte, error) {
	manifest, err := repository.Resolve(ctx, reference)
	if err != nil {
		return nil, err
	}
	parts, err := content.Successors(ctx, repository, manifest)
	if err != nil {
		return nil, err
	}
	for _, part := range parts {
		if part.MediaType == chartLayerType {
			return content.FetchAll(ctx, repository, part)
		}
	}
	return nil, errors.New("it is no Helm chart")
}

// copyArtifact copies an image of all its platforms, or a chart, into a repository, with the signature if there is one. It returns the reference of
// the copy, with the digest.
func copyArtifact(ctx context.Context, reference, repository string) (string, error) {
	from, source, err := openRepository(reference)
	if err != nil {
		return "", err
	}
	to, _, err := openRepository(repository)
	if err != nil {
		return "", err
	}
	name, _, _ := strings.Cut(reference, "@")
	_, tag, tagged := strings.Cut(name[strings.LastIndex(name, "/")+1:], ":")
	if tagged {
		repository += ":" + tag
	} else {
		tag = source
	}
	root, err := oras.Copy(ctx, from, source, to, tag, oras.DefaultCopyOptions)
	if err != nil {
		return "", err
	}
	// The tag of cosign's signature of a manifest.
	signature := fmt.Sprintf("%s-%s.sig", root.Digest.Algorithm(), root.Digest.Encoded())
	if _, err := oras.Copy(ctx, from, signature, to, signature, oras.DefaultCopyOptions); err != nil && !errors.Is(err, errdef.ErrNotFound) {
		return "", fmt.Errorf("copying its signature: %w", err)
	}
	return repository + "@" + root.Digest.String(), nil
}
