// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/distribution/distribution/v3/configuration"
	"github.com/distribution/distribution/v3/registry/handlers"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/inmemory"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	"github.com/sigstore/cosign/v3/pkg/cosign"
	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdxlib"
)

const (
	repository  = "../.."
	testVersion = "v0.0.0-test.1"
)

// startRegistry starts a registry on a loopback address.
func startRegistry(t *testing.T) (host string) {
	t.Helper()
	config := &configuration.Configuration{Storage: configuration.Storage{"inmemory": nil}}
	config.Log.Level, config.Log.AccessLog.Disabled = "error", true
	server := httptest.NewServer(handlers.NewApp(t.Context(), config))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// copySource returns a folder with the same files and the same commit.
func copySource(t *testing.T) string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "elsewhere")
	runProgram(t, repository, "git", "clone", "--quiet", "--no-checkout", "--shared", ".", folder)
	for file := range strings.SplitSeq(runProgram(t, repository, "git", "ls-files", "--cached", "--others", "--exclude-standard"), "\n") {
		data, err := os.ReadFile(filepath.Join(repository, file))
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted, and not yet committed
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(folder, filepath.Dir(file)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, file), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

func runProgram(t *testing.T, folder, program string, args ...string) string {
	t.Helper()
	out, err := output(t.Context(), folder, nil, program, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestRelease makes a release of one platform twice, pushes it, and verifies it by the tools of others.
func TestRelease(t *testing.T) {
	o := options{
		version: testVersion, registry: startRegistry(t) + "/liqo", downloads: "https://downloads.example.com/liqo",
		builder: "https://ci.example.com", source: "https://git.example.com/liqo", dirty: true, signer: newSigner(t),
		platforms: []string{runtime.GOOS + "/" + runtime.GOARCH}, imagePlatforms: []string{"linux/" + runtime.GOARCH},
	}
	first, second := o, o
	first.root, first.output = repository, filepath.Join(t.TempDir(), "release")
	second.root, second.output = copySource(t), filepath.Join(t.TempDir(), "again")
	for _, o := range []*options{&first, &second} {
		if err := makeRelease(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(folderSums(t, first.output), folderSums(t, second.output)); diff != "" {
		t.Errorf("two releases of the same commit differ:\n%s", diff)
	}
	var pushed strings.Builder
	if err := pushRelease(t.Context(), first.output, &pushed); err != nil {
		t.Fatal(err)
	}
	references := strings.Fields(pushed.String())
	if len(references) != 4 {
		t.Fatalf("pushed are\n%s", &pushed)
	}
	t.Run("signatures", func(t *testing.T) { verifySignatures(t, &first, references) })
	t.Run("files", func(t *testing.T) { verifyFiles(t, &first) })
	t.Run("liqoctl", func(t *testing.T) { verifyClient(t, &first, references) })
}

func folderSums(t *testing.T, folder string) map[string]string {
	t.Helper()
	sums := map[string]string{}
	err := fs.WalkDir(os.DirFS(folder), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(filepath.Join(folder, path))
		sums[path] = hash(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return sums
}

// verifySignatures verifies image and chart in the registry as `cosign verify --key` does.
func verifySignatures(t *testing.T, o *options, references []string) {
	for _, reference := range references {
		ref, err := name.ParseReference(reference)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(reference, ".sig@") {
			continue
		}
		check := checkOptions(t, o.signer)
		check.ClaimVerifier = cosign.SimpleClaimVerifier
		if _, _, err := cosign.VerifyImageSignatures(t.Context(), ref, check); err != nil {
			t.Errorf("%s: %v", reference, err)
		}
		other := checkOptions(t, newSigner(t))
		other.ClaimVerifier = cosign.SimpleClaimVerifier
		if _, _, err := cosign.VerifyImageSignatures(t.Context(), ref, other); err == nil {
			t.Errorf("%s is accepted with another key", reference)
		}
	}
	index, err := remote.Index(must(name.ParseReference(o.registry + "/liqo:" + o.version)))
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	for n, platform := range o.imagePlatforms {
		if got := manifest.Manifests[n].Platform; got == nil || !got.Equals(*must(v1.ParsePlatform(platform))) {
			t.Errorf("platform %d is %v, want %s", n, got, platform)
		}
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func verifyFiles(t *testing.T, o *options) {
	read := func(file string) []byte { return must(os.ReadFile(filepath.Join(o.output, file))) }
	runProgram(t, o.output, "sha256sum", "--check", "--strict", checksumsFile)
	if err := verifyBlob(t, o.signer, read(checksumsFile), string(read(checksumsFile+".sig"))); err != nil {
		t.Errorf("%s: %v", checksumsFile, err)
	}
	sbom, err := spdxjson.Read(strings.NewReader(string(read("liqo-" + o.version + ".spdx.json"))))
	if err != nil {
		t.Fatal(err)
	}
	if err := spdxlib.ValidateDocument(sbom); err != nil {
		t.Errorf("SBOM: %v", err)
	}
	var envelope dsse.Envelope
	if err := json.Unmarshal(read("liqo-"+o.version+".provenance.json"), &envelope); err != nil {
		t.Fatal(err)
	}
	payload, err := envelope.DecodeB64Payload()
	if err != nil {
		t.Fatal(err)
	}
	if err := verifyBlob(t, o.signer, dsse.PAE(envelope.PayloadType, payload), envelope.Signatures[0].Sig); err != nil {
		t.Errorf("provenance: %v", err)
	}
	var subjects []string
	for _, subject := range validateStatement(t, payload).GetSubject() {
		subjects = append(subjects, subject.GetName())
	}
	client := "liqoctl-" + runtime.GOOS + "-" + runtime.GOARCH + ".tar.gz"
	if diff := cmp.Diff([]string{
		notesFile, "liqo-" + strings.TrimPrefix(o.version, "v") + ".tgz", "liqo-" + o.version + "-image.tar", "liqo-" + o.version + ".spdx.json",
		krewManifestFile, client, o.registry + "/liqo", o.registry + "/charts/liqo",
	}, subjects); diff != "" {
		t.Errorf("subjects: -want +got:\n%s", diff)
	}
}

// verifyClient has the liqoctl of the release list and copy the images of its own chart, and of the chart in the registry.
func verifyClient(t *testing.T, o *options, references []string) {
	liqoctl := extractClient(t, o)
	image, chart := references[0], references[1]
	if !strings.HasPrefix(image, o.registry+"/liqo:"+o.version+"@sha256:") {
		t.Fatalf("the image is %s", image)
	}
	own := runProgram(t, t.TempDir(), liqoctl, "images")
	byTag := runProgram(t, t.TempDir(), liqoctl, "images", "--chart", "oci://"+o.registry+"/charts/liqo", "--version", o.version)
	if own != image || byTag != image {
		t.Errorf("the images are %q of its own chart and %q of the registry's, want %q", own, byTag, image)
	}
	mirror := startRegistry(t) + "/mirror"
	_, imageDigest, _ := strings.Cut(image, "@")
	_, chartDigest, _ := strings.Cut(chart, "@")
	copies := runProgram(t, t.TempDir(), liqoctl, "images", "--chart", "oci://"+o.registry+"/charts/liqo@"+chartDigest, "--copy-to", mirror)
	want := mirror + "/liqo:" + o.version + "@" + imageDigest + "\n" + mirror + "/charts/liqo@" + chartDigest
	if diff := cmp.Diff(want, copies); diff != "" {
		t.Fatalf("copies: -want +got:\n%s", diff)
	}
	verifySignatures(t, &options{registry: mirror, version: o.version, imagePlatforms: o.imagePlatforms, signer: o.signer}, strings.Fields(copies))
	fromMirror := runProgram(t, t.TempDir(), liqoctl, "images", "--chart", "oci://"+mirror+"/charts/liqo@"+chartDigest, "--set", "image.name="+mirror+"/liqo")
	if fromMirror != mirror+"/liqo:"+o.version+"@"+imageDigest {
		t.Errorf("the image of the mirror is %s", fromMirror)
	}
	if got := runProgram(t, t.TempDir(), liqoctl, "version", "--client"); got != "Client version: "+o.version {
		t.Errorf("got %q", got)
	}
}

// extractClient returns the path of liqoctl from its archive.
func extractClient(t *testing.T, o *options) string {
	t.Helper()
	file := must(os.Open(filepath.Join(o.output, "liqoctl-"+runtime.GOOS+"-"+runtime.GOARCH+".tar.gz")))
	defer file.Close()
	path := filepath.Join(t.TempDir(), "liqoctl")
	for reader := tar.NewReader(must(gzip.NewReader(file))); ; {
		header, err := reader.Next()
		if err != nil {
			t.Fatal(err)
		}
		if header.Name != "liqoctl" {
			continue
		}
		if err := os.WriteFile(path, must(io.ReadAll(reader)), 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
}
