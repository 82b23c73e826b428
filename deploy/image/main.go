// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Command image builds the container image without a container engine: static binaries on scratch, in an OCI archive for `ctr images import` and
// `skopeo copy oci-archive:`. The build is reproducible; SOURCE_DATE_EPOCH is the time of all files.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"sigs.k8s.io/yaml"

	"liqo.io/liqo/deploy"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := buildImage(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

type imageOptions struct {
	name, version, output string
	platforms             []string
	index                 bool
	created               time.Time
}

func buildImage(ctx context.Context, args []string) error {
	o, err := parseFlags(args)
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "liqo-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	var images []v1.Image
	for _, platform := range o.platforms {
		p, err := v1.ParsePlatform(platform)
		if err != nil || p.OS == "" || p.Architecture == "" {
			return fmt.Errorf("platform %q is not written as os/architecture", platform)
		}
		binaries, err := compileBinaries(ctx, work, *p, o.version)
		if err != nil {
			return err
		}
		image, err := newImage(binaries, *p, o.version, o.created)
		if err != nil {
			return fmt.Errorf("making the image for %s: %w", platform, err)
		}
		images = append(images, image)
	}
	if err := writeArchive(o, filepath.Join(work, "layout"), images); err != nil {
		return fmt.Errorf("writing %s: %w", o.output, err)
	}
	fmt.Printf("%s is %s:%s for %s\n", o.output, o.name, o.version, strings.Join(o.platforms, ", "))
	return nil
}

func parseFlags(args []string) (*imageOptions, error) {
	o := &imageOptions{}
	flags := flag.NewFlagSet("image", flag.ExitOnError)
	platforms := flags.String("platform", "linux/"+runtime.GOARCH, "platforms, such as linux/amd64,linux/arm64")
	flags.StringVar(&o.version, "version", "dev", "version of the program and tag of the image")
	flags.StringVar(&o.name, "name", "", "name of the image (the one in the chart's values if empty)")
	flags.BoolVar(&o.index, "index", false, "write an index also of one platform")
	flags.StringVar(&o.output, "output", "dist/liqo.tar", "the archive to write")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	o.platforms = strings.Split(*platforms, ",")
	var err error
	if o.created, err = sourceDate(); err != nil {
		return nil, err
	}
	if o.name == "" {
		if o.name, err = chartImage(); err != nil {
			return nil, err
		}
	}
	return o, nil
}

// sourceDate returns the time of SOURCE_DATE_EPOCH, in seconds, or 1970.
func sourceDate() (time.Time, error) {
	text := cmp.Or(os.Getenv("SOURCE_DATE_EPOCH"), "0")
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH is %q, and no number of seconds", text)
	}
	return time.Unix(seconds, 0).UTC(), nil
}

// chartImage returns the name of the image in the chart.
func chartImage() (string, error) {
	data, err := fs.ReadFile(deploy.Chart(), "values.yaml")
	if err != nil {
		return "", err
	}
	var values struct{ Image struct{ Name string } }
	if err := yaml.Unmarshal(data, &values); err != nil {
		return "", fmt.Errorf("reading the chart's values: %w", err)
	}
	if values.Image.Name == "" {
		return "", fmt.Errorf("the chart's values name no image: give --name")
	}
	return values.Image.Name, nil
}

// compileBinaries builds the static binaries of one platform and returns their folder.
func compileBinaries(ctx context.Context, dir string, p v1.Platform, version string) (string, error) {
	binaries := filepath.Join(dir, p.Architecture+p.Variant)
	if err := os.Mkdir(binaries, 0o755); err != nil {
		return "", err
	}
	args := []string{"build", "-trimpath", "-buildvcs=false",
		"-ldflags", "-s -w -X liqo.io/liqo/internal/app/program.Version=" + version, "-o", binaries}
	for _, name := range programs {
		args = append(args, "liqo.io/liqo/cmd/"+name)
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+p.OS, "GOARCH="+p.Architecture)
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("compiling for %s: %w", p, err)
	}
	return binaries, nil
}
