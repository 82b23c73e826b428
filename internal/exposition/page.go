// Copyright 2026 The liqo.io/liqo authors
// SPDX-License-Identifier: Apache-2.0

package exposition

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"slices"
)

// NamespaceLabel is the label with the namespace of a series, and PodLabel with the pod.
const (
	NamespaceLabel = "namespace"
	PodLabel       = "pod"
)

// Page holds the series of some namespaces, sorted by metric and namespace. A Page is never changed after it was read.
type Page struct {
	families []*family
	// Invalid is the number of skipped lines.
	Invalid int
}

// family is a metric.
type family struct {
	name   string
	header []byte
	series map[string]*block // by namespace
}

// block holds the lines of a namespace without the value of their namespace labels, and the positions of these.
type block struct {
	text []byte
	gaps []int
}

func (b *block) addSample(s *Sample) {
	at := s.labels[s.findLabel(NamespaceLabel)]
	b.text = append(b.text, s.line[:at.value]...)
	b.gaps = append(b.gaps, len(b.text))
	b.text = append(append(b.text, s.line[at.valueEnd:]...), '\n')
}

// appendAs appends the lines with a namespace to out.
func (b *block) appendAs(out []byte, namespace string) []byte {
	from := 0
	for _, gap := range b.gaps {
		out = append(append(out, b.text[from:gap]...), namespace...)
		from = gap
	}
	return append(out, b.text[from:]...)
}

// ReadPage reads the series of the namespaces selected by keep. Series of the node, and of containers outside of pods, have no namespace and are
// dropped.
func ReadPage(in io.Reader, keep func(namespace string) bool) (*Page, error) {
	page, reader := &Page{}, NewReader(in)
	known := map[string]*family{}
	for {
		sample, err := reader.Next()
		if errors.Is(err, io.EOF) {
			page.Invalid = reader.Invalid
			return page, nil
		}
		if err != nil {
			return nil, err
		}
		namespace := sample.Label(NamespaceLabel)
		if namespace == "" || !keep(namespace) {
			continue
		}
		f := known[string(reader.Family())]
		if f == nil {
			f = &family{name: string(reader.Family()), header: bytes.Clone(reader.Header()), series: map[string]*block{}}
			known[f.name], page.families = f, append(page.families, f)
		}
		if f.series[namespace] == nil {
			f.series[namespace] = &block{}
		}
		f.series[namespace].addSample(sample)
	}
}

// WritePages writes the series of several pages as one page. Only the namespaces in the keys of rename are written, under the names in the values.
func WritePages(out io.Writer, pages []*Page, rename map[string]string) error {
	var order []string
	families := map[string][]*family{}
	for _, page := range pages {
		for _, f := range page.families {
			if families[f.name] == nil {
				order = append(order, f.name)
			}
			families[f.name] = append(families[f.name], f)
		}
	}
	slices.Sort(order)
	namespaces := slices.Sorted(maps.Keys(rename))
	to := make([]string, len(namespaces))
	for i, from := range namespaces {
		to[i] = escape.Replace(rename[from])
	}
	var buffer []byte
	for _, name := range order {
		buffer = buffer[:0]
		for _, f := range families[name] {
			for i, from := range namespaces {
				if lines := f.series[from]; lines != nil {
					buffer = lines.appendAs(buffer, to[i])
				}
			}
		}
		if len(buffer) == 0 {
			continue
		}
		if _, err := out.Write(families[name][0].header); err != nil {
			return err
		}
		if _, err := out.Write(buffer); err != nil {
			return err
		}
	}
	return nil
}
