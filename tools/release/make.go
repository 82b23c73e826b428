// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Names of files in the folder of a release.
const (
	layoutFolder     = "oci"
	checksumsFile    = "SHA256SUMS"
	notesFile        = "NOTES.md"
	krewManifestFile = "liqo.yaml"
	publicKeyFile    = "cosign.pub"
)

// makeRelease runs the steps of a release, in an order in which each step needs only those before.
func makeRelease(ctx context.Context, o *options) error {
	src, err := readSource(ctx, o)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(o.output); err != nil {
		return err
	}
	if err := os.MkdirAll(o.output, 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "liqo-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)

	image, err := buildImage(ctx, o, src, work)
	if err != nil {
		return err
	}
	fmt.Printf("%s@%s is compiled\n", image.name, image.digest)
	chart, err := packChart(o, src, image.digest.String())
	if err != nil {
		return err
	}
	if err := writeFile(o, chart.archiveName(), chart.archive); err != nil {
		return err
	}
	if err := writeLayout(o, src, image, chart); err != nil {
		return fmt.Errorf("writing the OCI layout: %w", err)
	}
	clients, err := buildClients(ctx, o, src, chart, work)
	if err != nil {
		return err
	}
	manifest, err := krewManifest(o.version, o.downloads, clients)
	if err != nil {
		return err
	}
	if err := writeFile(o, krewManifestFile, manifest); err != nil {
		return err
	}
	notes, err := releaseNotes(src.changelog, o.version, src.tagged)
	if err != nil {
		return err
	}
	if err := writeFile(o, notesFile, []byte(notes)); err != nil {
		return err
	}
	programs, err := imagePrograms(image)
	if err != nil {
		return err
	}
	for _, client := range clients {
		programs = append(programs, client.program)
	}
	if err := writeJSON(o, "liqo-"+o.version+".spdx.json", newSBOM(o.version, src.commit, src.date, programs)); err != nil {
		return err
	}
	if err := writeProvenance(o, src, image, chart); err != nil {
		return err
	}
	if err := writeChecksums(o); err != nil {
		return err
	}
	report(o, image, chart)
	return nil
}

func writeFile(o *options, name string, content []byte) error {
	return os.WriteFile(filepath.Join(o.output, name), content, 0o644)
}

func writeJSON(o *options, name string, content any) error {
	data, err := json.MarshalIndent(content, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding %s: %w", name, err)
	}
	return writeFile(o, name, append(data, '\n'))
}

// writeProvenance writes the statement and, with a key, its signed envelope. The statement has digests of all files there are.
func writeProvenance(o *options, src *source, image *releaseImage, chart *releaseChart) error {
	sums, err := hashFiles(o.output)
	if err != nil {
		return err
	}
	subjects := append(fileSubjects(sums), registrySubject(image.name, image.digest), registrySubject(chart.name, chart.digest))
	statement, err := json.Marshal(newStatement(o, src, subjects))
	if err != nil {
		return fmt.Errorf("encoding the provenance: %w", err)
	}
	name := "liqo-" + o.version + ".provenance.json"
	if o.signer == nil {
		return writeFile(o, name, append(statement, '\n'))
	}
	envelope, err := o.signer.envelope(inTotoType, statement)
	if err != nil {
		return fmt.Errorf("signing the provenance: %w", err)
	}
	return writeJSON(o, name, envelope)
}

// writeChecksums writes SHA256SUMS and, with a key, its signature and the public key.
func writeChecksums(o *options) error {
	if o.signer != nil {
		if err := writeFile(o, publicKeyFile, o.signer.public); err != nil {
			return err
		}
	}
	sums, err := hashFiles(o.output)
	if err != nil {
		return err
	}
	text := []byte(checksums(sums))
	if err := writeFile(o, checksumsFile, text); err != nil {
		return err
	}
	if o.signer == nil {
		return nil
	}
	signature, err := o.signer.sign(text)
	if err != nil {
		return fmt.Errorf("signing the checksums: %w", err)
	}
	return writeFile(o, checksumsFile+".sig", []byte(signature))
}

func report(o *options, image *releaseImage, chart *releaseChart) {
	signed := "signed"
	if o.signer == nil {
		signed = "NOT SIGNED: COSIGN_PRIVATE_KEY is not set"
	}
	fmt.Printf("%s has %s, %s:\n  %s@%s for %s\n  %s@%s\n", o.output, o.version, signed,
		image.name, image.digest, strings.Join(o.imagePlatforms, ", "), chart.name, chart.digest)
}
