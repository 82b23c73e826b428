// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

// Program release makes a release: the image for several platforms, the chart that names the image by digest, liqoctl for
// each platform, checksums, SBOM, provenance, signatures, a krew manifest and release notes. Equal sources give equal bytes.
//
//	release make --version v1.2.3 [flags]    writes the release into a folder
//	release push --from FOLDER               pushes image, chart and signatures of that folder to their registry
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) > 0 {
		switch args[0] {
		case "make":
			o, err := parseMake(args[1:])
			if err != nil {
				return err
			}
			return makeRelease(ctx, o)
		case "push":
			flags := flag.NewFlagSet("release push", flag.ContinueOnError)
			from := flags.String("from", "dist/release", "folder of the release")
			if err := flags.Parse(args[1:]); err != nil {
				return err
			}
			return pushRelease(ctx, *from, os.Stdout)
		}
	}
	return errors.New("usage: release make|push [flags]")
}

// options are what a release depends on, beside the source tree.
type options struct {
	root, output string
	// version is the tag of the release, such as v1.2.3.
	version string
	// registry is the prefix of the image's and the chart's names.
	registry string
	// downloads is the URL of the folder that will serve the files.
	downloads string
	// builder and source identify the builder and the repository in the provenance.
	builder, source string
	// platforms are those of liqoctl.
	platforms, imagePlatforms []string
	// dirty accepts a source tree with uncommitted changes.
	dirty bool
	// signer is nil without a key.
	signer *signer
}

func parseMake(args []string) (*options, error) {
	o := &options{}
	flags := flag.NewFlagSet("release make", flag.ContinueOnError)
	flags.StringVar(&o.root, "root", ".", "root of the repository")
	flags.StringVar(&o.output, "output", "dist/release", "folder to write, which is emptied")
	flags.StringVar(&o.version, "version", "", "tag of the release, such as v1.2.3")
	flags.StringVar(&o.registry, "registry", "liqo.io", "prefix of the names of image and chart, such as registry.example.com/liqo")
	flags.StringVar(&o.downloads, "downloads", "https://downloads.example.com/liqo", "URL under which a folder with the version's name will serve the files")
	flags.StringVar(&o.builder, "builder", "https://liqo.io/release/local", "URI of the builder in the provenance")
	flags.StringVar(&o.source, "source", "https://liqo.io/liqo", "URI of the repository in the provenance")
	platforms := flags.String("platforms", "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64,windows/arm64", "platforms of liqoctl")
	imagePlatforms := flags.String("image-platforms", "linux/amd64,linux/arm64", "platforms of the image")
	flags.BoolVar(&o.dirty, "dirty", false, "accept uncommitted changes")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if err := checkVersion(o.version); err != nil {
		return nil, err
	}
	o.platforms, o.imagePlatforms = strings.Split(*platforms, ","), strings.Split(*imagePlatforms, ",")
	o.registry, o.downloads = strings.TrimSuffix(o.registry, "/"), strings.TrimSuffix(o.downloads, "/")
	var err error
	o.signer, err = loadSigner(os.Getenv("COSIGN_PRIVATE_KEY"), os.Getenv("COSIGN_PASSWORD"))
	return o, err
}
