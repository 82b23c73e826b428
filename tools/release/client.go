// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// maxClientSize is what a stripped liqoctl may have, in bytes.
const maxClientSize = 60_000_000

// clientArchive is liqoctl for one platform.
type clientArchive struct {
	os, arch, executable string
	name, sum            string // of the archive
	program              program
}

// buildClients compiles liqoctl for all platforms, with the chart of the release in it, and packs it with its documentation.
func buildClients(ctx context.Context, o *options, src *source, chart *releaseChart, work string) ([]clientArchive, error) {
	overlay, err := writeOverlay(o, src, chart, work)
	if err != nil {
		return nil, err
	}
	common, err := clientDocs(ctx, o, overlay, work)
	if err != nil {
		return nil, err
	}
	var clients []clientArchive
	for _, platform := range o.platforms {
		c, err := newClient(platform)
		if err != nil {
			return nil, err
		}
		path, err := compileClient(ctx, o, c, overlay, work)
		if err != nil {
			return nil, err
		}
		binary, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		if len(binary) > maxClientSize {
			return nil, fmt.Errorf("liqoctl for %s has %d bytes, more than %d", platform, len(binary), maxClientSize)
		}
		if c.program, err = readProgram(c.executable, platform, bytes.NewReader(binary)); err != nil {
			return nil, err
		}
		archive, err := c.pack(append([]archiveFile{{c.executable, binary, 0o755}}, common...), src.date)
		if err != nil {
			return nil, err
		}
		c.sum = hash(archive)
		if err := writeFile(o, c.name, archive); err != nil {
			return nil, err
		}
		fmt.Printf("%s has liqoctl of %.1f MB\n", c.name, float64(len(binary))/1e6)
		clients = append(clients, *c)
	}
	return clients, nil
}

// compileClient returns the path of liqoctl for a platform. Without inlining outside of the standard library it is 5 MB smaller and no slower:
// most of it are types and clients of the API, whose functions a command calls a few times. Their alignment on amd64 would be another MB.
func compileClient(ctx context.Context, o *options, c *clientArchive, overlay, work string) (string, error) {
	path := filepath.Join(work, c.os+"-"+c.arch, c.executable)
	if _, err := output(ctx, o.root, []string{"CGO_ENABLED=0", "GOOS=" + c.os, "GOARCH=" + c.arch}, "go", "build", "-trimpath", "-buildvcs=false",
		"-overlay", overlay, "-o", path, "-gcflags=all=-l", "-gcflags=std=",
		"-ldflags", "-s -w -funcalign=16 -X liqo.io/liqo/internal/app/program.Version="+o.version+" -X liqo.io/liqo/internal/ctl/cluster.Version="+o.version,
		"./cmd/liqoctl"); err != nil {
		return "", fmt.Errorf("compiling liqoctl for %s/%s: %w", c.os, c.arch, err)
	}
	return path, nil
}

// newClient returns the names for a platform. Those of the archives are the original's.
func newClient(platform string) (*clientArchive, error) {
	c := &clientArchive{executable: "liqoctl"}
	var ok bool
	if c.os, c.arch, ok = strings.Cut(platform, "/"); !ok || c.os == "" || c.arch == "" {
		return nil, fmt.Errorf("platform %q is not written as os/architecture", platform)
	}
	c.name = "liqoctl-" + c.os + "-" + c.arch + ".tar.gz"
	if c.os == "windows" {
		c.executable, c.name = "liqoctl.exe", "liqoctl-windows-"+c.arch+".zip"
	}
	return c, nil
}

func (c *clientArchive) pack(files []archiveFile, date time.Time) ([]byte, error) {
	if strings.HasSuffix(c.name, ".zip") {
		return zipFiles(files, date)
	}
	return tarGzip(files, date)
}

func zipFiles(files []archiveFile, date time.Time) ([]byte, error) {
	var archive bytes.Buffer
	w := zip.NewWriter(&archive)
	for _, f := range files {
		header := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: date}
		header.SetMode(os.FileMode(f.mode))
		to, err := w.CreateHeader(header)
		if err != nil {
			return nil, err
		}
		if _, err := to.Write(f.content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return archive.Bytes(), nil
}

// embedding is deploy/embed.go of a release, with the chart in an archive: as files it would be half a megabyte larger.
const embedding = `package deploy

import (
	"archive/zip"
	"bytes"
	_ "embed"
	"io/fs"
)

//go:embed chart.zip
var archive []byte

// Chart returns the root of the chart.
func Chart() fs.FS {
	chart, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		panic(err) // the archive is embedded above
	}
	return chart
}
`

// writeOverlay has the compiler embed the release's chart instead of the one in the source tree.
func writeOverlay(o *options, src *source, chart *releaseChart, work string) (string, error) {
	root, err := filepath.Abs(o.root)
	if err != nil {
		return "", err
	}
	archive, err := zipFiles(chart.files, src.date)
	if err != nil {
		return "", fmt.Errorf("packing the chart for liqoctl: %w", err)
	}
	replace := map[string]string{}
	for name, content := range map[string][]byte{"embed.go": []byte(embedding), "chart.zip": archive} {
		path := filepath.Join(work, "overlay-"+name)
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return "", err
		}
		replace[filepath.Join(root, "deploy", name)] = path
	}
	data, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(work, "overlay.json")
	return path, os.WriteFile(path, data, 0o644)
}

// clientDocs returns what every archive has beside the program: license, completion scripts and man pages. The program writes them, compiled
// for this machine.
func clientDocs(ctx context.Context, o *options, overlay, work string) ([]archiveFile, error) {
	license, err := os.ReadFile(filepath.Join(o.root, "LICENSE"))
	if err != nil {
		return nil, err
	}
	files := []archiveFile{{"LICENSE", license, 0o644}}
	own, err := newClient(runtime.GOOS + "/" + runtime.GOARCH)
	if err != nil {
		return nil, err
	}
	liqoctl, err := compileClient(ctx, o, own, overlay, work)
	if err != nil {
		return nil, err
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		script, err := output(ctx, work, nil, liqoctl, "completion", shell)
		if err != nil {
			return nil, err
		}
		files = append(files, archiveFile{"completions/liqoctl." + shell, []byte(script + "\n"), 0o644})
	}
	pages := filepath.Join(work, "man")
	if _, err := output(ctx, work, nil, liqoctl, "docs", "--type", "man", "--dir", pages); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(pages)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		page, err := os.ReadFile(filepath.Join(pages, entry.Name()))
		if err != nil {
			return nil, err
		}
		files = append(files, archiveFile{"man/man1/" + entry.Name(), page, 0o644})
	}
	return files, nil
}
