// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"sigs.k8s.io/yaml"
)

// Types of a krew manifest, as far as ours uses them. Those of krew itself come with clients of a Kubernetes of years ago.
type (
	krewPlugin struct {
		APIVersion string   `json:"apiVersion"`
		Kind       string   `json:"kind"`
		Metadata   krewMeta `json:"metadata"`
		Spec       krewSpec `json:"spec"`
	}
	krewMeta struct {
		Name string `json:"name"`
	}
	krewSpec struct {
		Version          string         `json:"version"`
		Homepage         string         `json:"homepage"`
		ShortDescription string         `json:"shortDescription"`
		Description      string         `json:"description"`
		Platforms        []krewPlatform `json:"platforms"`
	}
	krewPlatform struct {
		Selector krewSelector `json:"selector"`
		URI      string       `json:"uri"`
		SHA256   string       `json:"sha256"`
		Bin      string       `json:"bin"`
		Files    []krewFile   `json:"files"`
	}
	krewSelector struct {
		MatchLabels map[string]string `json:"matchLabels"`
	}
	krewFile struct {
		From string `json:"from"`
		To   string `json:"to"`
	}
)

// krewManifest returns the manifest by which krew installs liqoctl as `kubectl liqo`.
func krewManifest(version, downloads string, clients []clientArchive) ([]byte, error) {
	plugin := krewPlugin{
		APIVersion: "krew.googlecontainertools.github.com/v1alpha2", Kind: "Plugin", Metadata: krewMeta{"liqo"},
		Spec: krewSpec{
			Version: version, Homepage: "https://liqo.io/liqo", ShortDescription: "Peer clusters and offload namespaces to them",
			Description: "Installs Liqo, peers clusters, and offloads namespaces: pods of one cluster run in others.\n",
		},
	}
	for _, c := range clients {
		plugin.Spec.Platforms = append(plugin.Spec.Platforms, krewPlatform{
			Selector: krewSelector{map[string]string{"os": c.os, "arch": c.arch}},
			URI:      downloads + "/" + version + "/" + c.name,
			SHA256:   c.sum,
			Bin:      c.executable,
			Files:    []krewFile{{c.executable, "."}, {"LICENSE", "."}},
		})
	}
	data, err := yaml.Marshal(plugin)
	if err != nil {
		return nil, fmt.Errorf("encoding the krew manifest: %w", err)
	}
	return data, nil
}
