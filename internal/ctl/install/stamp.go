// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"bufio"
	"bytes"
	"fmt"
	"io"

	"helm.sh/helm/v4/pkg/postrenderer"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// metadataSetter is a post-renderer of Helm that sets the user's labels and annotations on every object.
type metadataSetter func(client.Object)

var _ postrenderer.PostRenderer = metadataSetter(nil)

// Run reads a stream of objects and writes them with the metadata.
func (s metadataSetter) Run(rendered *bytes.Buffer) (*bytes.Buffer, error) {
	marked := &bytes.Buffer{}
	for documents := utilyaml.NewYAMLReader(bufio.NewReader(rendered)); ; {
		document, err := documents.Read()
		if err == io.EOF {
			return marked, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading the rendered chart: %w", err)
		}
		objects, err := decodeManifests([]string{string(document)})
		if err != nil {
			return nil, err
		}
		for _, obj := range objects {
			s(obj)
			data, err := yaml.Marshal(obj.Object)
			if err != nil {
				return nil, fmt.Errorf("encoding %s %s: %w", obj.GetKind(), obj.GetName(), err)
			}
			fmt.Fprintf(marked, "---\n%s", data)
		}
	}
}

// setAll sets the metadata on a copy of each object.
func (s metadataSetter) setAll(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	marked := make([]*unstructured.Unstructured, len(objects))
	for n, obj := range objects {
		marked[n] = obj.DeepCopy()
		s(marked[n])
	}
	return marked
}
