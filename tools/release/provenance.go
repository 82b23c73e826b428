// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Types of the provenance: an in-toto statement, what it says (SLSA), and how a release is built.
const (
	inTotoType    = "application/vnd.in-toto+json"
	statementType = "https://in-toto.io/Statement/v1"
	predicateType = "https://slsa.dev/provenance/v1"
	buildType     = "https://liqo.io/release/v1"
)

// The fields of a statement. Those of the protocol buffers in github.com/in-toto/attestation are the same, but their JSON differs from
// run to run.
type (
	statement struct {
		Type          string     `json:"_type"`
		Subject       []resource `json:"subject"`
		PredicateType string     `json:"predicateType"`
		Predicate     provenance `json:"predicate"`
	}
	resource struct {
		Name   string            `json:"name,omitempty"`
		URI    string            `json:"uri,omitempty"`
		Digest map[string]string `json:"digest,omitempty"`
	}
	provenance struct {
		BuildDefinition buildDefinition `json:"buildDefinition"`
		RunDetails      runDetails      `json:"runDetails"`
	}
	buildDefinition struct {
		BuildType            string         `json:"buildType"`
		ExternalParameters   map[string]any `json:"externalParameters"`
		ResolvedDependencies []resource     `json:"resolvedDependencies"`
	}
	runDetails struct {
		Builder builder `json:"builder"`
	}
	builder struct {
		ID      string            `json:"id"`
		Version map[string]string `json:"version"`
	}
)

// newStatement returns who built the subjects from what. Times of the build are left out: the statement is reproducible as well.
func newStatement(o *options, src *source, subjects []resource) statement {
	repository := resource{URI: "git+" + o.source, Digest: map[string]string{"gitCommit": src.commit}}
	if src.tagged {
		repository.URI += "@refs/tags/" + o.version
	}
	return statement{
		Type: statementType, PredicateType: predicateType, Subject: subjects,
		Predicate: provenance{
			BuildDefinition: buildDefinition{
				BuildType: buildType,
				ExternalParameters: map[string]any{
					"version": o.version, "registry": o.registry, "platforms": o.platforms, "imagePlatforms": o.imagePlatforms,
				},
				ResolvedDependencies: []resource{repository},
			},
			RunDetails: runDetails{Builder: builder{ID: o.builder, Version: map[string]string{"go": strings.TrimPrefix(src.toolchain, "go")}}},
		},
	}
}

func fileSubjects(sums []fileSum) []resource {
	var subjects []resource
	for _, s := range sums {
		subjects = append(subjects, resource{Name: s.name, Digest: map[string]string{"sha256": s.sum}})
	}
	return subjects
}

func registrySubject(name string, digest v1.Hash) resource {
	return resource{Name: name, Digest: map[string]string{digest.Algorithm: digest.Hex}}
}
