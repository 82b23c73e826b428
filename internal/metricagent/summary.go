// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package metricagent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
)

// podStats is the statistics of one pod, as reported by a kubelet.
type podStats struct {
	ref map[string]string
	all map[string]json.RawMessage
}

// readSummary returns the statistics of pods by namespace, without the statistics of the node.
func readSummary(in io.Reader, keep func(namespace string) bool) (any, error) {
	var page struct {
		Pods []map[string]json.RawMessage `json:"pods"`
	}
	if err := json.NewDecoder(in).Decode(&page); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("reading the summary: %w", err)
	}
	out := map[string][]podStats{}
	for _, pod := range page.Pods {
		ref := map[string]string{}
		if err := json.Unmarshal(pod["podRef"], &ref); err != nil {
			return nil, fmt.Errorf("reading the summary of a pod: %w", err)
		}
		if namespace := ref["namespace"]; keep(namespace) {
			out[namespace] = append(out[namespace], podStats{ref, pod})
		}
	}
	return out, nil
}

// writeSummary writes the statistics of the namespaces in the keys, under the names in the values.
func writeSummary(out io.Writer, pages []any, namespaces map[string]string) error {
	pods := []map[string]json.RawMessage{}
	for _, page := range pages {
		for from, to := range namespaces {
			for _, pod := range page.(map[string][]podStats)[from] {
				ref := maps.Clone(pod.ref)
				ref["namespace"] = to
				encoded, err := json.Marshal(ref)
				if err != nil {
					return err
				}
				renamed := maps.Clone(pod.all)
				renamed["podRef"] = encoded
				pods = append(pods, renamed)
			}
		}
	}
	return json.NewEncoder(out).Encode(map[string]any{"node": map[string]any{}, "pods": pods})
}
